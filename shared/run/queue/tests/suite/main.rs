//! Tests of the queue as a whole.

mod journal;
mod simulation;
mod world;
