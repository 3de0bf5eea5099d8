//! Turns a cluster document into a schedule document in one step.

use std::collections::BTreeMap;

use doc::{Cluster, SchedulePolicy};

use crate::document::{self, Beyond, Certificate};
use crate::online::{OnlineSettings, Played, play};
use crate::plan::bound_of;
use crate::switching::{Mode, charge};
use crate::{Assignment, PlanOptions, Planned, Policy, Problem, Schedule};

/// How to schedule a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The scheduler.
    pub policy: Policy,
    /// Whether to include the other policies for comparison.
    pub compare: bool,
    /// How the cost of switching is modelled; `None`: it is not counted.
    pub switching: Option<Mode>,
    /// Effort and limits of the search.
    pub options: PlanOptions,
}

/// Schedules a cluster.
///
/// # Errors
/// [`NoAnswer`] if the policy or an option cannot handle these jobs, or a time is out of range for
/// a document.
pub fn answer(cluster: Cluster, request: &Request) -> Result<doc::Schedule, NoAnswer> {
    let problem = document::problem(&cluster);
    if listed(&cluster).is_err() {
        let option = match request {
            Request { compare: true, .. } => Some("--policy all"),
            Request { policy, .. } if *policy != Policy::Hare => Some("--policy"),
            Request {
                switching: Some(_), ..
            } => Some("--switching"),
            _ => None,
        };
        let tasks = cluster.volume();
        option.map_or(Ok(()), |option| Err(NoAnswer::EachTask { option, tasks }))?;
    }
    if request.policy == Policy::Allox && problem.has_gangs() {
        return Err(NoAnswer::OneGpu);
    }
    if request.switching.is_some() && problem.shares() {
        return Err(NoAnswer::SharedSwitching);
    }
    let planned = match request.policy.baseline(&problem) {
        None => crate::plan(&problem, &request.options),
        Some(schedule) => judged(&problem, schedule),
    };
    let others = if request.compare {
        &Policy::BASELINES[..]
    } else {
        &[]
    };
    let footprints = document::footprints(&cluster);
    let charged = |schedule: &Schedule, mode| charge(&problem, &footprints, schedule, mode);
    let baselines = others.iter().filter_map(|&other| {
        let schedule = other.baseline(&problem)?;
        // For a fair comparison, the other policies pay the same switching costs.
        let schedule = match request.switching {
            None => schedule,
            Some(mode) => charged(&schedule, mode).schedule,
        };
        Some((SchedulePolicy::from(other), schedule))
    });
    let mut certificate = Certificate {
        policy: request.policy.into(),
        lower_bound: planned.lower_bound,
        bound: planned.bound,
        proven: planned.proven,
        noise: 0.0,
        baselines: baselines.collect(),
        switching: None,
    };
    let mut schedule = planned.schedule;
    if let Some(mode) = request.switching {
        let switched = charged(&schedule, mode);
        schedule = switched.schedule.clone();
        // The bound ignores the cost of switching, so optimality is no longer proven.
        certificate.proven = false;
        certificate.switching = Some((mode, switched));
    }
    Ok(document::document(
        cluster,
        &problem,
        &schedule,
        certificate,
    )?)
}

/// Why a cluster cannot be scheduled as requested.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoAnswer {
    /// The policy does not support gangs.
    #[error(
        "--policy allox gives a job one GPU, and this cluster has jobs with `gang`; choose another policy"
    )]
    OneGpu,
    /// The model of switching assumes that a GPU runs one task at a time.
    #[error(
        "--switching is modelled for GPUs that run one task at a time, and this cluster has `sharing`; leave out one of the two"
    )]
    SharedSwitching,
    /// The cluster has more tasks than a schedule document can list.
    #[error(
        "a simulation lists every task, at most {}, and this cluster has {tasks}; merge rounds, plan it with `mt-cluster \
         plan`, or let `mt-cluster online --events` decide while the jobs run",
        doc::Schedule::MOST_TASKS
    )]
    TooMany {
        /// Tasks of the cluster.
        tasks: u64,
    },
    /// An option needs every single task, but the cluster has so many that rounds are merged.
    #[error(
        "{option}: looks at every task, of which there may be {}, and this cluster has {tasks}; leave it out, or merge \
         rounds",
        doc::Schedule::MOST_TASKS
    )]
    EachTask {
        /// The option.
        option: &'static str,
        /// Tasks of the cluster.
        tasks: u64,
    },
    /// A time of the schedule is too large for a document.
    #[error(transparent)]
    Beyond(#[from] Beyond),
}

/// Checks that a schedule document can list every task.
fn listed(cluster: &Cluster) -> Result<(), NoAnswer> {
    let tasks = cluster.volume();
    match tasks > doc::Schedule::MOST_TASKS {
        true => Err(NoAnswer::TooMany { tasks }),
        false => Ok(()),
    }
}

/// The schedule of a baseline, with the best lower bound.
fn judged(problem: &Problem, schedule: Schedule) -> Planned {
    let (bound, lower_bound) = bound_of(problem, &schedule);
    let cost = schedule.cost(problem);
    Planned {
        cost,
        lower_bound,
        bound,
        proven: lower_bound >= cost,
        schedule,
        tries: 0,
        nodes: 0,
    }
}

/// Simulates online scheduling of a cluster. Durations deviate from the planned ones by up to
/// `noise` (relative).
///
/// # Errors
/// [`NoAnswer`] if there are more tasks than a schedule can list, or a time is out of range for a
/// document.
pub fn answer_online(
    cluster: Cluster,
    noise: f64,
    settings: OnlineSettings,
) -> Result<(doc::Schedule, Played), NoAnswer> {
    listed(&cluster)?;
    let problem = document::problem(&cluster);
    let played = play(&problem, noise, settings);
    // The bound holds for every schedule with the planned durations. It needs an incumbent: a cheap
    // play without noise.
    let planned = play(
        &problem,
        0.0,
        OnlineSettings {
            effort: Some(0),
            ..settings
        },
    );
    let (bound, lower_bound) = bound_of(&problem, &planned.schedule);
    let noise = deviation(&problem, &played.schedule).min(noise);
    let certificate = Certificate {
        policy: SchedulePolicy::Online,
        // No schedule costs less than this, even if every duration is shorter by `noise`.
        lower_bound: lower_bound * (1.0 - noise),
        bound,
        proven: false,
        noise,
        baselines: Vec::new(),
        switching: None,
    };
    let schedule = document::document(cluster, &problem, &played.schedule, certificate)?;
    Ok((schedule, played))
}

/// Largest relative deviation of a duration from the planned one.
fn deviation(problem: &Problem, schedule: &Schedule) -> f64 {
    let part = |lasted: f64, planned: f64| {
        if planned > 0.0 {
            (lasted / planned - 1.0).abs()
        } else {
            0.0
        }
    };
    let of = |(a, ((train, sync), work)): (&Assignment, ((f64, f64), f64))| {
        part(work, train).max(part(a.synced - a.trained, sync))
    };
    // `works` fails only for an infeasible schedule.
    let works = schedule.works(problem).unwrap_or_default();
    let paces = schedule.paces(problem).into_iter().zip(works);
    let all = schedule.assignments.iter().zip(paces);
    all.map(of).fold(0.0, f64::max)
}

/// A readable summary: the schedule's cost, gap and mean flow time, and the costs of the baselines.
pub fn explained(schedule: &doc::Schedule) -> String {
    let proof = if schedule.proven {
        "proven optimal".to_owned()
    } else {
        let percent = 100.0 * schedule.gap;
        let bound = schedule.bound.name();
        format!("at most {percent:.2} % above the optimum ({bound})")
    };
    let mut text = format!(
        "{}: weighted completion {:.1}, {proof}; mean {:.1} s from arrival to completion",
        schedule.policy.name(),
        schedule.cost,
        schedule.mean.get()
    );
    for other in &schedule.baselines {
        let less = 100.0 * (1.0 - schedule.flow_cost / other.flow_cost);
        text.push_str(&format!(
            "\n  {:>12}: {:.1}, {:.3} times the bound; weighted flow time is {less:.1} % below it",
            other.name.name(),
            other.cost,
            other.over_bound
        ));
    }
    text
}

/// Solo rates in samples per second by GPU type and task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SoloRates(BTreeMap<(String, String), f64>);

impl SoloRates {
    /// Adds the solo rates of a profile that was measured on GPUs of type `kind`. If the profile
    /// has several batch sizes of a task, the highest rate counts: alone, a task would run at its
    /// best batch size.
    pub fn add(&mut self, kind: &str, profile: &doc::Profile) {
        for sample in profile.samples.iter().filter(|s| s.tasks.len() == 1) {
            for measured in &sample.tasks {
                let key = (kind.to_owned(), measured.id.as_str().to_owned());
                let rate = self.0.entry(key).or_insert(0.0);
                *rate = rate.max(measured.throughput.get());
            }
        }
    }

    /// Sets the training times of every job that has the name of a measured task. The error names
    /// the job and what it lacks.
    pub fn apply(&self, cluster: &mut Cluster) -> Result<(), String> {
        for job in &mut cluster.jobs {
            for ((kind, task), &rate) in &self.0 {
                if task != job.id.as_str() {
                    continue;
                }
                let Some(samples) = job.samples else {
                    return Err(format!(
                        "job {task}: give samples_per_task, or no --profile"
                    ));
                };
                let seconds = units::Seconds::new(samples / rate)
                    .map_err(|error| format!("job {task} on {kind}: training time: {error}"))?;
                job.train.insert(kind.clone(), seconds);
            }
        }
        Ok(())
    }
}
