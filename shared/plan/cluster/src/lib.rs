//! Scheduling of many training jobs on GPUs of several kinds.
//!
//! A job is a sequence of rounds of parallel tasks. A task of job n on a GPU of class g trains for `Tc[n,g]`
//! and then synchronises for `Ts[n,g]`; only training occupies the GPU. The next round starts when every task
//! of the current one is synchronised, but the tasks of a round need not run at the same time (*relaxed
//! scale-fixed synchronisation*, Hare, HPDC 2022). The objective is to minimise the weighted sum of
//! completion times, `sum w_n C_n`.
//!
//! [`plan()`] returns a [`Schedule`] and a lower bound that holds for every schedule. Other
//! schedulers, as their authors describe them, are in [`baselines`], the bounds in [`bounds`].

mod agenda;
mod answer;
pub mod baselines;
pub mod bounds;
mod dispatch;
pub mod document;
mod exact;
mod fleet;
mod gang;
pub mod generate;
pub mod import;
mod lane;
pub mod list;
mod live;
mod merged;
mod migrate;
mod online;
pub mod order;
mod outlook;
mod plan;
mod problem;
mod schedule;
mod search;
mod sequence;
mod sharing;
mod state;
pub mod switching;

pub use agenda::{Agenda, Lanes, followed};
pub use answer::{NoAnswer, Request, SoloRates, answer, answer_online, explained};
pub use dispatch::{Player, packed};
pub use document::Beyond;
pub use exact::{Exact, exact};
pub use fleet::{Fleet, FleetError, fleet};
pub use gang::Together;
pub use live::Live;
pub use migrate::migrating;
pub use online::{
    ByPriority, Decision, Online, OnlineSettings, Played, Queue, Refused, SettingsError, Taken,
    play,
};
pub use outlook::Names;
pub use plan::{Bound, PlanOptions, Planned, Policy, bound_of, plan};
pub use problem::{Class, Problem, TrainingJob};
pub use schedule::{Assignment, Schedule, TaskPlace};
pub use search::{Budget, Decoder, Search, decode, player, shortest_chain, smith};
pub use sharing::CoRates;
pub use state::{ClusterState, JobProgress, Priorities, Resident, Start, Underway};
