//! Runs schedules: every task becomes a process on its GPU.
//!
//! An [`Agenda`] knows the next task on every GPU and which tasks may start now; it knows no processes. [`run()`]
//! starts tasks according to the agenda, watches them, and writes the events of a run. It keeps the planned order on
//! every GPU, but not the planned times: a task starts when its GPU is free and its round is ready. A failed task is
//! restarted; if a job or a GPU must be given up, or durations deviate from the plan, the tasks that have not started
//! are planned again.
//!
//! A task runs in a control group with a part of this machine, with one visible GPU of this machine, or on another
//! machine through a prefix command (`srun …`, `ssh …`). The driver is the same in all cases. [`live()`] leaves
//! starting tasks to a live system, which reports events back.

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

pub use cluster::{Agenda, TaskPlace};
pub use each::RunRequest;
pub use live::live;
pub use run::run;
pub use seats::{Simulated, Where};
pub use settings::{KeptIn, Settings};
pub use sources::{Tables, import, order_queue, solo_rates, write_cluster};
