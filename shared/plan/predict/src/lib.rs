//! Prediction of the throughput of every task of a co-run.
//!
//! `(P_1 .. P_n) = Pre((B_1, R_1) .. (B_n, R_n))`: given which tasks run together on one device,
//! at which batch sizes and shares, how many samples per second does each of them train?
//! [`fit()`] learns a [`Predictor`] from measured co-runs (a [`Dataset`]).
//!
//! Every family rests on the solo rates and on a law of a step with a few constants of meaning;
//! a Gaussian process learns what the law leaves. Everything is learnt and predicted as the
//! logarithm of the step time, because errors are relative.
//!
//! Tasks that the workload describes alike are copies of one model: what is measured of one is
//! learnt for all, unless their solo runs differ.
//!
//! Beside the models of the tasks stands one process of all of them, which learns from ten co-runs
//! what each task's own model would need a hundred for. It counts wholly unless left-out co-runs say
//! that the tasks' own models are better by more than chance; where a batch size, or a task, never
//! ran among others, that is asked of batch sizes and tasks that are left out whole.
//!
//! # Where is what
//!
//! From what stands on nothing to what stands on everything; a file knows those before it only.
//!
//! 1. Measurements: `dataset`, `document` (from a profile), `domain` (what was covered).
//! 2. What every family rests on: `structured` (the law of a step), `anchor` and `part_share` (solo
//!    steps), `workload_law`, `copies` (tasks of one model as one kind, and back), together in `base`;
//!    `features`, `rows` (what regressions see).
//! 3. Families: `gp`, `poly`, `trees`, of one task in `model`; `pool`, the process of all tasks,
//!    `sum`, that of what a co-run makes of the device, and `unseen`, where they stand in; `crowd`, where
//!    more tasks run than were measured together.
//! 4. The answer: `predictor`, `trust` (how wide its intervals are), `batch` (many at once), `outside`,
//!    `kind` (how far from what was measured), `interference`, `throughput`.
//! 5. Learning: `validation` (what is left out), `report` (what a fit says of itself), `fit`; `params`
//!    writes a model and reads it.
//! 6. On top: `summary`, `accuracy`, `contradictions`, `candidates`, `runs`, `scale`, and `design`, which asks
//!    what to measure next.

mod accuracy;
mod anchor;
mod base;
mod batch;
mod candidates;
mod contradictions;
mod copies;
mod crowd;
mod dataset;
pub mod design;
mod document;
mod domain;
mod error;
mod features;
mod fit;
mod gp;
mod interference;
mod kind;
mod model;
mod outside;
mod params;
mod part_share;
mod poly;
mod pool;
mod predictor;
mod report;
mod rows;
pub mod runs;
mod scale;
mod structured;
mod sum;
pub mod summary;
mod throughput;
mod trees;
mod trust;
mod unseen;
mod validation;
mod workload_law;

pub use accuracy::Accuracy;
pub use anchor::Anchor;
pub use candidates::candidates;
pub use contradictions::Contradiction;
pub use dataset::{Dataset, Sample, TaskSpec};
pub use doc::Method;
pub use doc::params::{Kind, KindError};
pub use error::PredictError;
pub use features::Driver;
pub use fit::{FitOptions, Fitted, fit, fit_by_merit};
pub use interference::StepParts;
pub use outside::Outside;
pub use predictor::{Prediction, Predictor};
pub use report::{FitReport, TaskReport, Worst};
