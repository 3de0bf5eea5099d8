//! Judge any document independently of the tools that wrote it.

fn main() {}
