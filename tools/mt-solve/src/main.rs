//! Choose batch sizes and GPU shares.

fn main() {}
