//! Fit a co-run throughput model to a profile.

fn main() {}
