//! Tables and pictures of any document.

fn main() {}
