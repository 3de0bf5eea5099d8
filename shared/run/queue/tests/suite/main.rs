//! Tests of the queue as a whole.

mod cards;
mod devices;
mod journal;
mod simulation;
mod sizing;
mod world;
