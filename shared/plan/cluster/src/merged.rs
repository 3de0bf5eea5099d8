//! Rounds by their number: a cluster with more tasks than can be simulated, as one with fewer and longer rounds.

use std::borrow::Cow;

use crate::state::State;
use crate::{Problem, TrainingJob};

/// Up to this many open tasks every round is simulated.
const MANY: usize = 10_000;
/// So many tasks are left of more, as far as every job keeps a round: with fewer, a search tries more orders in the same
/// time. 300 jobs of 87,352 tasks that arrive at load 2 on 15 GPUs, online, two seeds: weighted flow time 1.930e6 and
/// 1.929e6 s, with every round simulated 1.968e6 and 1.941e6.
const MERGED: usize = 4_000;

/// The rest of a cluster, to search priorities on and to forecast ends with.
#[derive(Debug)]
pub struct Rest<'p> {
    /// The jobs, with neighbouring rounds merged where there are too many.
    pub problem: Cow<'p, Problem>,
    /// How far they are; present rounds are those of the cluster.
    pub state: State,
}

/// The rest of a cluster of which `state` is expected.
///
/// The rounds that a job has left count as at most so many that all jobs together have about [`MERGED`] tasks. Each takes
/// as long as the rounds that it stands for, so that the work that is left and the least time that the job takes alone
/// stay the same. Only the moments at which a GPU can be handed over become fewer.
pub fn rest(problem: &Problem, state: State) -> Rest<'_> {
    let Some(few) = few(problem, &state) else {
        return Rest {
            problem: Cow::Borrowed(problem),
            state,
        };
    };
    let mut merged = problem.clone();
    for (n, p) in state.jobs.iter().enumerate() {
        let (job, rounds) = (&problem.jobs[n], left(&problem.jobs[n], p.round));
        if rounds <= few {
            continue;
        }
        let tasks = |rounds: usize| (rounds * job.tasks - p.started) as f64;
        let factor = tasks(rounds) / tasks(few);
        merged.drifted(n, factor);
        merged.jobs[n].rounds = p.round + few;
    }
    Rest {
        problem: Cow::Owned(merged),
        state,
    }
}

/// The rounds of each job that a plan has in one go, in as many entries as there are merged rounds in [`rest`].
pub fn strides(problem: &Problem, state: &State) -> Vec<usize> {
    let few = few(problem, state).unwrap_or(usize::MAX);
    let each = problem.jobs.iter().zip(&state.jobs);
    each.map(|(job, p)| left(job, p.round).div_ceil(few).max(1))
        .collect()
}

/// How many rounds a job keeps where there are too many tasks; `None` where there are not.
fn few(problem: &Problem, state: &State) -> Option<usize> {
    let left = |n: usize| left(&problem.jobs[n], state.jobs[n].round);
    let with = |most: usize| {
        let each = (0..problem.jobs.len()).map(|n| left(n).min(most) * problem.jobs[n].tasks);
        each.sum::<usize>()
    };
    let longest = (0..problem.jobs.len()).map(left).max().unwrap_or(0);
    if with(longest) <= MANY {
        return None;
    }
    // The most rounds of a job that are few enough; one at least.
    let (mut few, mut many) = (1, longest);
    while few + 1 < many {
        let middle = few + (many - few) / 2;
        match with(middle) <= MERGED {
            true => few = middle,
            false => many = middle,
        }
    }
    Some(few)
}

fn left(job: &TrainingJob, round: usize) -> usize {
    job.rounds.saturating_sub(round)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;

    fn problem(jobs: &[(usize, usize)]) -> Problem {
        let class = Class {
            count: 0,
            memory: f64::INFINITY,
            bus: f64::INFINITY,
        };
        let job = |&(rounds, tasks): &(usize, usize)| TrainingJob {
            weight: 1.0,
            arrival: 0.0,
            rounds,
            tasks,
            gang: None,
            train: vec![0.5],
            sync: vec![0.1],
            shortest_round: 0.0,
            deadline: f64::INFINITY,
        };
        Problem::new(vec![class], vec![0; 4], jobs.iter().map(job).collect())
    }

    #[test]
    fn few_tasks_stay_as_they_are() {
        let problem = problem(&[(2_500, 2), (5_000, 1)]);
        let rest = rest(&problem, State::new(&problem));
        assert!(matches!(rest.problem, Cow::Borrowed(_)));
    }

    #[test]
    fn many_rounds_are_fewer_longer_ones_of_as_much_work() {
        let problem = problem(&[(4_000_000_000, 4), (1_000_000, 1), (7, 3)]);
        let mut state = State::new(&problem);
        state.jobs[0].round = 1_000;
        state.jobs[0].started = 3;
        let rest = rest(&problem, state.clone());
        assert!(rest.problem.volume() <= MERGED + 4 * 1_000);
        assert_eq!(rest.state.jobs, state.jobs);
        assert_eq!(rest.problem.jobs[2], problem.jobs[2]);
        let work = |problem: &Problem, n: usize| {
            let (job, p) = (&problem.jobs[n], &state.jobs[n]);
            let tasks = (job.rounds - p.round) * job.tasks - p.started;
            tasks as f64 * (job.train[0] + job.sync[0])
        };
        for n in 0..2 {
            let (own, merged) = (work(&problem, n), work(&rest.problem, n));
            assert!((own / merged - 1.0).abs() < 1e-9, "{own} {merged}");
        }
    }

    #[test]
    fn every_job_keeps_a_round() {
        let problem = problem(&[(3, 9_000), (4, 9_000)]);
        let rest = rest(&problem, State::new(&problem));
        assert_eq!(rest.problem.jobs[0].rounds, 1);
        assert_eq!(rest.problem.volume(), 18_000);
    }
}
