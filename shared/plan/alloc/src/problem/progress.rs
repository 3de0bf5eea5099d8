//! Time to target: how long a plan takes until each task has made its required progress.
//!
//! Task i needs `n_i = N_i / E_i(B_i)` rounds: the rounds at its reference batch size, divided by the efficiency at
//! the chosen size. A round includes only the tasks that have not reached their target, so it becomes shorter
//! whenever a task reaches it. Rounds are treated as continuous: a task that needs 4.6 leaves in the middle of its
//! fifth.

use efficiency::Law;
use units::Batch;
use units::corun::Setting;

/// Sample efficiency of a task, and the rounds to its target.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskProgress {
    /// Value of a sample at each batch size; absent: the same at all.
    pub law: Option<Law>,
    /// Rounds to the target at the reference batch size, above 0.
    pub rounds: f64,
    /// Weight of the task in a mean over all tasks; the weights of a problem add up to 1.
    pub part: f64,
    /// Batch size that the task keeps under the policy `reference`; absent: its first.
    pub reference: Option<Batch>,
}

impl Default for TaskProgress {
    fn default() -> Self {
        Self {
            law: None,
            rounds: 1.0,
            part: 1.0,
            reference: None,
        }
    }
}

impl TaskProgress {
    /// What the workload declares for a task; its weight is that of the only task.
    #[must_use]
    pub fn of_task(task: &doc::Task) -> Self {
        Self {
            law: Law::of_task(task),
            rounds: task.rounds_at_reference().unwrap_or(1.0),
            part: 1.0,
            reference: Some(task.reference()),
        }
    }

    /// `E(B)`, relative to the reference size.
    #[must_use]
    pub fn efficiency(&self, batch: Batch) -> f64 {
        self.law.as_ref().map_or(1.0, |law| law.at(batch))
    }

    /// Rounds to the target at a batch size.
    #[must_use]
    pub fn rounds_at(&self, batch: Batch) -> f64 {
        self.rounds / self.efficiency(batch)
    }
}

/// A stretch of rounds in which the same tasks train.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Phase {
    /// Positions of the tasks that have not reached their target, ascending.
    pub active: Vec<usize>,
    /// Rounds that it lasts.
    pub rounds: f64,
}

/// The phases until all have reached their target; each task needs its own number of `rounds`.
pub(crate) fn phases(rounds: &[f64]) -> Vec<Phase> {
    let mut ends = rounds.to_vec();
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    let mut before = 0.0;
    let each = ends.into_iter().map(|end| {
        let active = (0..rounds.len()).filter(|&i| rounds[i] >= end).collect();
        let rounds = end - before;
        before = end;
        Phase { active, rounds }
    });
    each.collect()
}

/// Seconds until each task has reached its target, if the rounds of the phases have these lengths.
pub(crate) fn times(phases: &[Phase], lengths: &[f64], tasks: usize) -> Vec<f64> {
    let mut times = vec![0.0; tasks];
    for (phase, length) in phases.iter().zip(lengths) {
        for &i in &phase.active {
            times[i] += phase.rounds * length;
        }
    }
    times
}

/// The settings of the tasks of a phase.
pub(crate) fn active(settings: &[Setting], phase: &Phase) -> Vec<Setting> {
    phase.active.iter().map(|&i| settings[i]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_reached_its_target_leaves() {
        let found = phases(&[5.0, 2.0, 5.0]);
        let wanted = [(vec![0, 1, 2], 2.0), (vec![0, 2], 3.0)]
            .map(|(active, rounds)| Phase { active, rounds });
        assert_eq!(found, wanted);
        assert_eq!(times(&found, &[10.0, 4.0], 3), [32.0, 20.0, 32.0]);
    }
}
