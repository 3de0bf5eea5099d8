//! Prediction of the throughput of every task of a co-run.
//!
//! Given the tasks that run together on one device, with their batch sizes and shares: how many samples per second
//! does each train? `(P_1 .. P_n) = Pre((B_1, R_1) .. (B_n, R_n))`. [`fit()`] learns a [`Predictor`] from measured
//! co-runs (a [`Dataset`]).
//!
//! Every family builds on the solo rates and on a law of a step with a few interpretable constants;
//! a Gaussian process learns the residuals of the law. Everything is learnt and predicted as the
//! logarithm of the step time, because errors are relative.
//!
//! Tasks that the workload describes identically are copies of one model: measurements of one copy apply to all,
//! unless their solo runs differ.
//!
//! In addition to the models of single tasks, there is one process for all tasks. It learns as much from ten co-runs
//! as the model of a single task from a hundred. It gets full weight unless held-out co-runs show that the tasks' own
//! models are significantly better. For batch sizes and tasks that never ran with others, this comparison holds out
//! entire batch sizes and tasks.
//!
//! # Where to find what
//!
//! Modules in the order of their dependencies; a file depends only on those before it.
//!
//! 1. Measurements: `dataset`, `document` (from a profile), `domain` (the measured domain).
//! 2. Basis of every family: `structured` (the law of a step), `anchor` and `part_share` (solo steps),
//!    `workload_law`, `copies` (tasks of one model as one kind, and back), together in `base`; `features`, `rows`
//!    (inputs of the regressions).
//! 3. Families: `gp`, `trees`, combined for one task in `model`; `pool`, the process for all tasks; `sum`, the
//!    process for the total of a co-run; `unseen`, for batch sizes and tasks that never ran with others; `crowd`, for
//!    more tasks than were measured together.
//! 4. Prediction: `predictor`, `trust` (width of intervals), `batch` (many co-runs at once), `outside`, `kind`
//!    (distance from the measurements), `throughput`.
//! 5. Learning: `validation` (by held-out data), `report` (results of a fit), `fit`; `params` reads and writes
//!    models.
//! 6. On top: `summary`, `accuracy`, `contradictions`, `candidates`, `repeats`, `runs`, `scale`, and `design`, which
//!    chooses what to measure next.

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
mod kind;
mod model;
mod outside;
mod params;
mod part_share;
mod pool;
mod predictor;
mod repeats;
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
pub use outside::Outside;
pub use predictor::{Prediction, Predictor};
pub use repeats::between;
pub use report::{FitReport, TaskReport, Worst};
