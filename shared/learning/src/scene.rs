use doc::{Expected, Gain};
use units::Seconds;

use crate::allocator::Settings;
use crate::curve::Remaining;
use crate::plan::{Plan, keeping, plan};
use crate::problem::{Active, Job, Problem};
use crate::rule::{self, Policy};
use crate::training::Length;

/// Why a decision is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    Arrival,
    End,
    Window,
}

/// A gain below this part of the objective is within what a forecast of its inputs can be off, and
/// would make allocations swing.
const LEAST_GAIN: f64 = 0.005;

/// What is chosen, by index of training.
pub(crate) struct Choice {
    pub(crate) gpus: Vec<u32>,
    pub(crate) reason: String,
    pub(crate) gain: Option<Gain>,
    pub(crate) expected: Option<Vec<Option<Expected>>>,
}

/// The trainings at the moment of a decision.
pub(crate) struct Scene {
    pub(crate) settings: Settings,
    pub(crate) lengths: Vec<Length>,
    /// GPUs of the last decision.
    pub(crate) given: Vec<u32>,
    /// Whether any training has no GPUs of the last decision.
    pub(crate) newcomer: bool,
    /// With their median remaining steps.
    pub(crate) jobs: Vec<Job>,
    /// Relative loss deltas.
    pub(crate) youths: Vec<f64>,
    pub(crate) now: f64,
    pub(crate) pause_s: f64,
}

impl Scene {
    /// Whether training `i` has reached its target.
    pub(crate) fn reached(&self, i: usize) -> bool {
        self.lengths[i] == Length::Reached
    }

    fn problem(&self, work: impl Fn(usize) -> f64) -> Option<Problem> {
        let mut jobs = self.jobs.clone();
        for (i, job) in jobs.iter_mut().enumerate() {
            job.work = work(i);
        }
        Problem::new(self.settings.gpus, self.settings.objective, jobs)
    }

    /// Equal shares, until every training has been measured: the paper, too, runs a window of all
    /// before it decides.
    pub(crate) fn first(&self) -> Option<Choice> {
        let problem = self.problem(|i| self.jobs[i].work)?;
        let mut gpus = Vec::new();
        let left: Vec<f64> = problem.jobs().iter().map(|j| j.work).collect();
        let active = Active::of(&problem);
        rule::allocate(Policy::Equal, &problem, active, &left, &mut gpus);
        Some(Choice {
            gpus,
            reason: "equal shares until every training has been measured".to_owned(),
            gain: None,
            expected: None,
        })
    }

    pub(crate) fn choose(&self, occasion: Occasion) -> Option<Choice> {
        let doubtful = self.lengths.contains(&Length::Doubtful);
        let rule = self.settings.policy;
        match rule {
            Policy::Ours if doubtful => self.by_rank(occasion),
            Policy::Ours => self.by_plan(occasion),
            Policy::Paper | Policy::Equal if occasion == Occasion::Window && !self.newcomer => {
                // Wei and Shudo decide when a training arrives or ends; the first window after
                // an arrival is when its delta is known.
                self.by_rule(rule).filter(|_| self.is_fresh())
            }
            _ => self.by_rule(rule),
        }
    }

    /// Whether shares are still the equal ones of an arrival.
    fn is_fresh(&self) -> bool {
        self.first().is_some_and(|first| first.gpus == self.given)
    }

    fn by_rule(&self, policy: Policy) -> Option<Choice> {
        let problem = self.problem(|i| self.jobs[i].work)?;
        let outcome = plan(&problem, policy);
        Some(Choice {
            expected: self.expected(&problem, &outcome),
            gpus: outcome.gpus,
            reason: format!("{} policy", policy.name()),
            gain: None,
        })
    }

    /// Where a length is not known well enough: heSRPT's shares by rank of relative loss delta.
    /// Acts when the set of trainings changes, or when the order does and stays so for longer than
    /// noise: when the youngest gives up its place to one whose delta is twice as large.
    fn by_rank(&self, occasion: Occasion) -> Option<Choice> {
        let problem = self.problem(|i| self.jobs[i].work)?;
        let mut jobs = problem.jobs().to_vec();
        for (job, youth) in jobs.iter_mut().zip(&self.youths) {
            job.delta = *youth;
        }
        let ranked = Problem::new(self.settings.gpus, self.settings.objective, jobs)?;
        let outcome = plan(&ranked, Policy::Paper);
        let more: Vec<usize> = self
            .indices()
            .filter(|&i| outcome.gpus[i] > self.given[i])
            .collect();
        let less: Vec<usize> = self
            .indices()
            .filter(|&i| outcome.gpus[i] < self.given[i])
            .collect();
        let clear = more
            .iter()
            .all(|&i| less.iter().all(|&k| self.youths[k] >= 2.0 * self.youths[i]));
        if occasion == Occasion::Window && !self.is_fresh() && !clear {
            return None;
        }
        Some(Choice {
            gpus: outcome.gpus,
            reason: "by loss delta, since a remaining length is not known well: \
                     the smaller the delta, the more GPUs"
                .to_owned(),
            gain: None,
            expected: None,
        })
    }

    fn indices(&self) -> impl Iterator<Item = usize> {
        0..self.jobs.len()
    }

    /// The plan of least objective, if it gains more than its pauses cost.
    fn by_plan(&self, occasion: Occasion) -> Option<Choice> {
        let problem = self.problem(|i| self.jobs[i].work)?;
        let outcome = plan(&problem, Policy::Ours);
        let runs = Active::of(&problem).iter().any(|i| self.given[i] > 0);
        if outcome.gpus == self.given {
            return None;
        }
        let gain = self.gain(&outcome.gpus)?;
        let worth = gain.seconds > LEAST_GAIN * outcome.value;
        if occasion == Occasion::Window && runs && !self.newcomer && !worth {
            return None;
        }
        if occasion != Occasion::Window && runs && !self.newcomer && gain.seconds <= 0.0 {
            return None;
        }
        Some(Choice {
            expected: self.expected(&problem, &outcome),
            gpus: outcome.gpus,
            reason: "plan of least objective".to_owned(),
            gain: Some(gain),
        })
    }

    /// Objective if things stay until the next completion, less that of beginning with `gpus`
    /// after the pauses that this takes; for short, median and long trainings. A pause is counted
    /// as the steps that are not made in it.
    fn gain(&self, gpus: &[u32]) -> Option<Gain> {
        let quantile = |of: fn(&Remaining) -> f64| {
            let work = |i: usize| match &self.lengths[i] {
                Length::Trusted(left) => of(left).max(1.0),
                _ => self.jobs[i].work,
            };
            let stay = self.problem(work)?;
            let move_on = self.problem(|i| {
                let changes = gpus[i] != self.given[i] && gpus[i] > 0 && self.given[i] > 0;
                let pause = if changes { self.pause_s } else { 0.0 };
                let lost = pause * self.jobs[i].rates[gpus[i] as usize];
                if work(i) > 0.0 { work(i) + lost } else { 0.0 }
            })?;
            let stays = keeping(&stay, &self.given).value;
            let moves = keeping(&move_on, gpus).value;
            let gain = stays - moves;
            // Nothing runs as things are: any plan that ends gains; a number for it would be
            // infinite, which no document can hold.
            Some(if gain.is_finite() { gain } else { moves })
        };
        let (a, b, c) = (
            quantile(|r| r.low)?,
            quantile(|r| r.steps)?,
            quantile(|r| r.high)?,
        );
        let all = [a, b, c];
        all.iter().all(|g| g.is_finite()).then_some(Gain {
            seconds: b,
            low: a.min(b).min(c),
            high: a.max(b).max(c),
        })
    }

    /// Completion times with median, short and long trainings, under the plan.
    fn expected(&self, problem: &Problem, outcome: &Plan) -> Option<Vec<Option<Expected>>> {
        if self.lengths.contains(&Length::Doubtful) {
            return None;
        }
        let at = |of: fn(&Remaining) -> f64| {
            let work: Vec<f64> = self
                .indices()
                .map(|i| match &self.lengths[i] {
                    Length::Trusted(left) => of(left).max(1.0),
                    _ => 0.0,
                })
                .collect();
            keeping(&problem.with_work(&work), &outcome.gpus).completions
        };
        let (low, high) = (at(|r| r.low), at(|r| r.high));
        let each = self.indices().map(|i| {
            let end = outcome.completions[i];
            let time = |t: f64| Seconds::new(self.now + t).ok();
            Some(Expected {
                end: time(end)?,
                low: time(low[i].min(end))?,
                high: time(high[i].max(end))?,
            })
        });
        Some(each.collect())
    }
}
