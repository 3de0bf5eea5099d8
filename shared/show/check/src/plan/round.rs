//! Bounds for the length of a round with its transfers.
//!
//! Finding the best order needs a search, which is not repeated here. A claim may not be below the time that the
//! longest task and the link need. Nor may it be above the time of an order that is easy to find: the best order
//! without waiting of up to 4 tasks; Johnson's rule and the workload's own order for more tasks.

mod ends;

use std::collections::HashMap;

use doc::{DeviceKind, Duplex, Workload};
use predict::Predictor;
use units::corun::Setting;

use super::choices::Choices;
use crate::judge::Judge;
use crate::rates::divide;
use crate::round_task::RoundTask;

/// Maximum number of tasks for which a plan includes transfers; with more, only compute counts.
const MOST_TASKS: usize = 31;
/// Up to this many tasks every order is simulated: 24 orders.
const EVERY_ORDER: usize = 4;
/// Up to this many tasks, every order of running the tasks one after another is tried: 5,040 orders.
const EVERY_SERIAL: usize = 7;
/// Relative tolerance for the rounding of sums in another order.
const SLACK: f64 = 1e-6;
/// Relative tolerance beyond [`EVERY_ORDER`] tasks, where a search may stop early and be worse than a simple order.
/// None of the plans of 8 mixes of 5 to 8 tasks was worse than the result of a search with a hundred times the
/// budget, so this is a margin for more tasks. A claim that is worse than this does not come from a search.
const BEHIND: f64 = 0.02;

/// Returns throughput and standard error of each of the tasks that run together.
pub type Ask<'a> = &'a dyn Fn(&[Setting]) -> Vec<(f64, f64)>;

/// Asks a model for its predictions.
pub fn by_model(predictor: &Predictor) -> impl Fn(&[Setting]) -> Vec<(f64, f64)> {
    |running| {
        let predicted = predictor.predict(running);
        let each = predicted.iter().map(|p| (p.samples_per_s, p.std_error));
        each.collect()
    }
}

/// Mean and standard error of the rates, by set of tasks.
type RatesBySet = HashMap<u64, Vec<(f64, f64)>>;

/// Transfers and work of the tasks of one GPU.
pub struct Round {
    jobs: Vec<RoundTask>,
    /// Index of each job's task in the workload.
    tasks: Vec<usize>,
    duplex: Duplex,
    divides: bool,
}

/// Bounds of a claim, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

impl Range {
    /// Judges a claim in seconds.
    pub fn judge(self, name: &str, claimed: f64, j: &mut Judge) {
        if claimed < self.low * (1.0 - SLACK) {
            let truth = format!(
                "at least {}, what the longest task and the link need",
                self.low
            );
            j.contradiction(name, claimed, truth);
        } else if claimed > self.high * (1.0 + SLACK) {
            j.contradiction(
                name,
                claimed,
                format!("at most {}, as a simple order takes", self.high),
            );
        }
    }
}

impl Round {
    /// The round of a workload; `None` if plans for it include only compute: on several GPUs, without volumes, or
    /// with more tasks than a plan can order.
    pub fn of_workload(workload: &Workload) -> Option<Self> {
        if workload.device.gpus != 1 || workload.tasks.len() > MOST_TASKS {
            return None;
        }
        let link = workload.link;
        let job = |task: &doc::Task| Some(RoundTask::new(link, task.update_bytes, task.samples?));
        Some(Self {
            jobs: workload.tasks.iter().map(job).collect::<Option<_>>()?,
            tasks: (0..workload.tasks.len()).collect(),
            duplex: link.map_or(Duplex::Full, |l| l.duplex),
            divides: workload.device.kind == DeviceKind::Cpu,
        })
    }

    /// The round of the remaining tasks after the others have reached their targets.
    pub fn of(&self, tasks: &[usize]) -> Self {
        Self {
            jobs: tasks.iter().map(|&i| self.jobs[i]).collect(),
            tasks: tasks.to_vec(),
            ..*self
        }
    }

    fn sums(&self) -> (f64, f64) {
        let down = self.jobs.iter().map(|job| job.download).sum();
        (down, self.jobs.iter().map(|job| job.upload).sum())
    }

    /// Bounds of the time together at these batch sizes and shares; `None` if a task makes no progress.
    pub fn together(&self, predictor: &Predictor, choices: &Choices) -> Option<Range> {
        let solo = |i: usize| predictor.solo(i, choices.batch[i]);
        let alone: Vec<f64> = (0..self.jobs.len())
            .map(|i| self.jobs[i].work / solo(self.tasks[i]))
            .collect();
        Some(Range {
            low: self.least(&alone),
            high: self.simple(&by_model(predictor), choices, &alone)?,
        })
    }

    /// Like [`Round::together`], with some measured rates. Measured rates may exceed the model's solo predictions,
    /// so the lower bound counts only the transfers.
    pub fn together_measured(&self, ask: Ask<'_>, choices: &Choices) -> Option<Range> {
        let none = vec![0.0; self.jobs.len()];
        Some(Range {
            low: self.least(&none),
            high: self.simple(ask, choices, &none)?,
        })
    }

    /// Time of the best of some simple orders.
    fn simple(&self, ask: Ask<'_>, choices: &Choices, alone: &[f64]) -> Option<f64> {
        let n = self.jobs.len();
        let mut known = RatesBySet::new();
        let mut high = f64::INFINITY;
        let orders = if n <= EVERY_ORDER {
            permutations(n)
        } else {
            vec![self.johnson(alone), (0..n).collect()]
        };
        for order in orders {
            let ends = self.computed(ask, choices, &order, 0.0, &mut known)?;
            high = high.min(self.uploaded(&ends));
        }
        if n > EVERY_ORDER {
            high *= 1.0 + BEHIND;
        }
        if self.duplex == Duplex::Shared {
            // Simultaneous transfers have no order to try, and delaying a transfer may be better than starting it at
            // once.
            high = f64::INFINITY;
        }
        Some(high)
    }

    /// Lower bound: the largest of `max(d + c + u)`, `sum d + min(c + u)` and `min(d + c) + sum u`. If transfers go
    /// one at a time, the sum of all transfers counts too; if they share the link, only the first term holds.
    fn least(&self, alone: &[f64]) -> f64 {
        let of = |f: &dyn Fn(&RoundTask, f64) -> f64| -> Vec<f64> {
            self.jobs
                .iter()
                .zip(alone)
                .map(|(job, c)| f(job, *c))
                .collect()
        };
        let least = |all: Vec<f64>| all.into_iter().fold(f64::INFINITY, f64::min);
        let longest = of(&|job, c| job.download + c + job.upload)
            .into_iter()
            .fold(0.0, f64::max);
        let (down, up) = self.sums();
        let tail = down + least(of(&|job, c| c + job.upload));
        let head = up + least(of(&|job, c| c + job.download));
        match self.duplex {
            Duplex::Shared => longest,
            Duplex::Full => longest.max(tail).max(head),
            Duplex::Half => longest.max(tail).max(head).max(down + up),
        }
    }

    /// Order by Johnson's rule for two machines with the times `d + c` and `c + u`.
    fn johnson(&self, alone: &[f64]) -> Vec<usize> {
        let key = |i: usize| {
            let job = &self.jobs[i];
            if job.download <= job.upload {
                (0, job.download + alone[i])
            } else {
                (1, -(alone[i] + job.upload))
            }
        };
        let mut order: Vec<usize> = (0..self.jobs.len()).collect();
        order.sort_by(|&a, &b| {
            let ((x, s), (y, t)) = (key(a), key(b));
            x.cmp(&y).then(s.total_cmp(&t))
        });
        order
    }

    /// End of the compute of each task, the earliest first, if nothing waits. Downloads run in this order, and tasks
    /// compute at the rates of the set that computes, each rate off by this many standard errors. `None` if a task
    /// makes no progress.
    fn computed(
        &self,
        ask: Ask<'_>,
        choices: &Choices,
        order: &[usize],
        errors: f64,
        known: &mut RatesBySet,
    ) -> Option<Vec<(f64, usize)>> {
        let mut arrivals = Vec::new();
        let mut clock = 0.0;
        for &i in order {
            clock += self.jobs[i].download;
            arrivals.push((clock, i));
        }
        arrivals.reverse();
        let mut left: Vec<f64> = self.jobs.iter().map(|job| job.work).collect();
        let mut ends = Vec::new();
        let (mut now, mut active) = (0.0_f64, 0_u64);
        loop {
            while let Some(&(at, i)) = arrivals.last()
                && (active == 0 || at <= now)
            {
                arrivals.pop();
                now = now.max(at);
                active |= 1 << i;
            }
            let tasks: Vec<usize> = (0..left.len()).filter(|i| active >> i & 1 == 1).collect();
            if tasks.is_empty() {
                break;
            }
            let rates: Vec<f64> = known
                .entry(active)
                .or_insert_with(|| self.rates(ask, choices, &tasks))
                .iter()
                .map(|(mean, error)| mean + errors * error)
                .collect();
            if rates.iter().any(|r| !(r.is_finite() && *r > 0.0)) {
                return None;
            }
            let times = tasks.iter().zip(&rates).map(|(&i, r)| left[i] / r);
            let first = times.fold(f64::INFINITY, f64::min);
            let step = arrivals.last().map_or(first, |a| first.min(a.0 - now));
            for (&i, rate) in tasks.iter().zip(&rates) {
                left[i] -= rate * step;
                if left[i] <= 1e-12 * self.jobs[i].work {
                    active &= !(1 << i);
                    ends.push((now + step, i));
                }
            }
            now += step;
        }
        Some(ends)
    }

    /// End of the last upload, if uploads run in this order (on a half-duplex link, after all downloads).
    fn uploaded(&self, ends: &[(f64, usize)]) -> f64 {
        let mut free = match self.duplex {
            Duplex::Half => self.sums().0,
            Duplex::Full | Duplex::Shared => 0.0,
        };
        for &(end, i) in ends {
            free = end.max(free) + self.jobs[i].upload;
        }
        free
    }

    fn rates(&self, ask: Ask<'_>, choices: &Choices, tasks: &[usize]) -> Vec<(f64, f64)> {
        let active = |task: usize| Setting {
            task,
            batch: choices.batch[task],
            share: choices.share[task],
        };
        let all: Vec<Setting> = self.tasks.iter().map(|&i| active(i)).collect();
        let mut running: Vec<Setting> = tasks.iter().map(|&i| all[i]).collect();
        if self.divides {
            divide(&all, &mut running);
        }
        ask(&running)
    }

    /// Bounds of the time if tasks run one after another, at these solo rates.
    pub fn one_after_another(&self, solo: &[f64]) -> Range {
        let compute: Vec<f64> = self
            .jobs
            .iter()
            .zip(solo)
            .map(|(job, s)| job.work / s)
            .collect();
        let n = self.jobs.len();
        let (sum, (down, up)) = (compute.iter().sum::<f64>(), self.sums());
        let play = |order: &[usize]| {
            let (mut d, mut c, mut u) = (0.0_f64, 0.0_f64, 0.0_f64);
            for &i in order {
                d += self.jobs[i].download;
                c = c.max(d) + compute[i];
                u = u.max(c) + self.jobs[i].upload;
            }
            if self.duplex == Duplex::Full {
                u
            } else {
                u.max(down + up)
            }
        };
        if n <= EVERY_SERIAL {
            let best = permutations(n)
                .iter()
                .map(|o| play(o))
                .fold(f64::INFINITY, f64::min);
            return Range {
                low: best,
                high: best,
            };
        }
        Range {
            low: sum.max(down).max(up),
            high: play(&self.johnson(&compute)),
        }
    }
}

/// Every order of `n` tasks.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for i in 0..n {
        let longer = |p: &Vec<usize>| {
            let p = p.clone();
            (0..=p.len()).map(move |at| {
                let mut q = p.clone();
                q.insert(at, i);
                q
            })
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}
