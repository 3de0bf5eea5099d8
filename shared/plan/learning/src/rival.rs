//! What equal shares would have reached by now, and what a decision risks against them.
//!
//! Forecasts from noisy losses are often wrong, and a move by a wrong one costs about as much as it would have gained. So
//! moves are limited together: what would be lost against equal shares if they are wrong, and what was lost so far, stays
//! a small part of the time that the trainings take.

use std::collections::BTreeMap;

use units::TaskId;

use crate::phases::play;
use crate::problem::{Active, Objective, Problem, RemainingTraining};
use crate::rule::{self, Policy};

/// Work of a training that never ends, in steps: finite, since phases subtract from it.
const ENDLESS: f64 = 1e12;

/// Usable GPUs, and the pause of a training that is moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) gpus: u32,
    pub(crate) pause_s: f64,
}

/// A training that has not ended, in a question about the future.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    pub(crate) gpus: u32,
    pub(crate) pauses: bool,
    /// Steps left; `None` if it makes no progress and never ends.
    pub(crate) left: Option<f64>,
}

/// Steps per second on `gpus` GPUs; none on more than there were when its speeds were written down.
fn rate(job: &RemainingTraining, gpus: u32) -> f64 {
    job.rates.get(gpus as usize).copied().unwrap_or(0.0)
}

/// GPUs, and when they are used after a pause.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    gpus: u32,
    until: f64,
}

impl Held {
    fn take(&mut self, now: f64, gpus: u32, pause_s: f64) {
        if self.gpus != gpus {
            let until = if self.gpus > 0 { now + pause_s } else { now };
            *self = Self { gpus, until };
        }
    }

    /// Seconds of training between two moments.
    fn trained(self, from: f64, to: f64) -> f64 {
        (to - from.max(self.until)).max(0.0)
    }
}

#[derive(Debug, Clone)]
struct Run {
    arrived: f64,
    job: RemainingTraining,
    ours: Held,
    equal: Held,
    /// Steps that it would have made more with equal shares.
    behind: f64,
    /// When it ended here, if it still runs there.
    ended: Option<f64>,
}

impl Run {
    fn rate(&self, gpus: u32) -> f64 {
        rate(&self.job, gpus)
    }

    /// Steps per second with equal shares.
    fn rate_there(&self) -> f64 {
        self.rate(self.equal.gpus).max(1e-12)
    }
}

/// The same trainings with equal shares, played with the speeds measured here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rival {
    at: f64,
    runs: BTreeMap<TaskId, Run>,
    /// Seconds by which the trainings that have ended took longer than with equal shares, times their weights.
    over: f64,
    /// Seconds that they took, times their weights.
    spent: f64,
}

impl Rival {
    /// Time passes.
    pub(crate) fn advance(&mut self, now: f64, machine: Machine) {
        let from = self.at;
        self.at = now;
        for run in self.runs.values_mut() {
            let there = run.rate(run.equal.gpus) * run.equal.trained(from, now);
            let here = run.rate(run.ours.gpus) * run.ours.trained(from, now);
            run.behind += there - here;
        }
        let before = self.runs.len();
        let over = &mut self.over;
        self.runs.retain(|_, run| match run.ended {
            Some(end) if run.behind >= 0.0 => {
                *over -= run.job.weight * (now - end);
                false
            }
            _ => true,
        });
        if self.runs.len() < before {
            self.share(now, machine);
        }
    }

    /// A training arrives, for which `job` says the speeds.
    pub(crate) fn arrive(
        &mut self,
        now: f64,
        id: &TaskId,
        job: RemainingTraining,
        machine: Machine,
    ) {
        if self.runs.is_empty() {
            // What was lost or gained while the machine was last in use does not count for ever.
            (self.over, self.spent) = (0.0, 0.0);
        }
        let run = Run {
            arrived: now,
            job,
            ours: Held::default(),
            equal: Held::default(),
            behind: 0.0,
            ended: None,
        };
        self.runs.insert(id.clone(), run);
        self.share(now, machine);
    }

    /// The speeds of a training as they are known now.
    pub(crate) fn learn(&mut self, id: &TaskId, job: &RemainingTraining) {
        if let Some(run) = self.runs.get_mut(id) {
            run.job.clone_from(job);
        }
    }

    /// A decision.
    pub(crate) fn given(&mut self, now: f64, id: &TaskId, gpus: u32, pause_s: f64) {
        if let Some(run) = self.runs.get_mut(id) {
            run.ours.take(now, gpus, pause_s);
        }
    }

    /// A training has ended.
    pub(crate) fn end(&mut self, now: f64, id: &TaskId, machine: Machine) {
        let Some(run) = self.runs.get_mut(id) else {
            return;
        };
        self.spent += run.job.weight * (now - run.arrived);
        if run.behind < 0.0 {
            run.ended = Some(now);
            run.ours = Held::default();
            return;
        }
        let late = run.behind / run.rate_there();
        self.over += run.job.weight * late;
        self.runs.remove(id);
        let before: Vec<(u32, f64)> = self
            .runs
            .values()
            .map(|r| (r.equal.gpus, r.rate(r.equal.gpus)))
            .collect();
        self.share(now - late, machine);
        // Since then the others have had its GPUs.
        for (run, (had, rate)) in self.runs.values_mut().zip(before) {
            if had != run.equal.gpus {
                let made = run.rate(run.equal.gpus) * run.equal.trained(now - late, now);
                run.behind += made - rate * late;
            }
        }
    }

    /// A training has failed, and counts no longer.
    pub(crate) fn fail(&mut self, now: f64, id: &TaskId, machine: Machine) {
        self.runs.remove(id);
        self.share(now, machine);
    }

    fn share(&mut self, now: f64, machine: Machine) {
        let job = |run: &Run| RemainingTraining {
            work: 1.0,
            ..run.job.clone()
        };
        let Some(shares) = equal(machine.gpus, self.runs.values().map(job).collect()) else {
            return;
        };
        for (run, share) in self.runs.values_mut().zip(shares) {
            run.equal.take(now, share, machine.pause_s);
        }
    }

    /// By what part of their times the trainings take longer than with equal shares, if they keep these GPUs until the
    /// first of them ends, and have equal shares after. `None` where that cannot be known.
    pub(crate) fn over(
        &self,
        machine: Machine,
        now: f64,
        ahead: &BTreeMap<&TaskId, Ahead>,
    ) -> Option<f64> {
        let theirs = self.theirs(machine, ahead)?;
        let over = self.over + self.ours(machine, ahead)? - theirs;
        let ends = |id: &TaskId| ahead.get(id).is_some_and(|a| a.left.is_some());
        let open = self.runs.iter().filter(|(id, _)| ends(id));
        let spent: f64 = open
            .map(|(_, run)| run.job.weight * (now - run.arrived))
            .sum();
        Some(over / (self.spent + spent + theirs).max(1e-9))
    }

    /// Weighted sum of the times left, here.
    fn ours(&self, machine: Machine, ahead: &BTreeMap<&TaskId, Ahead>) -> Option<f64> {
        let pause = |a: &Ahead| if a.pauses { machine.pause_s } else { 0.0 };
        let open = || {
            ahead
                .iter()
                .filter_map(|(id, a)| Some((self.runs.get(*id)?, a, a.left?)))
        };
        let ends = open().map(|(run, a, left)| pause(a) + left / run.rate(a.gpus));
        let first = ends.fold(f64::INFINITY, f64::min);
        let mut value = 0.0;
        let (mut jobs, mut had) = (Vec::new(), Vec::new());
        for (run, a, left) in open() {
            let made = run.rate(a.gpus) * (first - pause(a)).max(0.0);
            value += run.job.weight * first;
            if made < left {
                jobs.push(RemainingTraining {
                    work: left - made,
                    ..run.job.clone()
                });
                had.push(a.gpus);
            }
        }
        let shares = equal(machine.gpus, jobs.clone())?;
        for ((job, share), had) in jobs.iter_mut().zip(shares).zip(had) {
            if share != had && had > 0 {
                job.work += machine.pause_s * rate(job, share);
            }
        }
        Some(value + played(machine.gpus, jobs)?)
    }

    /// Weighted sum of the times left with equal shares; negative for those that would have ended.
    fn theirs(&self, machine: Machine, ahead: &BTreeMap<&TaskId, Ahead>) -> Option<f64> {
        let (mut value, mut longest) = (0.0, 0.0_f64);
        let (mut jobs, mut had) = (Vec::new(), Vec::new());
        for (id, run) in &self.runs {
            let left = match (run.ended, ahead.get(id)) {
                (Some(_), _) => Some(-run.behind),
                (None, Some(a)) => a.left.map(|left| left - run.behind),
                // It has reached its target here, and ends now.
                (None, None) => Some(0.0),
            };
            if let Some(left) = left.filter(|left| *left <= 0.0) {
                value += run.job.weight * left / run.rate_there();
                longest = longest.max(-left / run.rate_there());
                continue;
            }
            jobs.push(RemainingTraining {
                work: left.unwrap_or(ENDLESS),
                weight: if left.is_some() { run.job.weight } else { 0.0 },
                ..run.job.clone()
            });
            had.push(run.rate(run.equal.gpus));
        }
        // The others have had the GPUs of those.
        let shares = equal(machine.gpus, jobs.clone())?;
        for ((job, share), had) in jobs.iter_mut().zip(shares).zip(had) {
            let more = (rate(job, share) - had).max(0.0) * longest;
            job.work = (job.work - more).max(1e-9);
        }
        Some(value + played(machine.gpus, jobs)?)
    }
}

fn problem(gpus: u32, mut jobs: Vec<RemainingTraining>) -> Option<Problem> {
    // GPUs may have been lost or found since their speeds were written down.
    for job in &mut jobs {
        job.rates.resize(gpus as usize + 1, 0.0);
    }
    Problem::new(gpus, Objective::Weighted, jobs)
}

fn equal(gpus: u32, jobs: Vec<RemainingTraining>) -> Option<Vec<u32>> {
    if jobs.is_empty() {
        return Some(Vec::new());
    }
    let problem = problem(gpus, jobs)?;
    let left: Vec<f64> = problem.jobs().iter().map(|j| j.work).collect();
    let mut shares = Vec::new();
    rule::allocate(
        Policy::Equal,
        &problem,
        Active::of(&problem),
        &left,
        &mut shares,
    );
    Some(shares)
}

/// Weighted sum of the completion times with equal shares.
fn played(gpus: u32, jobs: Vec<RemainingTraining>) -> Option<f64> {
    if jobs.is_empty() {
        return Some(0.0);
    }
    let problem = problem(gpus, jobs)?;
    let ends = play(&problem, |active, left, gpus| {
        rule::allocate(Policy::Equal, &problem, active, left, gpus);
    });
    let each = problem
        .jobs()
        .iter()
        .zip(ends)
        .filter(|(job, _)| job.weight > 0.0);
    let sum: f64 = each.map(|(job, end)| job.weight * end).sum();
    sum.is_finite().then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        gpus: 4,
        pause_s: 0.0,
    };

    fn id(name: &str) -> TaskId {
        TaskId::new(name).expect("a name")
    }

    /// Two trainings whose speed is their number of GPUs: with 3 and 1 for ten seconds, each is ten steps off.
    fn moved() -> Rival {
        let job = RemainingTraining {
            work: 1.0,
            weight: 1.0,
            rates: (0..=4).map(f64::from).collect(),
            delta: 0.0,
        };
        let mut rival = Rival::default();
        for (name, gpus) in [("a", 3), ("b", 1)] {
            rival.arrive(0.0, &id(name), job.clone(), MACHINE);
            rival.given(0.0, &id(name), gpus, MACHINE.pause_s);
        }
        rival.advance(10.0, MACHINE);
        rival
    }

    #[test]
    fn what_ends_first_says_what_a_move_was_worth() {
        let (a, b) = (id("a"), id("b"));
        let left = |a_left, b_left| {
            let each = |gpus, left| Ahead {
                gpus,
                pauses: false,
                left: Some(left),
            };
            BTreeMap::from([(&a, each(3, a_left)), (&b, each(1, b_left))])
        };
        // Ends at 11 and 18 s, with equal shares at 16.5 and 18; then at 15 and 13 s, and at 15 and 6.5.
        let right = moved().over(MACHINE, 10.0, &left(3.0, 29.0));
        assert!(
            (right.expect("known") + 5.5 / 34.5).abs() < 1e-9,
            "{right:?}"
        );
        let wrong = moved()
            .over(MACHINE, 10.0, &left(17.0, 3.0))
            .expect("known");
        assert!((wrong - 6.5 / 21.5).abs() < 1e-9, "{wrong}");
    }

    #[test]
    fn an_end_settles_what_was_lost() {
        let mut rival = moved();
        // Ten steps behind at 2 a second; since then the other would have made ten steps more.
        rival.end(10.0, &id("b"), MACHINE);
        assert_eq!((rival.over, rival.spent), (5.0, 10.0));
        assert_eq!(rival.runs[&id("a")].behind, 0.0);
    }
}
