//! A built-in training job that speaks the worker protocol.

fn main() {}
