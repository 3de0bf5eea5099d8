//! The placement job by job that fills holes, from any moment on.

use cluster::list::{Choice, Fill, List};
use cluster::{Assignment, ClusterState, JobProgress, Problem};
use proptest::prelude::*;

use crate::common::{Size, random};
use crate::{dyadic, on_grid};

fn placed(
    problem: &Problem,
    state: &ClusterState,
    now: f64,
    order: &[usize],
) -> (f64, Vec<Assignment>) {
    let list = List {
        problem,
        state,
        now,
        fill: Fill::Holes,
        choice: Choice::EarliestCompletion,
    };
    let mut out = Vec::new();
    let cost = list.play(list.job_by_job(order), f64::INFINITY, |a| out.push(a));
    (cost, out)
}

/// How far the problem is when all that starts before `now` has been started.
fn state_at(problem: &Problem, placed: &[Assignment], now: f64) -> ClusterState {
    let mut state = ClusterState::new(problem);
    let mut begun: Vec<&Assignment> = placed.iter().filter(|a| a.start < now).collect();
    begun.sort_by_key(|a| a.round);
    for a in begun {
        state.free[a.gpu] = state.free[a.gpu].max(a.trained);
        let p = &mut state.jobs[a.job];
        p.started += 1;
        p.synced = p.synced.max(a.synced);
        if p.started == problem.jobs[a.job].tasks {
            *p = JobProgress {
                round: p.round + 1,
                started: 0,
                ready: p.synced,
                synced: 0.0,
            };
        }
    }
    state
}

fn rest(placed: &[Assignment], now: f64) -> Vec<(usize, usize, usize, f64)> {
    let later = placed.iter().filter(|a| a.start >= now);
    let mut rows: Vec<_> = later.map(|a| (a.job, a.round, a.gpu, a.start)).collect();
    rows.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    /// Placed again at any moment, what has not started stays where it was, and costs as much.
    #[test]
    fn filling_goes_on_as_it_began(
        seed in 0_u64..1_000_000,
        jobs in 1_usize..12,
        spacing in 0.0..8.0_f64,
        rotation in 0_usize..12,
        part in 0.0..1.0_f64,
    ) {
        let size = Size { gpus: vec![2, 2, 1], jobs, rounds: 5, tasks: 4, spacing };
        let problem = dyadic(&random(seed, &size));
        let mut order: Vec<usize> = (0..jobs).collect();
        order.rotate_left(rotation % jobs);
        let (cost, whole) = placed(&problem, &ClusterState::new(&problem), 0.0, &order);
        let end = whole.iter().map(|a| a.synced).fold(0.0, f64::max);
        let now = on_grid(part * end);
        let (again, later) = placed(&problem, &state_at(&problem, &whole, now), now, &order);
        prop_assert_eq!(rest(&later, now), rest(&whole, now));
        prop_assert!((again - cost).abs() <= 1e-9 * cost, "{again} {cost}");
    }
}
