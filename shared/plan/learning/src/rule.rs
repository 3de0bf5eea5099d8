use crate::hesrpt;
use crate::problem::{Active, Problem};

/// The rule that gives GPUs to trainings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The best start of the other rules, improved by moving GPUs between jobs, phase by phase.
    Ours,
    /// Wei and Shudo: the older training (smaller loss delta) has three quarters of the GPUs. For
    /// more than two trainings, which the paper leaves open, the shares are heSRPT's by rank with
    /// the exponent 1/2; for two trainings these are 1:3.
    Paper,
    /// The same number of GPUs for each training.
    Equal,
    /// Shortest remaining processing time first: the shortest training gets all GPUs that it can
    /// use.
    Srpt,
    /// Optimus: one GPU each, then one by one to the job whose remaining time falls most.
    Optimus,
    /// Shares of heSRPT, rounded.
    Hesrpt,
}

impl Policy {
    /// Name of the policy.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::Ours => "ours",
            Policy::Paper => "paper",
            Policy::Equal => "equal",
            Policy::Srpt => "srpt",
            Policy::Optimus => "optimus",
            Policy::Hesrpt => "hesrpt",
        }
    }
}

/// Writes the GPUs of every job into `gpus`, for the jobs in `active` with the remaining steps
/// `left`, by a rule that considers only the present ([`Policy::Ours`] begins like heSRPT). Jobs
/// outside `active` get 0. At least one job in `active` runs.
pub fn allocate(
    policy: Policy,
    problem: &Problem,
    active: Active,
    left: &[f64],
    gpus: &mut Vec<u32>,
) {
    gpus.clear();
    gpus.resize(problem.len(), 0);
    let mut order: Vec<usize> = active.iter().collect();
    match policy {
        Policy::Ours | Policy::Hesrpt => {
            sort_longest_first(problem, left, &mut order);
            let p =
                active.iter().map(|i| problem.exponent(i)).sum::<f64>() / order.len().max(1) as f64;
            by_shares(problem, &order, p, gpus);
            for i in active.iter() {
                gpus[i] = problem.useful(i, gpus[i]);
            }
        }
        Policy::Paper => {
            let delta = |i: usize| problem.jobs()[i].delta;
            order.sort_by(|&a, &b| delta(b).total_cmp(&delta(a)));
            by_shares(problem, &order, 0.5, gpus);
        }
        Policy::Equal => equal(problem, &order, gpus),
        Policy::Srpt => {
            sort_longest_first(problem, left, &mut order);
            shortest_first(problem, &order, gpus);
        }
        Policy::Optimus => {
            sort_longest_first(problem, left, &mut order);
            marginal_gain(problem, &order, left, gpus);
        }
    }
    repair(problem, &order, gpus);
}

/// Sorts by remaining time on all useful GPUs, divided by weight: heSRPT's order for weighted jobs.
fn sort_longest_first(problem: &Problem, left: &[f64], order: &mut [usize]) {
    let time = |i: usize| left[i] / problem.rate(i, problem.gpus) / problem.weight(i).max(1e-12);
    order.sort_by(|&a, &b| time(b).total_cmp(&time(a)));
}

fn by_shares(problem: &Problem, longest_first: &[usize], p: f64, gpus: &mut [u32]) {
    let weights: Vec<f64> = longest_first
        .iter()
        .map(|&i| problem.weight(i).max(1e-12))
        .collect();
    let most = vec![problem.gpus; longest_first.len()];
    let rounded = hesrpt::round(&hesrpt::shares(&weights, p), problem.gpus, &most);
    for (&i, g) in longest_first.iter().zip(rounded) {
        gpus[i] = g;
    }
}

/// Equal numbers of GPUs; the remainder goes to the first jobs in `order`.
fn equal(problem: &Problem, order: &[usize], gpus: &mut [u32]) {
    let n = order.len().max(1) as u32;
    for (rank, &i) in (0..).zip(order) {
        gpus[i] = problem.gpus / n + u32::from(rank < problem.gpus % n);
    }
}

fn shortest_first(problem: &Problem, longest_first: &[usize], gpus: &mut [u32]) {
    let mut free = problem.gpus;
    for &i in longest_first.iter().rev() {
        gpus[i] = problem.useful(i, free);
        free -= gpus[i];
    }
}

/// Optimus (Peng et al., EuroSys 2018), section 4.1: one GPU each, then the next GPUs to the job whose weighted
/// remaining time falls most per GPU. Several are given together if a single one would not help.
fn marginal_gain(problem: &Problem, longest_first: &[usize], left: &[f64], gpus: &mut [u32]) {
    let mut free = problem.gpus;
    for &i in longest_first.iter().rev() {
        let least = problem.least(i);
        if least <= free {
            gpus[i] = least;
            free -= least;
        }
    }
    while free > 0 {
        let mut best: Option<(usize, u32, f64)> = None;
        for &i in longest_first.iter().filter(|&&i| gpus[i] > 0) {
            let Some(next) = problem.next_useful(i, gpus[i]) else {
                continue;
            };
            let more = next - gpus[i];
            let saved = left[i] / problem.rate(i, gpus[i]) - left[i] / problem.rate(i, next);
            let gain = problem.weight(i) * saved / f64::from(more);
            if more <= free && gain > best.map_or(0.0, |b| b.2) {
                best = Some((i, more, gain));
            }
        }
        let Some((i, more, _)) = best else {
            break;
        };
        gpus[i] += more;
        free -= more;
    }
}

/// Makes an allocation feasible: a job with fewer GPUs than it needs gives them up, and free ones go, shortest job
/// first, to jobs that have none and can run on them. The rules ignore these limits, and must not leave the machine
/// idle for ever because of them.
fn repair(problem: &Problem, longest_first: &[usize], gpus: &mut [u32]) {
    let mut changed = false;
    for &i in longest_first {
        if gpus[i] > 0 && gpus[i] < problem.least(i) {
            gpus[i] = 0;
            changed = true;
        }
    }
    let runs = longest_first.iter().any(|&i| gpus[i] > 0);
    if !changed && runs {
        return;
    }
    let mut free = problem.gpus - gpus.iter().sum::<u32>().min(problem.gpus);
    for &i in longest_first.iter().rev() {
        let least = problem.least(i);
        if gpus[i] == 0 && least <= free {
            gpus[i] = least;
            free -= least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Objective, RemainingTraining};

    fn problem(gpus: u32, works: &[f64], rate: impl Fn(f64) -> f64) -> Problem {
        let jobs = works.iter().map(|&work| RemainingTraining {
            work,
            weight: 1.0,
            rates: (0..=gpus)
                .map(|g| if g == 0 { 0.0 } else { rate(f64::from(g)) })
                .collect(),
            delta: work,
        });
        Problem::new(gpus, Objective::Completion, jobs.collect()).unwrap()
    }

    fn given(policy: Policy, problem: &Problem) -> Vec<u32> {
        let left: Vec<f64> = problem.jobs().iter().map(|j| j.work).collect();
        let mut gpus = Vec::new();
        allocate(policy, problem, Active::of(problem), &left, &mut gpus);
        gpus
    }

    #[test]
    fn every_rule_on_two_trainings_and_four_gpus() {
        let two = problem(4, &[100.0, 50.0], f64::sqrt);
        assert_eq!(given(Policy::Equal, &two), [2, 2]);
        assert_eq!(given(Policy::Paper, &two), [1, 3]);
        assert_eq!(given(Policy::Hesrpt, &two), [1, 3]);
        assert_eq!(given(Policy::Srpt, &two), [0, 4]);
        assert_eq!(given(Policy::Optimus, &two), [2, 2]);
    }

    #[test]
    fn the_paper_s_rule_looks_at_the_delta_alone() {
        let mut jobs = problem(4, &[100.0, 50.0], f64::sqrt).jobs().to_vec();
        (jobs[0].delta, jobs[1].delta) = (0.1, 0.5);
        let turned = Problem::new(4, Objective::Completion, jobs).unwrap();
        assert_eq!(given(Policy::Paper, &turned), [3, 1]);
    }

    #[test]
    fn what_slows_down_stays_idle() {
        let two = problem(4, &[100.0, 50.0], |g| if g > 1.0 { 0.5 } else { 1.0 });
        assert_eq!(given(Policy::Srpt, &two), [1, 1]);
        assert_eq!(given(Policy::Optimus, &two), [1, 1]);
    }

    #[test]
    fn jobs_that_need_more_than_their_share_wait_and_one_runs() {
        let four = |g: f64| if g < 4.0 { 0.0 } else { 1.0 };
        let two = problem(4, &[100.0, 50.0], four);
        for policy in [
            Policy::Equal,
            Policy::Paper,
            Policy::Hesrpt,
            Policy::Optimus,
            Policy::Srpt,
        ] {
            let gpus = given(policy, &two);
            assert_eq!(gpus.iter().sum::<u32>(), 4, "{policy:?}: {gpus:?}");
            assert!(gpus.contains(&4), "{policy:?}: {gpus:?}");
        }
    }

    #[test]
    fn more_tasks_than_gpus() {
        let six = problem(4, &[6.0, 5.0, 4.0, 3.0, 2.0, 1.0], f64::sqrt);
        for policy in [
            Policy::Equal,
            Policy::Paper,
            Policy::Hesrpt,
            Policy::Optimus,
            Policy::Srpt,
        ] {
            let gpus = given(policy, &six);
            assert!(
                gpus.iter().sum::<u32>() <= 4 && gpus.iter().any(|g| *g > 0),
                "{policy:?}"
            );
        }
    }
}
