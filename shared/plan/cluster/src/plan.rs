//! Plans a problem: makes a schedule and its certificate, a lower bound.

use std::time::Instant;

use crate::bounds::{self, Effort, Equilibrium, Relaxed};
use crate::dispatch::Player;
use crate::exact::exact;
use crate::migrate::migrating;
use crate::search::{self, Budget, Decoder, Search, decode, shortest_chain, smith};
use crate::state::{ClusterState, Priorities};
use crate::{Problem, Schedule, baselines, sequence};

/// The scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The portfolio of this crate.
    Hare,
    /// Hare's algorithm as printed.
    HareLiteral,
    /// Gavel's FIFO.
    Fifo,
    /// Shortest remaining time first.
    Srtf,
    /// Uses weights, ignores GPU types.
    Homo,
    /// AlloX.
    Allox,
}

impl Policy {
    /// The policies to compare the portfolio with.
    pub const BASELINES: [Self; 5] = [
        Self::Fifo,
        Self::Srtf,
        Self::Homo,
        Self::Allox,
        Self::HareLiteral,
    ];

    /// The policy of a name on the command line.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "hare" => Self::Hare,
            "hare-literal" => Self::HareLiteral,
            "fifo" => Self::Fifo,
            "srtf" => Self::Srtf,
            "homo" => Self::Homo,
            "allox" => Self::Allox,
            _ => return None,
        })
    }

    /// The schedule of a baseline; `None` for the portfolio, which needs a search, and for AlloX if
    /// there are gangs, since it gives each job one GPU.
    pub fn baseline(self, problem: &Problem) -> Option<Schedule> {
        Some(match self {
            Self::Hare => return None,
            Self::Allox if problem.has_gangs() => return None,
            Self::HareLiteral => baselines::hare_literal(problem),
            Self::Fifo => baselines::fifo(problem),
            Self::Srtf => baselines::srtf(problem),
            Self::Homo => baselines::homo(problem),
            Self::Allox => baselines::allox(problem),
        })
    }
}

/// Which relaxation gave the lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Every job alone on the cluster.
    Chain,
    /// Unrelated machines.
    Unrelated,
    /// Prices of GPU time.
    Prices,
    /// Branch and bound over all schedules.
    Exact,
}

/// How to plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions {
    /// Seed of the search.
    pub seed: u64,
    /// Starts of tasks to simulate in the local search.
    pub starts: u64,
    /// Nodes of branch and bound.
    pub nodes: u64,
    /// Stop the search for schedules at this time.
    pub deadline: Option<Instant>,
    /// Search until the deadline, if there is one, in problems where more time helps: up to
    /// `SEQUENCE_TASKS` tasks, without gangs.
    pub patient: bool,
}

impl Default for PlanOptions {
    /// Budgets are in work, not time, so that results are reproducible; not tuned.
    fn default() -> Self {
        Self {
            seed: 0,
            starts: 4_000_000,
            nodes: 300_000,
            deadline: None,
            patient: false,
        }
    }
}

/// A schedule and its certificate.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Planned {
    /// The schedule.
    pub schedule: Schedule,
    /// `sum w C`.
    pub cost: f64,
    /// Lower bound on the cost of every schedule.
    pub lower_bound: f64,
    /// The relaxation that gives this bound.
    pub bound: Bound,
    /// Whether the schedule is proven to be the best.
    pub proven: bool,
    /// Schedules tried by the local search.
    pub tries: u64,
    /// Nodes of branch and bound.
    pub nodes: u64,
}

/// Up to this many tasks branch and bound is tried; 12 tasks on 3 GPUs take up to some ten thousand
/// nodes, and beyond about 20 it seldom ends within the budget.
const EXACT_TASKS: usize = 24;
/// The same limit if the user gives time: 31 tasks on 4 GPUs were proven in 200,000 nodes once the
/// optimum was known.
const PATIENT_EXACT_TASKS: usize = 32;
/// Up to this many tasks sequences of single tasks are searched, too. Tried with 19 to 31.
const SEQUENCE_TASKS: usize = 64;
/// Starts in a sequence for each start of the budget: at some 5 ns each, this many take less time
/// than one start of the event-driven placement.
const CHEAPER_STARTS: u64 = 16;
/// With gangs, branch and bound is tried up to this many GPUs, since every set of GPUs is a branch.
const EXACT_GPUS: usize = 8;
/// Up to this many rounds times classes the linear program of [`bounds::unrelated`] is solved: it
/// grows with each cut. On 240 random problems its bound was the best only once, by 0.7 %.
const LP_CELLS: usize = 120;
/// GPUs times tasks up to which filling holes is tried: its cost grows with both.
const HOLES_WORK: usize = 20_000_000;

/// Cube of the jobs times GPUs up to which AlloX is a start of the search: it solves a matching at
/// every arrival and completion. With 300 jobs on 160 GPUs that took 2.3 s of CPU; with 71 jobs on
/// 18 GPUs the time was negligible.
pub(crate) const MATCHING_WORK: usize = 100_000_000;

/// Plans with the portfolio: constructive orders and placements, local search, branch and bound
/// where the problem is small, and the best of the bounds.
///
/// If jobs may share GPUs, plans without sharing first, and continues the search from there with
/// sharing, so that sharing never makes a plan worse.
pub fn plan(problem: &Problem, options: &PlanOptions) -> Planned {
    if is_merged(problem) {
        return plan_merged(problem, options);
    }
    if problem.shares() {
        return plan_shared(problem, options);
    }
    let relaxed = relaxation(problem);
    let Constructed {
        mut schedule,
        mut cost,
        start: (_, start),
    } = constructed(problem, relaxed.as_ref());
    let mut tries = 0;
    let small = problem.volume() <= EXACT_TASKS
        && (!problem.has_gangs() || problem.gpus.len() <= EXACT_GPUS);
    // A short local search first: branch and bound prunes by its result. A fiftieth is 80,000 starts of
    // tasks by default; chosen by hand.
    let budget = Budget {
        starts: if small {
            options.starts / 50
        } else {
            options.starts
        },
        deadline: options.deadline,
    };
    for &decoder in decoders(problem) {
        let state = ClusterState::new(problem);
        let budget = Budget {
            starts: budget.starts / decoders(problem).len() as u64,
            ..budget
        };
        let search = Search {
            problem,
            state: &state,
            now: 0.0,
            decoder,
            budget,
            seed: options.seed,
            fixed: 0,
        };
        let found = search.improve(start.clone(), None);
        tries += found.tries;
        if found.cost < cost {
            schedule = decode(problem, &found.priorities, decoder);
            cost = schedule.cost(problem);
        }
    }
    let mut best = Incumbent { schedule, cost };
    let refined = refine(problem, options, budget.starts, small, &mut best);
    let Incumbent { schedule, cost } = best;
    let Refined {
        proven,
        nodes,
        tries: more,
    } = refined;
    tries += more;
    let (bound, lower_bound) = certificate(problem, relaxed.as_ref(), &schedule, proven);
    Planned {
        proven: proven || lower_bound >= cost,
        schedule,
        cost,
        lower_bound,
        bound,
        tries,
        nodes,
    }
}

/// The best schedule so far.
struct Incumbent {
    schedule: Schedule,
    cost: f64,
}

impl Incumbent {
    fn take(&mut self, problem: &Problem, better: Option<Schedule>) {
        if let Some(schedule) = better {
            self.cost = schedule.cost(problem);
            self.schedule = schedule;
        }
    }
}

/// Outcome of [`refine`], besides the schedule.
#[derive(Default)]
struct Refined {
    proven: bool,
    nodes: u64,
    tries: u64,
}

/// Improves the schedule of a problem with few tasks: by sequences of single tasks, then by branch
/// and bound, which prunes with their result. Searches sequences again if branch and bound proves
/// nothing and time or starts are left.
fn refine(
    problem: &Problem,
    options: &PlanOptions,
    first_starts: u64,
    small: bool,
    best: &mut Incumbent,
) -> Refined {
    let mut refined = Refined::default();
    let single = !problem.has_gangs() && problem.volume() <= SEQUENCE_TASKS;
    let sequences = |best: &mut Incumbent, starts: u64, seed: u64| {
        let budget = Budget {
            starts: starts.saturating_mul(CHEAPER_STARTS),
            deadline: options.deadline,
        };
        let (found, tries) = sequence::improve(problem, &best.schedule, budget, seed);
        best.take(problem, found);
        tries
    };
    if single {
        refined.tries = sequences(best, first_starts, options.seed);
    }
    let patient = options.deadline.filter(|_| options.patient && single);
    if small || patient.is_some() && problem.volume() <= PATIENT_EXACT_TASKS {
        let (most, until) = match patient {
            // At most half of the remaining time: if branch and bound does not finish, sequences
            // use the rest better.
            Some(deadline) => {
                let now = Instant::now();
                let half = deadline.saturating_duration_since(now) / 2;
                (u64::MAX, Some(now + half))
            }
            None => (options.nodes, options.deadline),
        };
        let found = exact(problem, best.cost, most, until);
        (refined.nodes, refined.proven) = (found.nodes, found.proven);
        best.take(problem, found.schedule);
    }
    let left = match patient {
        Some(_) => u64::MAX,
        None if small => options.starts,
        None => 0,
    };
    if single && !refined.proven && left > 0 {
        refined.tries += sequences(best, left, options.seed.wrapping_add(1));
    }
    refined
}

/// Whether a plan has more tasks than a schedule can list one by one.
pub(crate) fn is_merged(problem: &Problem) -> bool {
    problem.volume() as u64 > doc::Schedule::MOST_TASKS
}

/// A plan in which a job gets its GPUs for many rounds at once. GPUs are not shared.
fn plan_merged(problem: &Problem, options: &PlanOptions) -> Planned {
    let state = ClusterState::new(problem);
    let mut player = Player::in_blocks(problem, &state);
    let orders = [smith(problem), shortest_chain(problem)];
    let starts = orders.map(Priorities::new).map(|p| {
        let cost = player.cost(&state, 0.0, &p, f64::INFINITY);
        (cost, p)
    });
    let [first, second] = starts;
    let (cost, start) = if second.0 < first.0 { second } else { first };
    let search = Search {
        problem,
        state: &state,
        now: 0.0,
        decoder: Decoder::Blocks,
        budget: Budget {
            starts: options.starts,
            deadline: options.deadline,
        },
        seed: options.seed,
        fixed: 0,
    };
    let found = search.improve(start, Some(cost));
    let schedule = decode(problem, &found.priorities, Decoder::Blocks);
    planned(problem, schedule, found.tries, 0)
}

fn plan_shared(problem: &Problem, options: &PlanOptions) -> Planned {
    // Leave some of the time for the search with sharing.
    let hurried = PlanOptions {
        patient: false,
        ..*options
    };
    let apart = plan(&problem.apart(), &hurried);
    let state = ClusterState::new(problem);
    let mut player = Player::new(problem);
    // A restriction to a class that is good without sharing may be bad with it.
    let suggested = search::suggested(problem, &apart.schedule);
    let free = Priorities::new(suggested.order.clone());
    let starts = [suggested, free, Priorities::new(smith(problem))];
    // Whether joining should depend on the weights of the two jobs differs from problem to problem.
    let starts = starts.into_iter().flat_map(|p| {
        let weighed = p.clone();
        [
            weighed,
            Priorities {
                weighed: false,
                ..p
            },
        ]
    });
    let costs = starts.map(|p| (player.cost(&state, 0.0, &p, f64::INFINITY), p));
    let start = costs.min_by(|a, b| a.0.total_cmp(&b.0));
    let search = Search {
        problem,
        state: &state,
        now: 0.0,
        decoder: Decoder::Events,
        budget: Budget {
            starts: options.starts,
            deadline: options.deadline,
        },
        seed: options.seed,
        fixed: 0,
    };
    let found = start.map(|(cost, priorities)| search.improve(priorities, Some(cost)));
    let tries = apart.tries + found.as_ref().map_or(0, |f| f.tries);
    let shared = found
        .map(|f| decode(problem, &f.priorities, Decoder::Events))
        .filter(|s| s.cost(problem) < apart.cost);
    let schedule = shared.unwrap_or(apart.schedule);
    planned(problem, schedule, tries, apart.nodes)
}

/// A schedule that no search has proven optimal, with its lower bound.
fn planned(problem: &Problem, schedule: Schedule, tries: u64, nodes: u64) -> Planned {
    let cost = schedule.cost(problem);
    let (bound, lower_bound) = bound_of(problem, &schedule);
    Planned {
        proven: lower_bound >= cost,
        schedule,
        cost,
        lower_bound,
        bound,
        tries,
        nodes,
    }
}

/// Whether there are few enough tasks and GPUs to search placements that fill holes: each try
/// examines every GPU for every task.
pub(crate) fn fills_holes(tasks: usize, gpus: usize) -> bool {
    tasks * gpus <= 20_000
}

fn decoders(problem: &Problem) -> &'static [Decoder] {
    if fills_holes(problem.volume(), problem.gpus.len()) {
        &[Decoder::Events, Decoder::Holes]
    } else {
        &[Decoder::Events]
    }
}

/// The best lower bound for a given schedule, after the relaxation that gives it.
pub fn bound_of(problem: &Problem, schedule: &Schedule) -> (Bound, f64) {
    if problem.shares() {
        // The relaxed problem allows everything that sharing allows, so its lower bound holds here,
        // too.
        return bound_of(&problem.relaxed(), schedule);
    }
    certificate(problem, relaxation(problem).as_ref(), schedule, false)
}

/// The relaxation as a linear program; `None` if it is too large to be solved.
fn relaxation(problem: &Problem) -> Option<Relaxed> {
    let rounds: usize = problem.jobs.iter().map(|j| j.rounds).sum();
    let small = rounds * problem.classes.len() <= LP_CELLS;
    small.then(|| bounds::unrelated(problem)).flatten()
}

fn certificate(
    problem: &Problem,
    relaxed: Option<&Relaxed>,
    schedule: &Schedule,
    proven: bool,
) -> (Bound, f64) {
    let cost = schedule.cost(problem);
    if proven {
        return (Bound::Exact, cost);
    }
    let mut best = (Bound::Chain, problem.chain_bound());
    // The LP solver works in floating point, with errors of about 1e-9.
    let program = relaxed.map(|r| (Bound::Unrelated, r.bound * (1.0 - 1e-8)));
    let prices = bounds::prices(problem, schedule, Effort::for_problem(problem));
    for (bound, value) in program
        .into_iter()
        .chain([(Bound::Prices, prices * (1.0 - 1e-10))])
    {
        if value > best.1 {
            best = (bound, value);
        }
    }
    // The bound and the cost are summed in different orders, so a bound this close counts as equal
    // to the cost.
    if best.1 > cost * (1.0 - 1e-9) {
        best.1 = cost;
    }
    best
}

/// A job is restricted to the classes that it chooses, at prices of GPU time, for more than this
/// fraction of itself; both values are tried. With 300 jobs on 15 GPUs the smaller was better, with
/// 3,000 jobs on 160 GPUs the larger, by 3 to 4 %; with 100 and 40 jobs it varied.
const LEAST_PARTS: [f64; 2] = [0.2, 0.05];

/// Priorities in which jobs leave classes to the jobs that gain more from them. Without this, a job
/// takes whichever GPU completes its task first, and in a backlog every class runs every kind of
/// job.
fn priced(problem: &Problem, incumbent: &Schedule) -> Vec<Priorities> {
    if problem.classes.len() < 2 {
        return Vec::new();
    }
    let equilibrium = Equilibrium::new(problem, incumbent);
    let own = problem.jobs_by(|n| equilibrium.smith_ratio(problem, n));
    let orders = [smith(problem), own];
    let each = orders
        .iter()
        .flat_map(|order| LEAST_PARTS.map(|least| (order, least)));
    each.map(|(order, least)| Priorities {
        allowed: equilibrium.classes(least),
        ..Priorities::new(order.clone())
    })
    .collect()
}

/// The best constructive schedule, and the starting point that it leaves to the search.
struct Constructed {
    /// The best constructive schedule.
    schedule: Schedule,
    cost: f64,
    /// The priorities to search from, and the cost of their schedule.
    start: (f64, Priorities),
}

impl Constructed {
    fn keep(&mut self, problem: &Problem, schedule: Schedule) {
        let cost = schedule.cost(problem);
        self.keep_at(cost, schedule);
    }

    fn keep_at(&mut self, cost: f64, schedule: Schedule) {
        // Keep the first schedule even if its cost is infinite.
        if cost < self.cost || self.schedule.assignments.is_empty() {
            (self.schedule, self.cost) = (schedule, cost);
        }
    }

    fn consider(&mut self, problem: &Problem, priorities: Priorities) {
        let schedule = decode(problem, &priorities, Decoder::Events);
        let cost = schedule.cost(problem);
        if cost < self.start.0 {
            self.start = (cost, priorities);
        }
        self.keep_at(cost, schedule);
    }
}

fn constructed(problem: &Problem, relaxed: Option<&Relaxed>) -> Constructed {
    let mut orders = vec![smith(problem), shortest_chain(problem)];
    if let Some(r) = relaxed {
        orders.push(problem.jobs_by(|n| r.completions[n]));
    }
    let mut best = Constructed {
        schedule: Schedule::default(),
        cost: f64::INFINITY,
        start: (f64::INFINITY, Priorities::new(smith(problem))),
    };
    for order in orders {
        let priorities = Priorities::new(order);
        if problem.volume() * problem.gpus.len() <= HOLES_WORK {
            best.keep(problem, decode(problem, &priorities, Decoder::Holes));
        }
        best.consider(problem, priorities);
    }
    // AlloX's matching finds which jobs gain most from which class; where rounds have one task it
    // is hard to beat.
    let jobs = problem.jobs.len();
    let matched = jobs.pow(3) * problem.gpus.len() <= MATCHING_WORK;
    let others = [(Policy::Allox, matched), (Policy::Srtf, true)];
    for (other, affordable) in others {
        if !affordable {
            continue;
        }
        if let Some(schedule) = other.baseline(problem) {
            best.consider(problem, search::suggested(problem, &schedule));
            best.keep(problem, schedule);
        }
    }
    // Only jobs with one task per round lose nothing by running on one GPU.
    if matched && problem.jobs.iter().all(|j| j.tasks == 1) {
        best.keep(problem, migrating(problem));
    }
    if let Some(r) = relaxed {
        best.keep(problem, baselines::by_midpoints(problem, &r.midpoints));
    }
    for priorities in priced(problem, &best.schedule) {
        best.consider(problem, priorities);
    }
    best
}
