//! Measure the throughput of co-running training tasks.

fn main() {}
