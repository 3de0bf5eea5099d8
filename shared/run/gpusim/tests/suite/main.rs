//! The simulator compared with recorded measurements, and its properties.

mod orion;
mod properties;
