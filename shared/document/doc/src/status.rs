use std::collections::HashSet;

use units::{Seconds, TaskId, Weight};

use crate::wire::{self, JobState, TaskStatus, Wire as _};
use crate::{Checker, Code, Document};

/// Status of a cluster's jobs at a given time.
///
/// Names of jobs are unique. A separate checker decides whether end times and states are
/// consistent.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterStatus {
    /// The time for which the status holds.
    pub time: Seconds,
    /// GPUs that must not be used at present.
    pub lost: Vec<String>,
    /// The jobs, in order of their arrivals.
    pub jobs: Vec<JobStatus>,
}

/// Status of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobStatus {
    /// Name.
    pub job: TaskId,
    /// State of the job: running, waiting, done or cancelled.
    pub state: JobState,
    /// Weight of its completion time.
    pub weight: Weight,
    /// Number of completed rounds, at most `rounds`.
    pub rounds_done: u32,
    /// Total number of rounds.
    pub rounds: u32,
    /// Its tasks that are running.
    pub running: Vec<TaskStatus>,
    /// Why the job waits, for people.
    pub waits: Option<String>,
    /// When and on which GPU its next task is expected to start.
    pub next: Option<(Seconds, String)>,
    /// When the job is expected to be complete, or when it completed.
    pub end: Option<ExpectedEnd>,
    /// Deadline of the job.
    pub deadline: Option<Seconds>,
}

/// When a job is expected to be complete.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedEnd {
    /// With the durations as declared.
    pub at: Seconds,
    /// 5 % quantile: the job ends later than this in nineteen of twenty cases.
    pub low: Seconds,
    /// 95 % quantile: the job ends earlier than this in nineteen of twenty cases.
    pub high: Seconds,
}

impl Document for ClusterStatus {
    type Wire = wire::ClusterStatus;

    fn from_wire(wire: &wire::ClusterStatus, c: &mut Checker) -> Option<Self> {
        let time = c.unit("time_s", Seconds::new(wire.time_s));
        let jobs = c.list("jobs", &wire.jobs, job);
        let mut seen = HashSet::new();
        let twice = wire.jobs.iter().position(|j| !seen.insert(&j.job));
        if let Some(at) = twice {
            c.field("jobs", |c| {
                c.index(at, |c| {
                    let problem = format_args!("there is another job called {}", wire.jobs[at].job);
                    c.fault(Code::Duplicate, problem, "list each job once");
                });
            });
            return None;
        }
        Some(Self {
            time: time?,
            lost: wire.lost.clone(),
            jobs: jobs?,
        })
    }

    fn to_wire(&self) -> wire::ClusterStatus {
        wire::ClusterStatus {
            schema: wire::ClusterStatus::SCHEMA.to_owned(),
            time_s: self.time.get(),
            lost: self.lost.clone(),
            jobs: self.jobs.iter().map(job_to_wire).collect(),
        }
    }
}

fn job(wire: &wire::JobStatus, c: &mut Checker) -> Option<JobStatus> {
    let name = c.unit("job", TaskId::new(&wire.job));
    let weight = c.unit("weight", Weight::new(wire.weight));
    let start = c.optional_unit("next_start_s", wire.next_start_s, Seconds::new);
    let end = c.optional_unit("end_s", wire.end_s, Seconds::new);
    let low = c.optional_unit("end_low_s", wire.end_low_s, Seconds::new);
    let high = c.optional_unit("end_high_s", wire.end_high_s, Seconds::new);
    let deadline = c.optional_unit("deadline_s", wire.deadline_s, Seconds::new);
    let mut together = |names: &str, all: &[bool]| {
        let whole = all.iter().all(|a| *a == all[0]);
        if !whole {
            let problem = format_args!("some of {names} are given and some are not");
            c.fault(Code::MissingField, problem, "give all of them or none");
        }
        whole
    };
    let ends = [&end, &low, &high].map(|e| matches!(e, Some(Some(_))));
    let next = [wire.next_start_s.is_some(), wire.next_gpu.is_some()];
    let whole = together("end_s, end_low_s and end_high_s", &ends)
        & together("next_start_s and next_gpu", &next);
    if wire.rounds_done > wire.rounds {
        c.field("rounds_done", |c| {
            let problem = format_args!("{} of {} rounds", wire.rounds_done, wire.rounds);
            c.fault(Code::OutOfRange, problem, "give at most all rounds");
        });
        return None;
    }
    whole.then_some(())?;
    let end = end?.zip(low?).zip(high?);
    Some(JobStatus {
        job: name?,
        state: wire.state,
        weight: weight?,
        rounds_done: wire.rounds_done,
        rounds: wire.rounds,
        running: wire.running.clone(),
        waits: wire.waits.clone(),
        next: start?.zip(wire.next_gpu.clone()),
        end: end.map(|((at, low), high)| ExpectedEnd { at, low, high }),
        deadline: deadline?,
    })
}

fn job_to_wire(job: &JobStatus) -> wire::JobStatus {
    wire::JobStatus {
        job: job.job.to_string(),
        state: job.state,
        weight: job.weight.get(),
        rounds_done: job.rounds_done,
        rounds: job.rounds,
        running: job.running.clone(),
        waits: job.waits.clone(),
        next_start_s: job.next.as_ref().map(|n| n.0.get()),
        next_gpu: job.next.as_ref().map(|n| n.1.clone()),
        end_s: job.end.map(|e| e.at.get()),
        end_low_s: job.end.map(|e| e.low.get()),
        end_high_s: job.end.map(|e| e.high.get()),
        deadline_s: job.deadline.map(Seconds::get),
    }
}
