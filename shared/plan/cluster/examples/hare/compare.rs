//! Every policy on one instance, and means over instances.

use cluster::{PlanOptions, Policy, Problem, Schedule, plan};

use crate::Outcome;

/// Limit of the poster's count of jobs, seconds.
const SOON: f64 = 1500.0;

/// What a policy reaches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reached {
    /// `sum w (C - a)`.
    pub flow: f64,
    /// `sum w C`.
    pub cost: f64,
    /// Mean of `C - a` in seconds.
    pub mean: f64,
    /// Part of the jobs that are complete 25 minutes after their arrival.
    pub soon: f64,
}

/// Ours and the baselines on an instance.
#[derive(Debug, Clone)]
pub struct Comparison {
    pub ours: Reached,
    /// In the order of [`Policy::BASELINES`].
    pub others: Vec<Reached>,
    /// No schedule has a lower `sum w C`.
    pub bound: f64,
    /// The same for `sum w (C - a)`.
    pub flow_bound: f64,
    /// Seconds of CPU that the plan and its bound took.
    pub cpu_s: f64,
    pub schedule: Schedule,
}

/// Plans an instance with `starts` of effort, and runs every baseline on it.
pub fn compare(problem: &Problem, starts: u64) -> Outcome<Comparison> {
    let before = cpu_seconds()?;
    let options = PlanOptions {
        starts,
        ..PlanOptions::default()
    };
    let planned = plan(problem, &options);
    let cpu_s = cpu_seconds()? - before;
    let baselines = Policy::BASELINES.iter().filter_map(|p| p.baseline(problem));
    let others = baselines.map(|s| reached(problem, &s));
    Ok(Comparison {
        ours: reached(problem, &planned.schedule)?,
        others: others.collect::<Outcome<_>>()?,
        bound: planned.lower_bound,
        flow_bound: planned.lower_bound - problem.weighted_arrivals(),
        cpu_s,
        schedule: planned.schedule,
    })
}

/// What a schedule reaches, once it is seen to be feasible.
pub fn reached(problem: &Problem, schedule: &Schedule) -> Outcome<Reached> {
    schedule.verify(problem)?;
    let flows = schedule.flows(problem);
    let soon = flows.iter().filter(|&&f| f <= SOON).count();
    Ok(Reached {
        flow: schedule.flow_cost(problem),
        cost: schedule.cost(problem),
        mean: schedule.mean_flow(problem),
        soon: soon as f64 / flows.len() as f64,
    })
}

/// Means over instances of one kind.
#[derive(Debug, Clone)]
pub struct Means {
    all: Vec<Comparison>,
}

impl Means {
    pub fn of(all: Vec<Comparison>) -> Self {
        Self { all }
    }

    pub fn first(&self) -> Option<&Comparison> {
        self.all.first()
    }

    pub fn mean(&self, pick: impl Fn(&Comparison) -> f64) -> f64 {
        self.all.iter().map(pick).sum::<f64>() / self.all.len() as f64
    }

    /// Weighted flow time over its bound.
    pub fn over_bound(&self) -> f64 {
        self.mean(|c| c.ours.flow / c.flow_bound)
    }

    /// Weighted flow time of a baseline over the bound.
    pub fn other_over_bound(&self, policy: Policy) -> f64 {
        self.mean(|c| c.others[index(policy)].flow / c.flow_bound)
    }

    /// By how many percent the weighted flow time is below a baseline's.
    pub fn reduction(&self, policy: Policy) -> f64 {
        self.mean(|c| 100.0 * (1.0 - c.ours.flow / c.others[index(policy)].flow))
    }

    /// By how many percent no schedule at all could be below a baseline.
    pub fn most_reduction(&self, policy: Policy) -> f64 {
        self.mean(|c| 100.0 * (1.0 - c.flow_bound / c.others[index(policy)].flow))
    }

    /// Percent of the jobs that a policy completes within 25 minutes; `None`: ours.
    pub fn soon(&self, policy: Option<Policy>) -> f64 {
        100.0 * self.mean(|c| policy.map_or(c.ours, |p| c.others[index(p)]).soon)
    }
}

/// Place of a baseline in [`Policy::BASELINES`].
pub fn index(policy: Policy) -> usize {
    let place = Policy::BASELINES.iter().position(|&p| p == policy);
    place.unwrap_or(usize::MAX)
}

/// Seconds of CPU that this thread has used: unlike time on the wall, not longer on a busy machine.
pub fn cpu_seconds() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = text.split(' ').next().unwrap_or_default();
    Ok(nanoseconds.parse::<f64>()? * 1e-9)
}
