//! Tests of the queue as a whole.

mod simulation;
mod world;
