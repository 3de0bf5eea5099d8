use crate::speed::exponent;

/// The objective to minimise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// Sum of the completion times.
    Completion,
    /// Weighted sum of the completion times.
    Weighted,
    /// The last completion time.
    Makespan,
}

/// An unfinished training.
#[derive(Debug, Clone, PartialEq)]
pub struct RemainingTraining {
    /// Remaining steps.
    pub work: f64,
    /// Weight in [`Objective::Weighted`].
    pub weight: f64,
    /// Steps per second on 0, 1, … GPUs, up to all GPUs of the machine. 0 if the task cannot run,
    /// which always holds for 0 GPUs.
    pub rates: Vec<f64>,
    /// Decrease of the loss over the last window, which is large early in a training; for the rules
    /// that rank by it.
    pub delta: f64,
}

/// Trainings that share the GPUs of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// GPUs of the machine.
    pub gpus: u32,
    /// The objective to minimise.
    pub objective: Objective,
    jobs: Vec<RemainingTraining>,
    /// `useful[i][g]`: the smallest number of GPUs that is as fast for job i as the best number up to g.
    useful: Vec<Vec<u32>>,
    exponents: Vec<f64>,
}

/// Maximum number of tasks of a problem: sets of tasks are bits of a word.
pub const MOST_TASKS: usize = 64;
/// Most GPUs of a machine.
pub const MOST_GPUS: u32 = 1024;

impl Problem {
    /// A problem of up to [`MOST_TASKS`] jobs, each with a rate for 0 to `gpus` GPUs. `None` if that does not hold,
    /// or a number is negative or not finite, or a job can run on no number of GPUs.
    #[must_use]
    pub fn new(gpus: u32, objective: Objective, jobs: Vec<RemainingTraining>) -> Option<Self> {
        let fine = |v: f64| v.is_finite() && v >= 0.0;
        let sound = |job: &RemainingTraining| {
            fine(job.work)
                && fine(job.weight)
                && job.rates.len() == gpus as usize + 1
                && job.rates.iter().all(|r| fine(*r))
                && job.rates[0] == 0.0
                && job.rates.iter().any(|r| *r > 0.0)
                && !job.delta.is_nan()
        };
        if !(1..=MOST_GPUS).contains(&gpus) || jobs.len() > MOST_TASKS || !jobs.iter().all(sound) {
            return None;
        }
        Some(Self {
            gpus,
            objective,
            useful: jobs.iter().map(|job| useful(&job.rates)).collect(),
            exponents: jobs
                .iter()
                .map(|job| exponent(&job.rates).clamp(0.01, 0.95))
                .collect(),
            jobs,
        })
    }

    /// The jobs.
    #[must_use]
    pub fn jobs(&self) -> &[RemainingTraining] {
        &self.jobs
    }

    /// Number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there are no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Rate of job `i` if it may use up to `gpus`: GPUs that would slow it down stay idle.
    #[must_use]
    pub fn rate(&self, i: usize, gpus: u32) -> f64 {
        self.jobs[i].rates[self.useful[i][gpus as usize] as usize]
    }

    /// The number of `gpus` that job `i` uses.
    #[must_use]
    pub fn useful(&self, i: usize, gpus: u32) -> u32 {
        self.useful[i][gpus as usize]
    }

    /// The next larger number of GPUs on which job `i` is faster than on `gpus`.
    #[must_use]
    pub fn next_useful(&self, i: usize, gpus: u32) -> Option<u32> {
        let all = &self.useful[i];
        let more = all[gpus as usize + 1..].iter();
        more.copied().find(|g| *g > gpus)
    }

    /// Maximum number of GPUs that job `i` uses.
    #[must_use]
    pub fn most(&self, i: usize) -> u32 {
        self.useful[i][self.gpus as usize]
    }

    /// Minimum number of GPUs for job `i`.
    #[must_use]
    pub fn least(&self, i: usize) -> u32 {
        let runs = self.jobs[i].rates.iter().position(|r| *r > 0.0);
        runs.unwrap_or(1) as u32
    }

    /// Speed-up exponent of job `i`, from 0.01 to 0.95.
    #[must_use]
    pub fn exponent(&self, i: usize) -> f64 {
        self.exponents[i]
    }

    /// Weight of job `i` under the objective.
    #[must_use]
    pub fn weight(&self, i: usize) -> f64 {
        match self.objective {
            Objective::Weighted => self.jobs[i].weight,
            Objective::Completion | Objective::Makespan => 1.0,
        }
    }

    /// The objective, given the completion time of each job in seconds.
    #[must_use]
    pub fn value(&self, completions: &[f64]) -> f64 {
        match self.objective {
            Objective::Makespan => completions.iter().copied().fold(0.0, f64::max),
            _ => completions
                .iter()
                .enumerate()
                .map(|(i, c)| self.weight(i) * c)
                .sum(),
        }
    }

    /// The same problem with other remaining work.
    #[must_use]
    pub fn with_work(&self, work: &[f64]) -> Self {
        let mut copy = self.clone();
        for (job, work) in copy.jobs.iter_mut().zip(work) {
            job.work = *work;
        }
        copy
    }
}

fn useful(rates: &[f64]) -> Vec<u32> {
    let mut best = 0;
    (0..rates.len())
        .map(|g| {
            if rates[g] > rates[best] {
                best = g;
            }
            best as u32
        })
        .collect()
}

/// A set of jobs that still have work, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Active(pub u64);

impl Active {
    /// The jobs of `problem` that have work.
    #[must_use]
    pub fn of(problem: &Problem) -> Self {
        let bits = problem.jobs().iter().enumerate();
        Self(
            bits.filter(|(_, j)| j.work > 0.0)
                .fold(0, |set, (i, _)| set | 1 << i),
        )
    }

    /// Whether no job is left.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether job `i` is in the set.
    #[must_use]
    pub fn has(self, i: usize) -> bool {
        self.0 & 1 << i != 0
    }

    /// The set without job `i`.
    #[must_use]
    pub fn without(self, i: usize) -> Self {
        Self(self.0 & !(1 << i))
    }

    /// Number of jobs.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The jobs in order of index.
    pub fn iter(self) -> impl Iterator<Item = usize> + Clone {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let i = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(i)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_that_slow_a_task_down_stay_idle() {
        let job = RemainingTraining {
            work: 1.0,
            weight: 1.0,
            rates: vec![0.0, 0.66, 0.60, 0.83, 1.0],
            delta: 0.0,
        };
        let problem = Problem::new(4, Objective::Completion, vec![job]).unwrap();
        assert_eq!(problem.useful(0, 2), 1);
        assert_eq!(problem.rate(0, 2), 0.66);
        assert_eq!(problem.most(0), 4);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let job = |rates: Vec<f64>, work: f64| RemainingTraining {
            work,
            weight: 1.0,
            rates,
            delta: 0.0,
        };
        let build = |jobs| Problem::new(2, Objective::Completion, jobs);
        assert!(build(vec![job(vec![0.0, 1.0, 2.0], 1.0)]).is_some());
        for bad in [
            job(vec![0.0, 1.0], 1.0),
            job(vec![0.0, 0.0, 0.0], 1.0),
            job(vec![1.0, 1.0, 1.0], 1.0),
            job(vec![0.0, f64::NAN, 1.0], 1.0),
            job(vec![0.0, 1.0, 1.0], -1.0),
        ] {
            assert!(build(vec![bad]).is_none());
        }
    }

    #[test]
    fn sets() {
        let set = Active(0b1011);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(set.without(1), Active(0b1001));
        assert_eq!((set.len(), set.has(2)), (3, false));
    }
}
