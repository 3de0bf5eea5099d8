//! Order transfers and compute of a round.

fn main() {}
