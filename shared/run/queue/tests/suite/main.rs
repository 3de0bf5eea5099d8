//! Tests of the queue as a whole.

mod cards;
mod devices;
mod journal;
mod made;
mod simulation;
mod sizing;
mod world;
