//! Sampling designs, and the session that measures them on a device.
//!
//! A [`Sequence`] decides which configuration comes next: solo runs first, then a grid, random draws
//! ([`sequence::Random`]), or the co-run with the highest expected improvement of the objective
//! ([`sequence::Adaptive`]). A [`Session`](session::Session) measures the configurations one after another on a
//! `device::Device` and writes a record for each to a [`Sink`]. An interrupted profile continues from its records
//! ([`resume`]); it can end when another co-run is not worth its time ([`worth`]). Configurations may also come from
//! documents or a table ([`configs`], [`table`]), and measurements from elsewhere ([`import`]).

mod ask;
pub mod configs;
mod error;
mod findings;
pub mod import;
pub mod resume;
pub mod sequence;
pub mod session;
mod settings;
mod sink;
pub mod table;
pub mod trace;
pub mod worth;

pub use ask::{Predicted, RowForm, ask, rows_text};
pub use error::DesignError;
pub use sequence::{Configuration, Sequence};
pub use session::{SessionError, SessionResult, describe_progress};
pub use settings::{DesignSettings, Strategy, WindowSettings};
pub use sink::{Record, Sink};
