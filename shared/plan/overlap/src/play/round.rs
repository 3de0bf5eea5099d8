use doc::{Hold, PhaseKind};
use units::Batch;

use crate::play::events::Events;
use crate::play::gpu::Gpu;
use crate::play::schedule::{Phase, Schedule};
use crate::rates::cache::RateCache;
use crate::{Instance, Link, OverlapError, Rates, RoundTask};

/// A transfer on a link that carries one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// Download of the task with this index.
    Download(usize),
    /// Upload of the task with this index.
    Upload(usize),
}

/// Order of the transfers; the variant must be that of the instance's [`Link`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// [`Link::Full`]: the tasks in the order of their downloads, and of their uploads. The uplink serves strictly in
    /// this order, and waits if the next task still computes.
    PerDirection {
        /// Every task once.
        downloads: Vec<usize>,
        /// Every task once.
        uploads: Vec<usize>,
    },
    /// [`Link::Half`]: all transfers, one after another.
    OneByOne(Vec<Transfer>),
    /// [`Link::Shared`]: nothing to order.
    Together,
}

impl Order {
    /// The transfers whose order can be chosen, as numbers: `i` for the download of task `i`, and on a half-duplex
    /// link of `n` tasks `n + i` for its upload.
    pub(crate) fn sequence(&self) -> Vec<usize> {
        match self {
            Order::PerDirection { downloads, .. } => downloads.clone(),
            Order::OneByOne(transfers) => {
                let n = transfers.len() / 2;
                let code = |t: &Transfer| match *t {
                    Transfer::Download(i) => i,
                    Transfer::Upload(i) => n + i,
                };
                transfers.iter().map(code).collect()
            }
            Order::Together => Vec::new(),
        }
    }

    /// The tasks in the order of their downloads; empty if all download together.
    #[must_use]
    pub fn downloads(&self) -> Vec<usize> {
        match self {
            Order::PerDirection { downloads, .. } => downloads.clone(),
            Order::OneByOne(transfers) => {
                let download = |t: &Transfer| match *t {
                    Transfer::Download(i) => Some(i),
                    Transfer::Upload(_) => None,
                };
                transfers.iter().filter_map(download).collect()
            }
            Order::Together => Vec::new(),
        }
    }

    /// The tasks in the order of their uploads; empty if all upload together.
    #[must_use]
    pub fn uploads(&self) -> Vec<usize> {
        match self {
            Order::PerDirection { uploads, .. } => uploads.clone(),
            Order::OneByOne(transfers) => {
                let upload = |t: &Transfer| match *t {
                    Transfer::Upload(i) => Some(i),
                    Transfer::Download(_) => None,
                };
                transfers.iter().filter_map(upload).collect()
            }
            Order::Together => Vec::new(),
        }
    }
}

/// For each task, the task whose compute must end before its own may start, if any; an empty list
/// holds nothing. This form of [`Holds`] is for searches that simulate many rounds.
pub(crate) type ComputeHolds = Vec<Option<usize>>;

/// All holds, at most one for each phase. Without a hold, a transfer starts as soon as it is next in the order and
/// its link is free, and compute as soon as the download has ended.
///
/// On a full-duplex link any phase may be held. On a half-duplex link the order of the transfers
/// already says which transfer waits for which, so only compute may be held, until the compute of a
/// task downloaded earlier ends.
pub type Holds = Vec<Hold>;

/// Converts [`ComputeHolds`] to [`Holds`].
pub(crate) fn compute_holds(until: &[Option<usize>]) -> Holds {
    let held = until.iter().enumerate();
    held.filter_map(|(task, until)| {
        Some(Hold {
            task,
            phase: PhaseKind::Compute,
            until: (*until)?,
            end_of: PhaseKind::Compute,
        })
    })
    .collect()
}

/// Converts holds to [`ComputeHolds`] of `n` tasks; `None` if a hold is not of compute until the
/// end of compute.
fn only_compute(holds: &[Hold], n: usize) -> Option<ComputeHolds> {
    let mut until = vec![None; n];
    for h in holds {
        if (h.phase, h.end_of) != (PhaseKind::Compute, PhaseKind::Compute) {
            return None;
        }
        until[h.task] = Some(h.until);
    }
    Some(until)
}

/// Plays a round without holds. `batches` contains one batch size per task, or nothing if `rates` needs none.
pub fn simulate(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    order: &Order,
) -> Result<Schedule, OverlapError> {
    simulate_held(instance, rates, batches, order, &[])
}

/// Plays a round with holds.
pub fn simulate_held(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
    order: &Order,
    holds: &[Hold],
) -> Result<Schedule, OverlapError> {
    check(instance, order)?;
    check_holds(instance, order, holds)?;
    let mut cache = RateCache::at(rates, instance.len(), batches);
    let schedule = play(instance, &mut cache, order, holds);
    cache.failure()?;
    Ok(schedule)
}

/// Checks that each phase is held at most once, by another task, and that the holds have no cycle.
fn check_holds(instance: &Instance, order: &Order, holds: &[Hold]) -> Result<(), OverlapError> {
    let n = instance.len();
    let known = holds
        .iter()
        .all(|h| h.task < n && h.until < n && h.task != h.until);
    let twice = holds
        .iter()
        .enumerate()
        .any(|(k, h)| (holds[..k].iter()).any(|g| (g.task, g.phase) == (h.task, h.phase)));
    if !known || twice {
        return Err(OverlapError::BadOrder(
            "a phase may be held once, until a phase of another task ends",
        ));
    }
    match order {
        Order::PerDirection { downloads, uploads } => {
            if Hold::stuck(holds, n, downloads, uploads).is_some() {
                return Err(OverlapError::BadOrder("a phase waits for its own end"));
            }
        }
        _ => {
            let mut place = vec![usize::MAX; n];
            for (at, i) in order.downloads().into_iter().enumerate() {
                place[i] = at;
            }
            let fine = only_compute(holds, n).is_some()
                && holds.iter().all(|h| place[h.until] < place[h.task]);
            if !fine {
                return Err(OverlapError::BadOrder(
                    "on this link only compute may be held, until the compute of a task that was downloaded earlier",
                ));
            }
        }
    }
    Ok(())
}

fn check(instance: &Instance, order: &Order) -> Result<(), OverlapError> {
    let n = instance.len();
    let complete = |tasks: &[usize]| {
        let mut seen = tasks.to_vec();
        seen.sort_unstable();
        seen.iter().copied().eq(0..n)
    };
    let wrong = match (instance.link(), order) {
        (Link::Full, Order::PerDirection { downloads, uploads }) => {
            (!complete(downloads) || !complete(uploads)).then_some("each task must be in it once")
        }
        (Link::Half, Order::OneByOne(transfers)) => {
            let (mut downloads, mut uploads) = (Vec::new(), Vec::new());
            let mut early = false;
            for t in transfers {
                match *t {
                    Transfer::Download(i) => downloads.push(i),
                    Transfer::Upload(i) => {
                        early |= !downloads.contains(&i);
                        uploads.push(i);
                    }
                }
            }
            if early {
                Some("a task uploads before it downloads")
            } else {
                (!complete(&downloads) || !complete(&uploads))
                    .then_some("each task must be in it once")
            }
        }
        (Link::Shared, Order::Together) => None,
        _ => Some("it is not of the kind that the link needs"),
    };
    wrong.map_or(Ok(()), |what| Err(OverlapError::BadOrder(what)))
}

fn phase(task: usize, kind: PhaseKind, start_s: f64, end_s: f64) -> Phase {
    Phase {
        task,
        kind,
        start_s,
        end_s,
    }
}

/// [`simulate_held`] for an order and holds known to be valid.
pub(crate) fn play(
    instance: &Instance,
    rates: &mut RateCache<'_>,
    order: &Order,
    holds: &[Hold],
) -> Schedule {
    let jobs = instance.jobs();
    let until = only_compute(holds, jobs.len());
    match (order, until) {
        (Order::PerDirection { downloads, uploads }, None) => {
            Events::new(jobs, holds).play(downloads, uploads, rates)
        }
        (Order::PerDirection { downloads, uploads }, Some(until)) => {
            per_direction(jobs, rates, downloads, uploads, &until)
        }
        (Order::OneByOne(transfers), until) => {
            one_by_one(jobs, rates, transfers, &until.unwrap_or_default())
        }
        (Order::Together, _) => together(jobs, rates),
    }
}

/// The task whose compute must end before that of task `i` may start, if any.
pub(crate) fn hold(holds: &[Option<usize>], i: usize) -> Option<usize> {
    holds.get(i).copied().flatten()
}

/// Adds the compute phases, given when each task is downloaded and when its compute ends.
fn add_compute(holds: &[Option<usize>], ready: &[f64], ends: &[f64], phases: &mut Vec<Phase>) {
    for i in 0..ready.len() {
        let released = hold(holds, i).map_or(0.0, |j| ends[j]);
        let start = ready[i].max(released);
        phases.push(phase(i, PhaseKind::Compute, start, ends[i]));
    }
}

/// Ends of compute, by task. `arrivals` gives each task with the end of its download, in order of
/// time.
fn compute(
    jobs: &[RoundTask],
    rates: &mut RateCache<'_>,
    arrivals: impl Iterator<Item = (usize, f64)>,
    holds: &[Option<usize>],
    phases: &mut Vec<Phase>,
) -> Vec<f64> {
    let mut ends = vec![0.0; jobs.len()];
    let mut ready = vec![0.0; jobs.len()];
    let mut gpu = Gpu::new();
    for (i, at) in arrivals {
        gpu.advance(at, rates, |j, t| ends[j] = t);
        ready[i] = at;
        gpu.admit(i, jobs[i].work, hold(holds, i));
    }
    gpu.advance(f64::INFINITY, rates, |j, t| ends[j] = t);
    add_compute(holds, &ready, &ends, phases);
    ends
}

fn per_direction(
    jobs: &[RoundTask],
    rates: &mut RateCache<'_>,
    downloads: &[usize],
    uploads: &[usize],
    holds: &[Option<usize>],
) -> Schedule {
    let mut phases = Vec::with_capacity(3 * jobs.len());
    let mut clock = 0.0;
    let mut arrivals = Vec::with_capacity(jobs.len());
    for &i in downloads {
        let end = clock + jobs[i].download_s;
        phases.push(phase(i, PhaseKind::Download, clock, end));
        arrivals.push((i, end));
        clock = end;
    }
    let ends = compute(jobs, rates, arrivals.into_iter(), holds, &mut phases);
    let mut free = 0.0_f64;
    for &i in uploads {
        let start = free.max(ends[i]);
        free = start + jobs[i].upload_s;
        phases.push(phase(i, PhaseKind::Upload, start, free));
    }
    Schedule::new(phases)
}

fn one_by_one(
    jobs: &[RoundTask],
    rates: &mut RateCache<'_>,
    transfers: &[Transfer],
    holds: &[Option<usize>],
) -> Schedule {
    let mut phases = Vec::with_capacity(3 * jobs.len());
    let mut gpu = Gpu::new();
    let mut ready = vec![0.0; jobs.len()];
    let mut ends = vec![0.0; jobs.len()];
    let mut clock = 0.0_f64;
    for t in transfers {
        match *t {
            Transfer::Download(i) => {
                let end = clock + jobs[i].download_s;
                phases.push(phase(i, PhaseKind::Download, clock, end));
                gpu.advance(end, rates, |j, t| ends[j] = t);
                ready[i] = end;
                gpu.admit(i, jobs[i].work, hold(holds, i));
                clock = end;
            }
            Transfer::Upload(i) => {
                gpu.finish(1 << i, rates, |j, t| ends[j] = t);
                let start = clock.max(ends[i]);
                clock = start + jobs[i].upload_s;
                phases.push(phase(i, PhaseKind::Upload, start, clock));
            }
        }
    }
    add_compute(holds, &ready, &ends, &mut phases);
    Schedule::new(phases)
}

fn together(jobs: &[RoundTask], rates: &mut RateCache<'_>) -> Schedule {
    let mut phases = Vec::with_capacity(3 * jobs.len());
    let at_once: Vec<(usize, f64)> = (0..jobs.len()).map(|i| (i, 0.0)).collect();
    let downloads = share_link(&at_once, |i| jobs[i].download_s);
    for &(i, end) in &downloads {
        phases.push(phase(i, PhaseKind::Download, 0.0, end));
    }
    let ends = compute(jobs, rates, downloads.into_iter(), &[], &mut phases);
    let mut ready: Vec<(usize, f64)> = ends.iter().copied().enumerate().collect();
    ready.sort_by(|a, b| a.1.total_cmp(&b.1));
    for (i, end) in share_link(&ready, |i| jobs[i].upload_s) {
        phases.push(phase(i, PhaseKind::Upload, ends[i], end));
    }
    Schedule::new(phases)
}

/// Ends of transfers on a link that all share equally, sorted by end time; `ready` is sorted by time.
fn share_link(ready: &[(usize, f64)], seconds: impl Fn(usize) -> f64) -> Vec<(usize, f64)> {
    let mut done = Vec::with_capacity(ready.len());
    let mut running: Vec<(usize, f64)> = Vec::new();
    let mut now = 0.0_f64;
    let mut next = ready.iter().peekable();
    loop {
        while let Some(&&(i, at)) = next.peek()
            && (running.is_empty() || at <= now)
        {
            now = now.max(at);
            running.push((i, seconds(i)));
            next.next();
        }
        if running.is_empty() {
            return done;
        }
        running.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let k = running.len() as f64;
        let end = now + running[0].1 * k;
        let event = next.peek().map_or(end, |n| end.min(n.1));
        let part = if event < end {
            (event - now) / k
        } else {
            running[0].1
        };
        now = event;
        for r in &mut running {
            r.1 = (r.1 - part).max(0.0);
        }
        if event >= end {
            let (i, _) = running.remove(0);
            done.push((i, now));
        }
    }
}

/// Seconds of the round without overlap: all downloads, then all compute at once, then all uploads (`sum d + compute
/// + sum u`, on any link).
pub fn overlap_off(
    instance: &Instance,
    rates: &dyn Rates,
    batches: &[Batch],
) -> Result<f64, OverlapError> {
    let mut cache = RateCache::at(rates, instance.len(), batches);
    let off = overlap_off_cached(instance, &mut cache);
    cache.failure()?;
    Ok(off)
}

pub(crate) fn overlap_off_cached(instance: &Instance, rates: &mut RateCache<'_>) -> f64 {
    let jobs = instance.jobs();
    let mut gpu = Gpu::new();
    for (i, job) in jobs.iter().enumerate() {
        gpu.start(i, job.work);
    }
    let mut last = 0.0;
    gpu.advance(f64::INFINITY, rates, |_, t| last = t);
    let transfers: f64 = jobs.iter().map(|j| j.download_s + j.upload_s).sum();
    transfers + last
}
