//! Launch a plan or timeline and supervise it.

fn main() {}
