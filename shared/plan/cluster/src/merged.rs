//! Merges rounds: models a cluster with too many tasks to simulate as one with fewer, longer
//! rounds.

use std::borrow::Cow;

use crate::state::ClusterState;
use crate::{Problem, TrainingJob};

/// Up to this many open tasks every round is simulated.
const MANY: usize = 10_000;
/// If there are more, rounds are merged until about this many tasks remain, with at least one round
/// per job: with fewer tasks, a search tries more orders in the same time. For 300 jobs of 87,352
/// tasks that arrive at load 2 on 15 GPUs, the weighted flow time online was 1.930e6 and 1.929e6 s
/// (two seeds); with every round simulated it was 1.968e6 and 1.941e6 s.
const MERGED: usize = 4_000;

/// The remaining problem of a cluster, for the search of priorities and the forecast of ends.
#[derive(Debug)]
pub struct Rest<'p> {
    /// The jobs, with neighbouring rounds merged where there are too many.
    pub problem: Cow<'p, Problem>,
    /// Progress of the jobs; present rounds have the numbers of the cluster's rounds.
    pub state: ClusterState,
}

/// The remaining problem of a cluster with the expected state `state`.
///
/// If there are too many tasks, all jobs keep at most the same number of rounds, so that together
/// they have about [`MERGED`] tasks. A merged round takes as long as the rounds that it stands for,
/// so the remaining work and the job's least time alone stay the same. Only the moments at which a
/// GPU can be handed over become fewer.
pub fn rest(problem: &Problem, state: ClusterState) -> Rest<'_> {
    let Some(few) = few(problem, &state) else {
        return Rest {
            problem: Cow::Borrowed(problem),
            state,
        };
    };
    let mut merged = problem.clone();
    for (n, p) in state.jobs.iter().enumerate() {
        let job = &problem.jobs[n];
        let rounds = left(&problem.jobs[n], p.round);
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

/// The number of rounds of each job that a plan places at once; a job then has at most as many
/// entries as it has merged rounds in [`rest`].
pub fn strides(problem: &Problem, state: &ClusterState) -> Vec<usize> {
    let few = few(problem, state).unwrap_or(usize::MAX);
    let each = problem.jobs.iter().zip(&state.jobs);
    each.map(|(job, p)| left(job, p.round).div_ceil(few).max(1))
        .collect()
}

/// The most rounds that a job keeps if there are too many tasks; `None` if there are not.
fn few(problem: &Problem, state: &ClusterState) -> Option<usize> {
    let left = |n: usize| left(&problem.jobs[n], state.jobs[n].round);
    let with = |most: usize| {
        let each = (0..problem.jobs.len()).map(|n| left(n).min(most) * problem.jobs[n].tasks);
        each.sum::<usize>()
    };
    let longest = (0..problem.jobs.len()).map(left).max().unwrap_or(0);
    if with(longest) <= MANY {
        return None;
    }
    // Bisect for the largest number of rounds per job that is few enough; at least one.
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
        let rest = rest(&problem, ClusterState::new(&problem));
        assert!(matches!(rest.problem, Cow::Borrowed(_)));
    }

    #[test]
    fn many_rounds_are_fewer_longer_ones_of_as_much_work() {
        let problem = problem(&[(4_000_000_000, 4), (1_000_000, 1), (7, 3)]);
        let mut state = ClusterState::new(&problem);
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
        let rest = rest(&problem, ClusterState::new(&problem));
        assert_eq!(rest.problem.jobs[0].rounds, 1);
        assert_eq!(rest.problem.volume(), 18_000);
    }
}
