//! Process groups, supervision, signals, logs and worker pools.
//!
//! A [`Supervisor`] starts jobs, each in its own process group, reads their output, and reports what happens as
//! [`Event`]s. It works only in the thread that calls [`Supervisor::poll`]: a job that prints faster than it is read
//! blocks, so memory is bounded whatever jobs print.
//!
//! Invariants of this crate:
//!
//! - a job is an argument list; no shell is involved, and its environment is passed explicitly;
//! - a job that is asked to end is over when all its processes have ended or the grace period has passed; a job that
//!   ends by itself is over with its first process. Then none of its descendants is left running, not even a daemon;
//! - the same holds for a [`Helper`], a program that is not a job;
//! - when this process ends, in whatever way, its jobs end; the next start finds control groups and directories that a
//!   SIGKILL left behind, through the [`RunDir`] of the dead process;
//! - directories are private (mode 0700, files 0600), and a symbolic link is never followed to
//!   reach them.

mod assignment;
pub mod attend;
pub mod cgroup;
mod cpus;
mod defaults;
mod descriptors;
pub mod guard;
mod held;
mod helper;
mod journal;
mod lines;
mod log;
mod memory;
pub mod mps;
mod neighbours;
mod origin;
mod passing;
mod private;
pub mod process;
pub mod program;
mod protocol;
mod records;
mod run_dir;
mod sign;
mod signals;
mod spawn;
mod spec;
mod supervision;
mod supervisor;

pub use assignment::Assignment;
pub use cpus::{Cpus, CpusError};
pub use defaults::defaults;
pub use descriptors::seal;
pub use guard::Guard;
pub use held::Held;
pub use helper::Helper;
pub use journal::{Journal, as_seconds};
pub use lines::LineCutter;
pub use log::{LogLimits, RotatingLog, last_words, plain};
pub use memory::{MemoryMeter, MemoryUse, OutOfMemory, Ram};
pub use neighbours::Neighbours;
pub use origin::{Origin, OriginError};
pub use passing::{PASSED_VARIABLES, Passing};
pub use private::{open_private_dir, write_private};
pub use protocol::{
    Counter, Message, NO_MATCH, ProgressError, ProgressSource, Units, number, without_colours,
};
pub use records::{Records, RecordsError};
pub use run_dir::{Cleaned, Resource, RunDir, RunDirError};
pub use sign::{MARK, bear_sign};
pub use signals::{Arrived, Signals, pass_on, relay};
pub use spawn::SpawnError;
pub use spec::JobSpec;
pub use supervision::{Supervision, TimeLimits};
pub use supervisor::{
    Event, Exit, Happening, JobId, Order, OrderError, Steps, Supervisor, strays_told,
};
