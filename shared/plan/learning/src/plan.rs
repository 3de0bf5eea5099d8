//! Assigns GPUs until all trainings are done: starts from a rule, and improves phase by phase.

use crate::phases::play;
use crate::problem::{Active, Problem};
use crate::rule::{self, Policy};

/// A plan for all phases, given by its first allocation and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// GPUs of every job until the first of them is done.
    pub gpus: Vec<u32>,
    /// Completion time of every job, seconds from now.
    pub completions: Vec<f64>,
    /// Value of the objective, seconds.
    pub value: f64,
    /// Number of simulations of phases in the search.
    pub evaluations: usize,
}

/// Rules from which a search starts.
const STARTS: [Policy; 4] = [Policy::Hesrpt, Policy::Optimus, Policy::Equal, Policy::Srpt];

/// Simulations of a search, multiplied by the square of the number of jobs. A simulation of `n` jobs takes about
/// `n^2` steps, so this bounds the time equally for few and many jobs: a hundredth of a second.
const EFFORT: usize = 60_000;

/// Optimus' rule gives GPUs one by one in every phase; above this many jobs times GPUs (64 on 64) it takes longer
/// than the whole search.
const GREEDY: usize = 4096;

/// All first allocations are tried as starts if there are at most this many. A wrong first allocation costs most, and
/// descent does not always escape it (worst of 120 random problems: 1.23 times the optimum from rules alone, 1.02
/// this way).
const FEW: usize = 400;
/// Number of the best starts that are improved.
const KEPT: usize = 4;

/// Plans by `policy`; [`Policy::Ours`] searches.
#[must_use]
pub fn plan(problem: &Problem, policy: Policy) -> Plan {
    match policy {
        Policy::Ours => improved(problem, None),
        _ => Trial::new(policy, problem.len()).outcome(problem, 1),
    }
}

/// The best plan found that begins with the allocation `first`.
#[must_use]
pub fn keeping(problem: &Problem, first: &[u32]) -> Plan {
    improved(problem, Some(first))
}

/// The objective if the first allocation is `first`, and heSRPT decides in the phases after it. It
/// takes a hundredth of the time of [`keeping`], so that many lengths of the same trainings can be
/// tried.
pub(crate) fn value_after(problem: &Problem, first: &[u32]) -> f64 {
    let mut trial = Trial::new(Policy::Hesrpt, problem.len());
    trial.set(Active::of(problem), first.to_vec());
    problem.value(&trial.play(problem))
}

fn improved(problem: &Problem, first: Option<&[u32]>) -> Plan {
    let n = problem.len().max(1);
    let mut search = Search {
        problem,
        fixed: first.is_some(),
        evaluations: 0,
        most: (EFFORT / (n * n)).max(64),
    };
    let active = Active::of(problem);
    let mut starts: Vec<Trial> = STARTS
        .iter()
        .filter(|&&policy| policy != Policy::Optimus || n * problem.gpus as usize <= GREEDY)
        .map(|&policy| Trial::begun(policy, problem, first.map(|f| (active, f))))
        .collect();
    if first.is_none() {
        starts.extend(search.enumerated(active));
    }
    let mut scored: Vec<(f64, Trial)> = starts
        .into_iter()
        .map(|trial| (search.value(&trial), trial))
        .collect();
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    scored.truncate(KEPT);
    let mut best: Option<(f64, Trial)> = None;
    for (value, trial) in scored {
        let (value, trial) = search.descend(value, trial);
        if best.as_ref().is_none_or(|b| value < b.0) {
            best = Some((value, trial));
        }
    }
    let trial = best.map_or_else(|| Trial::new(Policy::Hesrpt, problem.len()), |b| b.1);
    trial.outcome(problem, search.evaluations)
}

/// An allocation for some sets of active jobs; a rule for the others.
#[derive(Debug, Clone)]
struct Trial {
    otherwise: Policy,
    /// By number of active jobs.
    chosen: Vec<Vec<(Active, Vec<u32>)>>,
}

impl Trial {
    fn new(otherwise: Policy, jobs: usize) -> Self {
        Self {
            otherwise,
            chosen: vec![Vec::new(); jobs + 1],
        }
    }

    /// Records the phases under a rule. For sets of jobs outside them, heSRPT decides, which is
    /// fast.
    fn begun(policy: Policy, problem: &Problem, first: Option<(Active, &[u32])>) -> Self {
        let mut rule = Self::new(policy, problem.len());
        if let Some((active, gpus)) = first {
            rule.set(active, gpus.to_vec());
        }
        let mut trial = Self::new(Policy::Hesrpt, problem.len());
        for (active, gpus) in rule.path(problem) {
            trial.set(active, gpus);
        }
        trial
    }

    fn get(&self, active: Active) -> Option<&Vec<u32>> {
        let found = self.chosen[active.len()].iter().find(|c| c.0 == active);
        found.map(|c| &c.1)
    }

    fn set(&mut self, active: Active, gpus: Vec<u32>) {
        let slot = &mut self.chosen[active.len()];
        match slot.iter_mut().find(|c| c.0 == active) {
            Some(entry) => entry.1 = gpus,
            None => slot.push((active, gpus)),
        }
    }

    fn play(&self, problem: &Problem) -> Vec<f64> {
        play(problem, |active, left, gpus| match self.get(active) {
            Some(chosen) => gpus.clone_from(chosen),
            None => rule::allocate(self.otherwise, problem, active, left, gpus),
        })
    }

    /// The sets of active jobs of its phases, with their allocations.
    fn path(&self, problem: &Problem) -> Vec<(Active, Vec<u32>)> {
        let mut path = Vec::new();
        play(problem, |active, left, gpus| {
            match self.get(active) {
                Some(chosen) => gpus.clone_from(chosen),
                None => rule::allocate(self.otherwise, problem, active, left, gpus),
            }
            path.push((active, gpus.clone()));
        });
        path
    }

    fn outcome(&self, problem: &Problem, evaluations: usize) -> Plan {
        let completions = self.play(problem);
        let first = self.path(problem).into_iter().next();
        Plan {
            gpus: first.map_or_else(|| vec![0; problem.len()], |f| f.1),
            value: problem.value(&completions),
            completions,
            evaluations,
        }
    }
}

struct Search<'a> {
    problem: &'a Problem,
    /// The first allocation must not be changed.
    fixed: bool,
    evaluations: usize,
    most: usize,
}

impl Search<'_> {
    fn value(&mut self, trial: &Trial) -> f64 {
        self.evaluations += 1;
        self.problem.value(&trial.play(self.problem))
    }

    /// Every division of the GPUs as a first allocation; empty if there are more than [`FEW`].
    fn enumerated(&self, active: Active) -> Vec<Trial> {
        let jobs: Vec<usize> = active.iter().collect();
        let mut divisions = vec![vec![0; self.problem.len()]];
        for (k, &i) in jobs.iter().enumerate() {
            let mut next = Vec::new();
            for division in &divisions {
                let free = self.problem.gpus - division.iter().sum::<u32>();
                let least = if k + 1 == jobs.len() { free } else { 0 };
                for g in least..=free {
                    let mut division = division.clone();
                    division[i] = g;
                    next.push(division);
                }
                if next.len() > FEW {
                    return Vec::new();
                }
            }
            divisions = next;
        }
        let useful = |mut division: Vec<u32>| {
            for &i in &jobs {
                division[i] = self.problem.useful(i, division[i]);
            }
            division
        };
        divisions
            .into_iter()
            .map(|division| {
                let mut trial = Trial::new(Policy::Hesrpt, self.problem.len());
                trial.set(active, useful(division));
                trial
            })
            .collect()
    }

    /// Moves GPUs between two jobs of one phase as long as that improves the value.
    fn descend(&mut self, mut value: f64, mut trial: Trial) -> (f64, Trial) {
        loop {
            let before = value;
            let path = trial.path(self.problem);
            for (depth, (active, gpus)) in path.into_iter().enumerate() {
                if active.len() < 2 || (depth == 0 && self.fixed) {
                    continue;
                }
                value = self.phase(value, &mut trial, active, gpus);
            }
            // Less than a millionth is rounding, not improvement.
            if value >= before * (1.0 - 1e-6) || self.evaluations >= self.most {
                return (value, trial);
            }
        }
    }

    fn phase(
        &mut self,
        mut value: f64,
        trial: &mut Trial,
        active: Active,
        mut gpus: Vec<u32>,
    ) -> f64 {
        for from in active.iter() {
            for to in active.iter().filter(|&to| to != from) {
                for amount in amounts(gpus[from]) {
                    if self.evaluations >= self.most {
                        return value;
                    }
                    let Some(moved) = self.moved(&gpus, from, to, amount) else {
                        continue;
                    };
                    let old = trial.get(active).cloned();
                    trial.set(active, moved.clone());
                    let tried = self.value(trial);
                    if tried < value * (1.0 - 1e-9) {
                        (value, gpus) = (tried, moved);
                        break;
                    }
                    match old {
                        Some(old) => trial.set(active, old),
                        None => drop(trial.chosen[active.len()].pop()),
                    }
                }
            }
        }
        value
    }

    /// Moves `amount` GPUs from one job to another, together with idle ones; `None` if it changes nothing.
    fn moved(&self, gpus: &[u32], from: usize, to: usize, amount: u32) -> Option<Vec<u32>> {
        let mut moved = gpus.to_vec();
        moved[from] = self.problem.useful(from, gpus[from] - amount);
        let free = self.problem.gpus - moved.iter().sum::<u32>();
        moved[to] = self.problem.useful(to, gpus[to] + free);
        let left = free + gpus[to] - moved[to];
        moved[from] = self.problem.useful(from, moved[from] + left);
        (moved != gpus).then_some(moved)
    }
}

/// How many GPUs to move at a time: one, half, all. Single moves alone would stop where a job needs two more to gain
/// anything.
fn amounts(gpus: u32) -> impl Iterator<Item = u32> {
    let mut all = vec![1, gpus / 2, gpus];
    all.retain(|a| (1..=gpus).contains(a));
    all.dedup();
    all.into_iter()
}
