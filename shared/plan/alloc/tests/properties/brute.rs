//! The slow twin of the search: every choice, evaluated by the definitions.

use allocation::Problem;
use doc::{Balance, BatchPolicy, ObjectiveKind};
use units::corun::{Setting, Throughput};
use units::{Batch, Share, TotalShare};

/// A choice that meets all constraints.
#[derive(Debug, Clone, PartialEq)]
pub struct Feasible {
    /// Batch size and share of each task.
    pub settings: Vec<Setting>,
    /// `P_i`, samples per second.
    pub rates: Vec<f64>,
    /// Value of the objective; larger is better.
    pub objective: f64,
    /// Mismatch in the sense of the problem's balance (FedMT eq. 6).
    pub mismatch: f64,
}

/// The slow twin of [`allocation::solve()`]: evaluates every choice with plain loops, without tables and bounds, by
/// the definitions of the objectives and constraints. Returns the best value and one choice that has it; `None` if
/// none is feasible.
#[must_use]
pub fn brute_force<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
) -> Option<(f64, Vec<Setting>)> {
    let mut best: Option<(f64, Vec<Setting>)> = None;
    every_feasible(rates, problem, &mut |choice| {
        if best.as_ref().is_none_or(|(b, _)| choice.objective > *b) {
            best = Some((choice.objective, choice.settings));
        }
    });
    best
}

/// Visits every feasible choice, by plain loops.
pub fn every_feasible<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    visit: &mut impl FnMut(Feasible),
) {
    each_choice(problem, &mut Vec::new(), &mut |settings| {
        let mut p = vec![0.0; settings.len()];
        rates.means(settings, &mut p);
        if let Some(choice) = judge(rates, problem, settings, p) {
            visit(choice);
        }
    });
}

fn each_choice(problem: &Problem, settings: &mut Vec<Setting>, visit: &mut impl FnMut(&[Setting])) {
    let Some(task) = problem.tasks.get(settings.len()) else {
        visit(settings);
        return;
    };
    let largest = task.batches.iter().max();
    let step = problem.limits.step.hundredths();
    for &batch in &task.batches {
        let reference = task.progress.reference.unwrap_or(task.batches[0]);
        let kept = match problem.limits.policy {
            BatchPolicy::Fixed => Some(&batch) == largest,
            BatchPolicy::Reference => batch == reference,
            BatchPolicy::Free | BatchPolicy::Same => true,
        };
        if !kept {
            continue;
        }
        for level in 1..=Share::FULL.hundredths() / step {
            let share = Share::from_hundredths(level * step);
            let task = settings.len();
            settings.push(Setting { task, batch, share });
            each_choice(problem, settings, visit);
            settings.pop();
        }
    }
}

/// The results of a choice; `None` if a constraint does not hold.
fn judge<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    settings: &[Setting],
    p: Vec<f64>,
) -> Option<Feasible> {
    let l = &problem.limits;
    let total: TotalShare = settings.iter().map(|s| s.share).sum();
    let memory: f64 = problem
        .tasks
        .iter()
        .zip(settings)
        .map(|(t, s)| t.memory.map_or(0.0, |m| m.at(s.batch)))
        .sum();
    let solo: Vec<f64> = settings
        .iter()
        .enumerate()
        .map(|(i, s)| problem.solo(rates, i, s.batch))
        .collect();
    let first: Batch = settings[0].batch;
    let same = settings.iter().all(|s| s.batch == first);
    let fed = p
        .iter()
        .zip(&solo)
        .all(|(p, s)| *p >= l.floor * s - 1e-9 * s);
    let mismatch = mismatch(problem, settings, &p);
    let ok = fed
        && l.rv.is_none_or(|rv| rv == total)
        && l.memory.is_none_or(|m| memory <= m.get() as f64)
        && (l.policy != BatchPolicy::Same || same)
        && l.mismatch.is_none_or(|most| mismatch <= most + 1e-9);
    ok.then(|| Feasible {
        settings: settings.to_vec(),
        objective: objective(rates, problem, settings, &p, &solo),
        rates: p,
        mismatch,
    })
}

fn objective<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    settings: &[Setting],
    p: &[f64],
    solo: &[f64],
) -> f64 {
    let relative = p.iter().zip(solo).map(|(p, s)| p / s);
    match problem.objective {
        ObjectiveKind::Raw => p.iter().sum(),
        ObjectiveKind::Fairness => relative.sum(),
        ObjectiveKind::Weighted => {
            let weighted = problem.tasks.iter().zip(p).map(|(t, p)| t.weight.get() * p);
            weighted.sum()
        }
        ObjectiveKind::MaxMin => relative.fold(f64::INFINITY, f64::min),
        ObjectiveKind::Round => -round_s(rates, problem, settings),
        ObjectiveKind::Progress | ObjectiveKind::ProgressLast => {
            progress(rates, problem, settings, p)
        }
    }
}

/// Seconds until the last task has trained on its samples, recursively: the first to end leaves the device to the
/// others.
fn round_s<C: Throughput + ?Sized>(rates: &C, problem: &Problem, settings: &[Setting]) -> f64 {
    fn rest<C: Throughput + ?Sized>(rates: &C, settings: &[Setting], work: &[f64]) -> f64 {
        if settings.is_empty() {
            return 0.0;
        }
        let mut p = vec![0.0; settings.len()];
        rates.means(settings, &mut p);
        let first = (0..p.len()).fold(0, |a, b| {
            if work[b] / p[b] < work[a] / p[a] {
                b
            } else {
                a
            }
        });
        let step = work[first] / p[first];
        let others = |k: &usize| *k != first;
        let still: Vec<Setting> = (0..p.len()).filter(others).map(|k| settings[k]).collect();
        let left: Vec<f64> = (0..p.len())
            .filter(others)
            .map(|k| (work[k] - step * p[k]).max(0.0))
            .collect();
        step + rest(rates, &still, &left)
    }
    let samples = |s: &Setting| {
        let samples = problem.tasks[s.task].samples;
        samples.map_or(1.0, units::Samples::as_f64)
    };
    let work: Vec<f64> = settings.iter().map(samples).collect();
    rest(rates, settings, &work)
}

/// Minus the mean or last time to target if all tasks have samples; otherwise the mean or minimum of progress
/// relative to the maximum alone, by the definitions.
fn progress<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    settings: &[Setting],
    p: &[f64],
) -> f64 {
    let tasks = &problem.tasks;
    let worth = |i: usize, b: Batch| tasks[i].progress.law.as_ref().map_or(1.0, |l| l.at(b));
    let mean = |values: &[f64]| -> f64 {
        let parts = tasks.iter().zip(values);
        parts.map(|(t, v)| t.progress.part * v).sum()
    };
    let last = problem.objective == ObjectiveKind::ProgressLast;
    if tasks.iter().any(|t| t.samples.is_none()) {
        let relative = |i: usize| {
            let alone = problem
                .sizes(i)
                .into_iter()
                .map(|b| rates.solo(i, b) * worth(i, b));
            p[i] * worth(i, settings[i].batch) / alone.fold(0.0, f64::max)
        };
        let all: Vec<f64> = (0..p.len()).map(relative).collect();
        return if last {
            all.into_iter().fold(f64::INFINITY, f64::min)
        } else {
            mean(&all)
        };
    }
    // The rounds that each task still needs; a task that needs none has left.
    let mut left: Vec<(Setting, f64)> = settings
        .iter()
        .map(|s| (*s, tasks[s.task].progress.rounds / worth(s.task, s.batch)))
        .collect();
    let (mut now, mut ends) = (0.0, vec![0.0; settings.len()]);
    while !left.is_empty() {
        let rounds = left.iter().map(|(_, n)| *n).fold(f64::INFINITY, f64::min);
        let active: Vec<Setting> = left.iter().map(|(s, _)| *s).collect();
        now += rounds * round_s(rates, problem, &active);
        for (s, n) in &mut left {
            *n -= rounds;
            if *n <= 1e-12 {
                ends[s.task] = now;
            }
        }
        left.retain(|(_, n)| *n > 1e-12);
    }
    -if last {
        ends.into_iter().fold(0.0, f64::max)
    } else {
        mean(&ends)
    }
}

/// `sum_a sum_b | D_a/D_b - q_a/q_b |` (FedMT eq. 6).
fn mismatch(problem: &Problem, settings: &[Setting], p: &[f64]) -> f64 {
    let data = |i: usize| problem.tasks[i].samples.map_or(1.0, units::Samples::as_f64);
    let load = |i: usize| match problem.limits.balance {
        Balance::Batch => settings[i].batch.as_f64(),
        Balance::Workload => {
            problem.tasks[i].work_per_sample.unwrap_or(1.0) * settings[i].batch.as_f64()
        }
        Balance::Time => p[i],
    };
    let mut sum = 0.0;
    for a in 0..p.len() {
        for b in 0..p.len() {
            sum += (data(a) / data(b) - load(a) / load(b)).abs();
        }
    }
    sum
}
