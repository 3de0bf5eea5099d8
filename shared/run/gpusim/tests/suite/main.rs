//! The simulator against recorded measurements, and its properties.

mod orion;
mod properties;
