//! What a round takes in a given order: [`round`] plays it with every phase and hold, the others only as far as a
//! search needs it.

pub mod branch;
pub mod events;
pub mod full_duplex;
pub mod gpu;
pub mod half_duplex;
pub mod held;
pub mod round;
pub mod schedule;
pub mod sequence;
