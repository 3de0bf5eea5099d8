//! A queue or a launched run on a terminal, drawn anew every second.
//!
//! `queued` and `launched` say what is to be seen, as rows of text; `screen` draws it; `busy` tells how
//! busy the device is.

mod busy;
mod launched;
mod queued;
mod screen;
mod watch;

pub use launched::Launched;
pub use queued::queued;
pub use screen::{Place, Row, Screen, draw, text};
pub use watch::{TopArgs, run};
