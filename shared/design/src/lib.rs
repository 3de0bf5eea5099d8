//! Sampling designs, and the session that measures them on a device.
//!
//! A [`Sequence`] says which configuration comes next: solo runs first, then a grid, random draws
//! ([`sequence::Random`]), or what is expected to improve the objective ([`sequence::Adaptive`]).
//! A [`Session`](session::Session) measures one after another on a `device::Device` and writes a
//! record for each; an interrupted profile is gone on with from its records ([`resume`]).
//! Configurations may also come from documents or a table ([`configs`], [`table`]), and
//! measurements from elsewhere ([`import`]). [`run`] puts these together for every workload of
//! the input.

pub mod campaign;
pub mod configs;
pub mod import;
pub mod interrupt;
pub mod resume;
pub mod sequence;
pub mod session;
pub mod settings;
pub mod source;
pub mod table;
pub mod trace;

pub use campaign::{list_devices, run};
pub use sequence::{Configuration, Sequence};
pub use settings::{DesignSettings, Settings, Strategy, WindowSettings};
