//! Jobs that come and go on one device.
//!
//! A [`book::Book`] holds what is known of every job, a [`journal`] keeps it on the disk, a
//! [`policy::Policy`] decides which jobs run under which shares, and an [`explore::Explorer`] finds out how
//! many together do most. None of them starts a process or reads a clock; tests play them on virtual time.
//!
//! [`server::Server`] carries out what is decided, [`client::Queue`] speaks to it, and [`verbs`] are what
//! people and programs say.
//!
//! What it holds to:
//!
//! - what was confirmed to whoever added it is on the disk, and is done once or ended with a reason;
//! - a job that runs is started again only after its processes have gone;
//! - the number of jobs, the memory that they ask for and the sum of their shares are never above the
//!   limits;
//! - one process for each queue writes its journal and starts its jobs.

mod admit;
mod answer;
pub mod args;
pub mod book;
pub mod client;
pub mod command;
pub mod explore;
pub mod journal;
mod last;
pub mod learnt;
pub mod message;
mod place;
pub mod policy;
pub mod processors;
pub mod server;
pub mod show;
mod socket;
mod store;
pub mod verbs;
mod watch;

pub use admit::exec;
