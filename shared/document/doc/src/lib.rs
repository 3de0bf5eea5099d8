//! The documents that the tools exchange.
//!
//! A document is one JSON object; a *profile* and a *run* are sequences of objects, one per line. The hidden
//! module `wire` holds the format of the files, field by field; the parameters of a predictor are plain data in
//! [`params`], in the same form as in a file. The types at the top level of this crate ([`Workload`],
//! [`Profile`], [`Model`], [`Plan`], [`Timeline`], [`RunEvent`], [`Allocation`]) have been validated: every
//! quantity is a type of `units`, and every reference resolves. [`Documents`] turns bytes into validated
//! documents and reports *every* fault of a document with its JSON path, a numbered [`Code`] and advice.
//! [`write_line`] turns a document back into bytes without loss: a number that was read is written as the same
//! number.
//!
//! Input is bounded: a document may have at most [`MAX_DOCUMENT_BYTES`] bytes and
//! [`MAX_DEPTH`] levels of nesting.

mod allocation;
mod any;
mod checker;
mod cluster;
mod code;
mod devices;
mod document;
mod event;
mod fault;
mod frame;
mod gpu;
mod human;
mod measurements;
mod model;
pub mod params;
mod place;
mod plan;
mod profile;
mod queue;
mod read;
mod relax;
mod run;
mod schedule;
mod schema;
mod shape;
mod status;
mod timeline;
mod training;
#[doc(hidden)] // Public for the tests of this crate alone.
pub mod wire;
mod workload;
mod write;

pub use allocation::{Allocation, Allotment, Expected, Gain};
pub use any::{Any, AnyDocuments};
pub use checker::Checker;
pub use cluster::{Cluster, ClusterJob, Gang, GpuGroup, Sharing};
pub use code::Code;
pub use document::Document;
pub use event::Event;
pub use fault::{Fault, Faults, ReadError};
pub use frame::{Frame, Frames, MAX_DEPTH, MAX_DOCUMENT_BYTES};
pub use gpu::{read_gpu, write_gpu};
pub use human::Form;
pub use measurements::{Measurement, Measurements, Profiles};
pub use model::{Corun, Model};
pub use plan::{
    Answer, Baseline, ByHand, Candidate, Candidates, Choice, Constraints, Decision, Estimate,
    FastestSamples, Feasible, Given, GpuPlan, Infeasible, Marginal, ParetoPoint, PayOff, Plan,
    PlanTask, RateRow, Target, TaskTarget, Verdict, WorkAlone,
};
pub use profile::{
    Failure, Header, Launch, Measured, MeasuredNoiseScale, Profile, ProfileEnd, ProfileRecord,
    Sample, WholeRun,
};
pub use queue::{QueueArrival, QueueEstimate, QueueEvent, QueueNews, QueueStart, QueueTask};
pub use read::{Documents, Records};
pub use run::{
    EventKind, EventPayload, Learning, Planned, ProcessEnd, RunEvent, ShareChoice, TaskProgress,
    TaskSummary,
};
pub use schedule::{Schedule, ScheduledTask};
pub use schema::{error_reference, readers, schemas};
pub use status::{ClusterStatus, ExpectedEnd, JobStatus};
pub use timeline::{Hold, Phase, Timeline};
pub use training::{Arrival, TrainingBatch, TrainingEvent, TrainingNews};
pub use wire::{
    Aim, Balance, BatchPolicy, Chosen, ConstraintKind, DesignKind, DeviceFingerprint, DeviceKind,
    DeviceList, Duplex, EfficiencySource, FailureCause, GpuDescription, GpuUse, GradientNoise,
    HostDescription, Infeasibility, JobState, LayerDescription, LayerGroup, ListedDevice, Method,
    Objective, ObjectiveKind, PhaseKind, PredictionError, Progress, Proof, Provenance, RatesKind,
    ScheduleBaseline, ScheduleBound, ScheduleClass, SchedulePolicy, Scheme, Search, SoloRate,
    StopReason, Switching, SwitchingMode, TaskStatus, WorkKind,
};
pub use workload::{
    DeviceSpec, Efficiency, EfficiencyCurve, EfficiencyRow, GpuSpec, HostCost, Job, Link, Memory,
    OtherTasks, Task, UpdateBytes, Workload,
};
pub use write::{name_of, write_line, write_pretty};
