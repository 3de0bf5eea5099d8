//! Jobs that come and go on the devices of a machine.
//!
//! A [`book::Book`] holds the state of every job, a [`journal`] keeps it on disk, a [`policy::Policy`] decides which
//! jobs run under which shares, and an [`explore::Explorer`] finds how many together give the highest throughput. None
//! of them starts a process or reads a clock, so tests run them in virtual time.
//!
//! [`server::Server`] carries out the decisions, and [`client::Queue`] talks to it for the commands of `mt`.
//!
//! Invariants:
//!
//! - a job whose addition was confirmed is on disk, and either succeeds exactly once or ends with a reason;
//! - a job that runs is started again only after its processes have gone;
//! - the number of running jobs, their requested memory and the sum of their shares never exceed the
//!   limits;
//! - one process for each queue writes its journal and starts its jobs.

mod after;
mod answer;
pub mod book;
pub mod choice;
pub mod client;
pub mod command;
pub mod devices;
mod entry;
pub mod explore;
pub mod failures;
mod fit;
mod forecast;
mod index;
pub mod journal;
mod lane;
mod last;
pub mod learnt;
pub mod logs;
mod memory;
pub mod message;
mod meter;
pub mod metrics;
mod model;
pub mod others;
mod place;
pub mod policy;
pub mod processors;
mod recover;
pub mod results;
mod safe;
mod search;
pub mod server;
pub mod show;
mod socket;
pub mod store;
mod values;
mod watch;
mod why;
