use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use doc::{Infeasibility, ObjectiveKind, Proof};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use units::corun::Throughput;

use crate::error::AllocError;
use crate::problem::Problem;
use crate::rates::{Remembered, Subset};
use crate::search::answer::{Effort, Report, SearchOptions, SearchOutcome, Solution};
use crate::search::best::search;
use crate::search::solve::solve;

/// Maximum number of tasks for which every partition is considered.
const EXACT_TASKS: usize = 10;
/// Perturbations of the local search after its first local optimum.
const PERTURBATIONS: u32 = 40;
/// Maximum number of subsets that the local search solves for up to 8 tasks. The cost of a subset grows with the
/// square of its tasks, so with more tasks the limit is lower ([`Subsets::most`]).
const MOST_SUBSETS: usize = 6_000;
/// Budget of points, divided among all subsets, if every partition is considered and each point is predicted. Only the
/// ranking of subsets matters here, because the best ones are solved again. With a million points for each subset, 8
/// tasks took 40 CPU seconds for the same answer; with 2,000, on 4 GPUs, still 6 seconds; with the 500 of this budget,
/// 1.4. With three tasks, the points suffice for a proof.
const SUBSETS_POINTS: u64 = 130_000;
/// The same budget if interference is additive and a point takes a tenth of a microsecond: 8 tasks on 2 GPUs took 14
/// seconds with a million for each, 0.6 with 20,000 for the same answer.
const SUBSETS_NODES: u64 = 5_000_000;
/// Starts of the local search of a subset; with 16, each would have too few points to climb.
const SUBSET_STARTS: u32 = 2;

/// The subsets of the best partitions are searched again with this many points and starts, up to this number of
/// subsets. With the brief search alone, a partition of 8 tasks on 2 GPUs by a fitted model was 4.7 % behind the best.
/// Chosen by hand.
const CAREFUL_POINTS: u64 = 5_000;
const CAREFUL_STARTS: u32 = 4;
const CAREFUL_SETS: usize = 40;

/// Assignment of tasks to several equal GPUs, and the choice on each.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Partition {
    /// Tasks of each GPU, ascending; a GPU may stay empty. Empty if nothing is feasible.
    pub groups: Vec<Vec<usize>>,
    /// The choice on each GPU; `None` for a GPU without tasks.
    pub solutions: Vec<Option<Solution>>,
    /// Objective over all GPUs: the minimum for `max-min`, `round` and `progress-last`, otherwise the sum.
    pub objective: f64,
    /// How it was found.
    pub report: Report,
    /// Why nothing is feasible.
    pub infeasible: Vec<Infeasibility>,
}

/// Solved subsets of the tasks.
struct Subsets<'a, C: Throughput + ?Sized> {
    rates: &'a C,
    problem: &'a Problem,
    options: SearchOptions,
    known: HashMap<u64, Option<Solution>>,
    points: u64,
    proven: bool,
    /// Maximum number of subsets that are solved; any further one counts as infeasible.
    most: usize,
    /// Subsets that were searched again.
    careful: HashSet<u64>,
    /// Largest relative gain of any subset from a second search. Subsets that were searched only once are credited
    /// with it, so that a subset is not preferred merely because it was searched twice.
    hope: f64,
}

impl<C: Throughput + ?Sized> Subsets<'_, C> {
    fn value(&mut self, set: u64) -> Result<f64, AllocError> {
        if set == 0 {
            return Ok(neutral(self.problem));
        }
        if let Some(known) = self.known.get(&set) {
            let value = worth(known.as_ref());
            let hope = match self.careful.contains(&set) || value.is_infinite() {
                true => 0.0,
                false => self.hope * value.abs(),
            };
            return Ok(value + hope);
        }
        if self.known.len() >= self.most {
            return Ok(f64::NEG_INFINITY);
        }
        let members = members(set);
        let part = self.problem.restricted(&members);
        let outcome: SearchOutcome = solve_subset(self.rates, &part, &members, &self.options)?;
        self.points += outcome.report.points;
        self.proven &= outcome.report.proof != Proof::NotProven;
        let best = outcome.solutions.into_iter().next();
        let value = worth(best.as_ref());
        self.known.insert(set, best);
        Ok(value)
    }

    /// Searches a known subset again with the current options, and keeps the better result.
    fn search_again(&mut self, set: u64) -> Result<(), AllocError> {
        self.careful.insert(set);
        let Some(before) = self.known.remove(&set) else {
            return Ok(());
        };
        let now = self.value(set)?;
        let known = worth(before.as_ref());
        if now > known {
            let gain = (now - known) / known.abs();
            self.hope = self.hope.max(if gain.is_finite() { gain } else { 0.0 });
        } else {
            self.known.insert(set, before);
        }
        Ok(())
    }

    /// Objective of an assignment to GPUs.
    fn total(&mut self, groups: &[u64]) -> Result<f64, AllocError> {
        let mut total = neutral(self.problem);
        for &set in groups {
            let value = self.value(set)?;
            total = join(self.problem, total, value);
        }
        Ok(total)
    }
}

fn solve_subset<C: Throughput + ?Sized>(
    rates: &C,
    part: &Problem,
    members: &[usize],
    options: &SearchOptions,
) -> Result<SearchOutcome, AllocError> {
    let (solutions, report) = search(&Subset::new(rates, members), part, options)?;
    Ok(SearchOutcome {
        solutions,
        report,
        infeasible: Vec::new(),
    })
}

fn worth(solution: Option<&Solution>) -> f64 {
    solution.map_or(f64::NEG_INFINITY, |s| s.objective)
}

fn is_bottleneck(problem: &Problem) -> bool {
    matches!(
        problem.objective,
        ObjectiveKind::MaxMin | ObjectiveKind::Round | ObjectiveKind::ProgressLast
    )
}

fn neutral(problem: &Problem) -> f64 {
    if is_bottleneck(problem) {
        f64::INFINITY
    } else {
        0.0
    }
}

fn join(problem: &Problem, a: f64, b: f64) -> f64 {
    if is_bottleneck(problem) {
        a.min(b)
    } else {
        a + b
    }
}

fn members(set: u64) -> Vec<usize> {
    (0..64).filter(|i| set >> i & 1 == 1).collect()
}

/// Assigns tasks to `gpus` equal GPUs and solves each: all set partitions for up to 10 tasks (dynamic programming over
/// subsets), local search with moves and swaps for more. `R_v`, memory, mismatch and floor hold for the tasks of each
/// GPU.
pub fn solve_partition<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    gpus: usize,
    options: &SearchOptions,
) -> Result<Partition, AllocError> {
    problem.check()?;
    // When tasks end, the remaining ones form co-runs that also occur in many other subsets.
    let rates = &Remembered::new(rates, problem.is_timed());
    let n = problem.tasks.len();
    let exact = n <= EXACT_TASKS && options.effort != Effort::Local;
    let mut subsets = Subsets {
        rates,
        problem,
        options: if exact {
            let subsets = (1 << n) - 1;
            // A round is simulated, so additive interference does not make it cheaper.
            let round = problem.is_timed();
            let few = match options.effort {
                Effort::Exact => options.max_points,
                _ if round || rates.interference().is_none() => SUBSETS_POINTS / subsets,
                _ => SUBSETS_NODES / subsets,
            };
            SearchOptions {
                top: 1,
                max_points: options.max_points.min(few),
                starts: options.starts.min(SUBSET_STARTS),
                ..options.clone()
            }
        } else {
            // There are thousands of subsets. Only their ranking matters, because the best ones are solved again.
            SearchOptions {
                top: 1,
                effort: Effort::Local,
                max_points: options.max_points.min(2_000),
                starts: options.starts.min(SUBSET_STARTS),
                ..options.clone()
            }
        },
        known: HashMap::new(),
        careful: HashSet::new(),
        hope: 0.0,
        points: 0,
        proven: true,
        most: if exact {
            usize::MAX
        } else {
            (MOST_SUBSETS / n.div_ceil(8).pow(2)).max(gpus)
        },
    };
    let groups = if exact {
        all_partitions(&mut subsets, n, gpus)?
    } else {
        local_partition(&mut subsets, n, gpus, options.seed)?
    };
    let mut candidates = vec![groups];
    let proven = exact && subsets.proven;
    if gpus > 1 && n > gpus && !proven {
        if exact {
            candidates.push(careful_partition(&mut subsets, n, gpus, options)?);
        }
        candidates.extend([longest_first(rates, problem, gpus), round_robin(n, gpus)]);
    }
    let mut solved = HashMap::new();
    let mut best: Option<Partition> = None;
    for groups in candidates {
        let found = finish(&mut subsets, &mut solved, groups, exact, options)?;
        if best.as_ref().is_none_or(|b| found.objective > b.objective) {
            best = Some(found);
        }
    }
    let mut best = best.ok_or(AllocError::TaskCount { found: n })?;
    best.report.points = subsets.points;
    Ok(best)
}

/// Longest processing time first: assigns tasks in order of their time alone, longest first, each to the GPU with the
/// smallest load. The result is never worse than this, which is needed because a search of many subsets is brief for
/// each and may rank two partitions wrongly.
fn longest_first<C: Throughput + ?Sized>(rates: &C, problem: &Problem, gpus: usize) -> Vec<u64> {
    let alone = |i: usize| {
        let task = &problem.tasks[i];
        let fastest = task.batches.iter().map(|&b| rates.solo(i, b));
        task.samples.map_or(1.0, units::Samples::as_f64) / fastest.fold(0.0, f64::max)
    };
    let mut tasks: Vec<(f64, usize)> = (0..problem.tasks.len()).map(|i| (alone(i), i)).collect();
    tasks.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut loads = vec![(0.0_f64, 0_u64); gpus];
    for (seconds, i) in tasks {
        if let Some(least) = loads.iter_mut().min_by(|a, b| a.0.total_cmp(&b.0)) {
            least.0 += seconds;
            least.1 |= 1 << i;
        }
    }
    loads.into_iter().map(|(_, set)| set).collect()
}

fn round_robin(n: usize, gpus: usize) -> Vec<u64> {
    let of: Vec<usize> = (0..n).map(|i| i % gpus).collect();
    sets(&of, gpus)
}

/// Solves each GPU of a partition, reusing the outcomes in `solved`.
fn finish<C: Throughput + ?Sized>(
    subsets: &mut Subsets<'_, C>,
    solved: &mut HashMap<u64, SearchOutcome>,
    groups: Vec<u64>,
    exact: bool,
    options: &SearchOptions,
) -> Result<Partition, AllocError> {
    let (rates, problem) = (subsets.rates, subsets.problem);
    let mut proven = subsets.proven && exact;
    let single = SearchOptions {
        top: 1,
        ..options.clone()
    };
    let mut solutions = Vec::new();
    let mut infeasible = Vec::new();
    let mut objective = neutral(problem);
    for &set in &groups {
        if set == 0 {
            solutions.push(None);
            continue;
        }
        let members = members(set);
        let part = problem.restricted(&members);
        let outcome = match solved.entry(set) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                let outcome = solve(&Subset::new(rates, &members), &part, &single)?;
                subsets.points += outcome.report.points;
                new.insert(outcome).clone()
            }
        };
        proven &= outcome.report.proof != Proof::NotProven || exact;
        // The earlier search of the subset may have found a better choice than this one.
        let known = subsets.known.get(&set).cloned().flatten();
        let found = outcome.solutions.into_iter().next();
        let best = if worth(found.as_ref()) >= worth(known.as_ref()) {
            found
        } else {
            known
        };
        infeasible.extend(outcome.infeasible);
        objective = join(problem, objective, worth(best.as_ref()));
        solutions.push(best);
    }
    let feasible = objective > f64::NEG_INFINITY;
    Ok(Partition {
        groups: if feasible {
            groups.iter().map(|&s| members(s)).collect()
        } else {
            Vec::new()
        },
        solutions: if feasible { solutions } else { Vec::new() },
        objective,
        report: Report {
            points: subsets.points,
            proof: if proven {
                Proof::Enumerated
            } else {
                Proof::NotProven
            },
            bound: (proven && feasible).then_some(objective),
        },
        infeasible: if feasible { Vec::new() } else { infeasible },
    })
}

/// The best of all partitions, by dynamic programming: `best[k][set]` is the best value of `set` on `k` GPUs. The
/// lowest task of a set is placed on the last GPU, together with any subset of the others.
fn all_partitions<C: Throughput + ?Sized>(
    subsets: &mut Subsets<'_, C>,
    n: usize,
    gpus: usize,
) -> Result<Vec<u64>, AllocError> {
    let problem = subsets.problem;
    let size = 1_usize << n;
    let used = gpus.clamp(1, n);
    let mut best = vec![vec![f64::NEG_INFINITY; size]; used + 1];
    let mut last = vec![vec![0_u64; size]; used + 1];
    best[0][0] = neutral(problem);
    for k in 1..=used {
        best[k][0] = neutral(problem);
        for set in 1..size {
            let low = set & set.wrapping_neg();
            let others = set ^ low;
            let mut sub = others;
            loop {
                let group = sub | low;
                let before = best[k - 1][set ^ group];
                if before > f64::NEG_INFINITY {
                    let value = join(problem, before, subsets.value(group as u64)?);
                    if value > best[k][set] {
                        best[k][set] = value;
                        last[k][set] = group as u64;
                    }
                }
                if sub == 0 {
                    break;
                }
                sub = (sub - 1) & others;
            }
        }
    }
    let mut groups = Vec::new();
    let (mut k, mut set) = (used, size - 1);
    if best[used][set] == f64::NEG_INFINITY {
        // If no partition is feasible, return all tasks as one group, to explain why that is infeasible.
        groups.push(set as u64);
    }
    while groups.is_empty() || (set > 0 && k > 0) {
        let group = last[k][set];
        if group == 0 {
            break;
        }
        groups.push(group);
        set ^= group as usize;
        k -= 1;
    }
    groups.resize(gpus.max(groups.len()), 0);
    Ok(groups)
}

/// Improves the best partition after a brief search has ranked the subsets: searches the subsets of the best partition
/// again, until all of them were searched again or [`CAREFUL_SETS`] is reached.
fn careful_partition<C: Throughput + ?Sized>(
    subsets: &mut Subsets<'_, C>,
    n: usize,
    gpus: usize,
    options: &SearchOptions,
) -> Result<Vec<u64>, AllocError> {
    subsets.options.max_points = options.max_points.min(CAREFUL_POINTS);
    subsets.options.starts = options.starts.min(CAREFUL_STARTS);
    while subsets.careful.len() < CAREFUL_SETS {
        let mut brief = all_partitions(subsets, n, gpus)?;
        brief.retain(|set| *set != 0 && !subsets.careful.contains(set));
        if brief.is_empty() {
            break;
        }
        for set in brief {
            subsets.search_again(set)?;
        }
    }
    subsets.hope = 0.0;
    all_partitions(subsets, n, gpus)
}

/// Moves and swaps of tasks between GPUs, with random perturbations.
fn local_partition<C: Throughput + ?Sized>(
    subsets: &mut Subsets<'_, C>,
    n: usize,
    gpus: usize,
    seed: u64,
) -> Result<Vec<u64>, AllocError> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut of: Vec<usize> = (0..n).map(|i| i % gpus).collect();
    let mut value = subsets.total(&sets(&of, gpus))?;
    descend(subsets, &mut of, &mut value, gpus)?;
    let (mut best, mut best_value) = (of.clone(), value);
    for _ in 0..PERTURBATIONS {
        if subsets.known.len() >= subsets.most {
            break;
        }
        of.clone_from(&best);
        for _ in 0..3 {
            let i = rng.random_range(0..n);
            let g = rng.random_range(0..gpus);
            of[i] = g;
        }
        value = subsets.total(&sets(&of, gpus))?;
        descend(subsets, &mut of, &mut value, gpus)?;
        if value > best_value {
            best_value = value;
            best.clone_from(&of);
        }
    }
    Ok(sets(&best, gpus))
}

fn sets(of: &[usize], gpus: usize) -> Vec<u64> {
    let mut groups = vec![0_u64; gpus];
    for (i, &g) in of.iter().enumerate() {
        groups[g] |= 1 << i;
    }
    groups
}

fn descend<C: Throughput + ?Sized>(
    subsets: &mut Subsets<'_, C>,
    of: &mut Vec<usize>,
    value: &mut f64,
    gpus: usize,
) -> Result<(), AllocError> {
    let n = of.len();
    loop {
        let before = *value;
        for i in 0..n {
            for g in (0..gpus).filter(|g| *g != of[i]).collect::<Vec<_>>() {
                let mut next = of.clone();
                next[i] = g;
                keep_better(subsets, of, value, next, gpus)?;
            }
            for j in 0..i {
                if of[i] != of[j] {
                    let mut next = of.clone();
                    next.swap(i, j);
                    keep_better(subsets, of, value, next, gpus)?;
                }
            }
        }
        // A value that stays infinite is no gain; the difference of two infinities is NaN.
        let gained =
            *value > before && (before.is_infinite() || *value - before > 1e-12 * before.abs());
        if !gained {
            return Ok(());
        }
    }
}

fn keep_better<C: Throughput + ?Sized>(
    subsets: &mut Subsets<'_, C>,
    of: &mut Vec<usize>,
    value: &mut f64,
    next: Vec<usize>,
    gpus: usize,
) -> Result<(), AllocError> {
    let got = subsets.total(&sets(&next, gpus))?;
    if got > *value {
        *value = got;
        *of = next;
    }
    Ok(())
}
