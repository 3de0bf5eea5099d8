//! A queue or a launched run on a terminal, redrawn every second.
//!
//! `queued` and `launched` produce the content as rows of text, `screen` draws it, and `busy` measures
//! how busy the device is.

mod busy;
mod launched;
mod queued;
mod screen;
mod watch;

pub use watch::{TopArgs, run};
