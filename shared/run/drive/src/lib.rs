//! Runs schedules: every task becomes a process on its GPU.
//!
//! An [`Agenda`] knows which task of which round is next on every GPU and what may start now; it knows no process.
//! [`run()`] starts tasks as the agenda says, watches them, and writes the events of a run. The planned order of
//! every GPU is kept; a task starts when its GPU is free and its round is ready, whenever that is. A failed task is
//! restarted; if a job or a GPU must be given up, or durations deviate from the plan, the tasks that have not
//! started are planned again.
//!
//! How a task is started decides where it runs: in a control group with a part of this machine, with
//! one GPU of this machine visible, or behind a prefix (`srun …`, `ssh …`) on another one. The driver
//! is the same. [`live()`] leaves starting tasks to a live system, which reports events back.

mod driver;
mod each;
mod journal;
mod live;
mod orders;
mod parked;
mod run;
mod seats;
mod settings;
mod sources;
mod task_events;
mod user_events;
mod view;

pub use cluster::{Agenda, Place};
pub use each::RunRequest;
pub use live::live;
pub use run::run;
pub use seats::{Simulated, Where};
pub use settings::{KeptIn, Settings};
pub use sources::{Tables, import, order_queue, solo_rates, write_cluster};
