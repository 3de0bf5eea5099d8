//! Properties of documents: what is written is read back exactly, hostile bytes are refused
//! without a panic, and every fault of a document is reported.

#![expect(clippy::unwrap_used, reason = "a test fails by panic")]

mod faults;
mod fuzz;
mod generate;
mod hostile;
mod reading;
mod round_trip;
mod schema;
