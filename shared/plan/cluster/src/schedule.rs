use std::collections::BTreeMap;

use doc::Gang;

use crate::{Problem, TrainingJob};

/// A task: its job, its round, and which of the round's tasks it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskPlace {
    /// Number of the job.
    pub job: usize,
    /// Round, from 0.
    pub round: usize,
    /// Task of the round, from 0.
    pub task: usize,
}

/// One task of a job's round on a GPU, and the same task of the equal rounds after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assignment {
    /// Number of the job.
    pub job: usize,
    /// Round, from 0.
    pub round: usize,
    /// Task of the round, from 0.
    pub task: usize,
    /// Number of the GPU.
    pub gpu: usize,
    /// Seconds of switching to the job, at the start; the GPU is occupied.
    pub switch: f64,
    /// When the GPU begins with it.
    pub start: f64,
    /// When training ends and the GPU is free.
    pub trained: f64,
    /// When its result is synchronised.
    pub synced: f64,
    /// Number of equal rounds: this one and the ones after it.
    pub rounds: usize,
    /// Seconds from a round to the next; 0 for a single round.
    pub period: f64,
}

impl Assignment {
    /// A task on a GPU with its start, its end of training and its end of synchronisation, without
    /// switching.
    pub fn new(place: TaskPlace, gpu: usize, start: f64, trained: f64, synced: f64) -> Self {
        Self {
            job: place.job,
            round: place.round,
            task: place.task,
            gpu,
            switch: 0.0,
            start,
            trained,
            synced,
            rounds: 1,
            period: 0.0,
        }
    }

    /// The task, in the first of its rounds.
    pub fn place(&self) -> TaskPlace {
        TaskPlace {
            job: self.job,
            round: self.round,
            task: self.task,
        }
    }

    /// Seconds from the first round to the last.
    fn moved(&self) -> f64 {
        (self.rounds - 1) as f64 * self.period
    }

    /// When training of the last round ends.
    pub fn last_trained(&self) -> f64 {
        self.trained + self.moved()
    }

    /// When the last round is synchronised.
    pub fn last_synced(&self) -> f64 {
        self.synced + self.moved()
    }

    /// One assignment for each of its rounds.
    pub fn each(self) -> impl Iterator<Item = Self> {
        (0..self.rounds).map(move |k| {
            let moved = k as f64 * self.period;
            Self {
                round: self.round + k,
                start: self.start + moved,
                trained: self.trained + moved,
                synced: self.synced + moved,
                rounds: 1,
                period: 0.0,
                ..self
            }
        })
    }
}

/// Checks that the tasks of a gang's round start at one moment, each on a GPU of its own, on one
/// node if the gang requires it.
fn together(problem: &Problem, job: &TrainingJob, tasks: &[&Assignment]) -> Result<(), String> {
    let first = tasks[0];
    let apart = |a: &&&Assignment| a.start != first.start;
    if let Some(late) = tasks.iter().find(apart) {
        return Err(format!("{late:?} does not start with {first:?}"));
    }
    let mut gpus: Vec<usize> = tasks.iter().map(|a| a.gpu).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let nodes = |a: &&Assignment| problem.nodes[a.gpu] == problem.nodes[first.gpu];
    if gpus.len() < job.tasks || job.gang == Some(Gang::SameNode) && !tasks.iter().all(nodes) {
        return Err(format!("a gang on {gpus:?}"));
    }
    Ok(())
}

/// Which task runs where and when.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Schedule {
    /// The assignments by start, then job, round and task.
    pub assignments: Vec<Assignment>,
    /// Completion time of every job.
    pub completions: Vec<f64>,
}

impl Schedule {
    /// Sorts assignments and computes the completions of `jobs` jobs.
    pub fn new(jobs: usize, mut assignments: Vec<Assignment>) -> Self {
        let mut completions = vec![0.0_f64; jobs];
        for a in &assignments {
            completions[a.job] = completions[a.job].max(a.last_synced());
        }
        assignments.sort_by(|a, b| {
            let key = |x: &Assignment| (x.job, x.round, x.task);
            a.start.total_cmp(&b.start).then(key(a).cmp(&key(b)))
        });
        Self {
            assignments,
            completions,
        }
    }

    /// The same schedule with one assignment for each round.
    pub fn expanded(&self) -> Self {
        let each = self.assignments.iter().flat_map(|a| a.each());
        Self::new(self.completions.len(), each.collect())
    }

    /// `sum w C`.
    pub fn cost(&self, problem: &Problem) -> f64 {
        let pairs = problem.jobs.iter().zip(&self.completions);
        pairs.map(|(j, c)| j.weight * c).sum()
    }

    /// Seconds from arrival to completion of every job.
    pub fn flows(&self, problem: &Problem) -> Vec<f64> {
        let pairs = problem.jobs.iter().zip(&self.completions);
        pairs.map(|(j, c)| c - j.arrival).collect()
    }

    /// `sum w (C - a)`.
    pub fn flow_cost(&self, problem: &Problem) -> f64 {
        self.cost(problem) - problem.weighted_arrivals()
    }

    /// Mean of completion less arrival.
    pub fn mean_flow(&self, problem: &Problem) -> f64 {
        let flows = self.flows(problem);
        flows.iter().sum::<f64>() / flows.len().max(1) as f64
    }

    /// 95th percentile of completion less arrival: the value at rank `ceil(0.95 n)`.
    pub fn p95_flow(&self, problem: &Problem) -> f64 {
        let mut flows = self.flows(problem);
        flows.sort_by(f64::total_cmp);
        let rank = (0.95 * flows.len() as f64).ceil() as usize;
        flows.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// The last completion.
    pub fn makespan(&self) -> f64 {
        self.completions.iter().copied().fold(0.0, f64::max)
    }

    /// Fraction of the GPUs' time until the makespan that is spent training, without switching.
    pub fn utilisation(&self, problem: &Problem) -> f64 {
        // Seconds in which two tasks share a GPU count once.
        let mut until = vec![0.0_f64; problem.gpus.len()];
        let busy = self.assignments.iter().map(|a| {
            let before = until[a.gpu];
            until[a.gpu] = before.max(a.trained);
            if problem.shares() && before > a.start {
                return (a.trained - before).max(0.0);
            }
            a.rounds as f64 * (a.trained - a.start - a.switch)
        });
        let busy: f64 = busy.sum();
        let whole = self.makespan() * problem.gpus.len() as f64;
        if whole > 0.0 { busy / whole } else { 0.0 }
    }

    /// Seconds of training and of synchronisation that each assignment should take; for a gang, the
    /// slowest GPU decides each.
    pub(crate) fn paces(&self, problem: &Problem) -> Vec<(f64, f64)> {
        let mut gangs: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        let gang = |a: &&Assignment| problem.jobs[a.job].gang.is_some();
        for a in self.assignments.iter().filter(gang) {
            gangs.entry((a.job, a.round)).or_default().push(a.gpu);
        }
        let pace = |a: &Assignment| match gangs.get(&(a.job, a.round)) {
            Some(gpus) => problem.pace(a.job, gpus),
            None => problem.pace(a.job, &[a.gpu]),
        };
        self.assignments.iter().map(pace).collect()
    }

    /// Work that each assignment completes, in seconds of training alone. Beside another task it
    /// trains at the rates of the two.
    ///
    /// # Errors
    /// Names tasks that are on one GPU at once but may not share it.
    pub(crate) fn works(&self, problem: &Problem) -> Result<Vec<f64>, String> {
        let alone = |a: &Assignment| a.trained - a.start - a.switch;
        let mut works: Vec<f64> = self.assignments.iter().map(alone).collect();
        if !problem.shares() {
            return Ok(works);
        }
        let mut lanes: Vec<Vec<usize>> = vec![Vec::new(); problem.gpus.len()];
        for (i, a) in self.assignments.iter().enumerate() {
            let lane = &mut lanes[a.gpu];
            // While both train, each of the two tasks loses the work that the other takes from it.
            let mut beside = 0;
            lane.retain(|&k| self.assignments[k].trained > a.start + 1e-9 * a.start);
            for &k in lane.iter() {
                let other = &self.assignments[k];
                let both = a.trained.min(other.trained) - a.start;
                if both <= 1e-9 * a.start {
                    continue;
                }
                let rates = problem.beside(problem.gpus[a.gpu], a.job, other.job);
                let (own, others) =
                    rates.ok_or_else(|| format!("{a:?} and {other:?} share a GPU"))?;
                works[i] -= both * (1.0 - own);
                works[k] -= both * (1.0 - others);
                beside += 1;
            }
            if beside > 1 {
                return Err(format!("{a:?} is the third on its GPU"));
            }
            lane.push(i);
        }
        Ok(works)
    }

    /// Checks arrival, precedence, capacity, durations and that every task runs once; for tests and
    /// debug assertions (the checker has code of its own). The error names the first breach. Merged
    /// rounds must be expanded first.
    pub fn verify(&self, problem: &Problem) -> Result<(), String> {
        let mut rounds: Vec<Vec<Vec<&Assignment>>> = problem
            .jobs
            .iter()
            .map(|j| vec![Vec::new(); j.rounds])
            .collect();
        let mut per_gpu: Vec<Vec<&Assignment>> = vec![Vec::new(); problem.gpus.len()];
        let paces = self.paces(problem).into_iter().zip(self.works(problem)?);
        for (a, ((train, sync), work)) in self.assignments.iter().zip(paces) {
            let job = &problem.jobs[a.job];
            let slack = 1e-9 * a.synced.max(1.0);
            if (work - train).abs() > slack || (a.synced - a.trained - sync).abs() > slack {
                return Err(format!("durations of {a:?}"));
            }
            if a.start < job.arrival {
                return Err(format!("{a:?} starts before the job arrives"));
            }
            rounds[a.job][a.round].push(a);
            per_gpu[a.gpu].push(a);
        }
        for (job, rounds) in problem.jobs.iter().zip(&rounds) {
            let mut ready = 0.0_f64;
            for tasks in rounds {
                let mut numbers: Vec<usize> = tasks.iter().map(|a| a.task).collect();
                numbers.sort_unstable();
                if numbers != (0..job.tasks).collect::<Vec<_>>() {
                    return Err(format!("tasks {numbers:?} of a round"));
                }
                if job.gang.is_some() {
                    together(problem, job, tasks)?;
                }
                if let Some(early) = tasks.iter().find(|a| a.start < ready - 1e-9 * ready) {
                    return Err(format!("{early:?} starts before {ready}"));
                }
                ready = tasks.iter().map(|a| a.synced).fold(ready, f64::max);
            }
        }
        if problem.shares() {
            return Ok(());
        }
        for own in &mut per_gpu {
            own.sort_by(|a, b| a.start.total_cmp(&b.start));
            if let Some(pair) = own
                .windows(2)
                .find(|w| w[1].start < w[0].trained - 1e-9 * w[0].trained)
            {
                return Err(format!("two tasks at once: {pair:?}"));
            }
        }
        Ok(())
    }
}
