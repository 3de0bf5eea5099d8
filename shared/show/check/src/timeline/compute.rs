//! Checks compute phases: integrates the rates of the tasks that compute together.

use doc::{PhaseKind, Timeline};

use super::lane::Lane;
use crate::judge::{Judge, close};
use crate::rates::{Rates, Set, everyone, members};
use crate::round_task::RoundTask;

/// Judges the compute phases and the makespan without overlap.
pub fn judge(
    timeline: &Timeline,
    jobs: &[RoundTask],
    lanes: &[Lane],
    rates: &mut Rates,
    j: &mut Judge,
) {
    work(timeline, jobs, lanes, rates, j);
    match all_at_once(jobs, rates) {
        Err(why) => j.unjudged("overlap_off_s", why),
        Ok(compute) => {
            let transfers: f64 = jobs.iter().map(|job| job.download + job.upload).sum();
            j.number(
                "overlap_off_s",
                timeline.overlap_off.get(),
                transfers + compute,
            );
        }
    }
}

/// Judges whether every task trains on all its samples during its compute phase.
pub fn work(
    timeline: &Timeline,
    jobs: &[RoundTask],
    lanes: &[Lane],
    rates: &mut Rates,
    j: &mut Judge,
) {
    match work_done(lanes, f64::INFINITY, rates) {
        Err(why) => j.unjudged("phases", format!("compute cannot be recomputed: {why}")),
        Ok(done) => compare(timeline, jobs, lanes, &done, j),
    }
}

fn compare(timeline: &Timeline, jobs: &[RoundTask], lanes: &[Lane], done: &[f64], j: &mut Judge) {
    for (at, phase) in timeline.phases.iter().enumerate() {
        let (i, lane) = (phase.task, lanes[phase.task].compute);
        if phase.kind != PhaseKind::Compute {
            continue;
        }
        // Tolerance for the rounding of the times, converted to samples by the mean rate.
        let rate = jobs[i].work / (lane.end - lane.start).max(f64::MIN_POSITIVE);
        let scale = if rate.is_finite() {
            rate * timeline.makespan.get()
        } else {
            0.0
        };
        if !close(done[i], jobs[i].work, scale) {
            j.field("phases", |j| {
                j.index(at, |j| {
                    let truth = format!("an end by which it trains on {}", jobs[i].work);
                    j.contradiction(
                        "end_s",
                        format!("{} ({} samples)", lane.end, done[i]),
                        truth,
                    );
                });
            });
        }
    }
}

/// Samples that every task has trained on in its compute phase until a given time: the integral of its rate in the
/// set that computes.
pub fn work_done(lanes: &[Lane], until: f64, rates: &mut Rates) -> Result<Vec<f64>, String> {
    let mut times: Vec<f64> = lanes
        .iter()
        .flat_map(|l| [l.compute.start, l.compute.end])
        .collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let mut done = vec![0.0; lanes.len()];
    for w in times.windows(2) {
        if w[1] > until * (1.0 + 1e-9) {
            break;
        }
        // Rounding leaves tiny intervals in which a set seems to compute that never did.
        if w[1] - w[0] <= 1e-12 * w[1] {
            continue;
        }
        let active = computing(lanes, f64::midpoint(w[0], w[1]));
        if active == 0 {
            continue;
        }
        let row = rates.row(active)?;
        for i in members(active) {
            done[i] += row[i] * (w[1] - w[0]);
        }
    }
    Ok(done)
}

/// The tasks that compute at a time.
pub fn computing(lanes: &[Lane], at: f64) -> Set {
    (0..lanes.len()).fold(0, |set: Set, i| {
        let c = lanes[i].compute;
        set | Set::from(c.start <= at && at < c.end) << i
    })
}

/// Compute ends of the tasks of `known`, which start at `starts`. The rates change at every start and end with the
/// set that computes. The ends of all other tasks are infinite.
pub fn ends(
    jobs: &[RoundTask],
    starts: &[f64],
    known: Set,
    rates: &mut Rates,
) -> Result<Vec<f64>, String> {
    let mut left: Vec<f64> = jobs.iter().map(|job| job.work).collect();
    let mut ends = vec![f64::INFINITY; jobs.len()];
    let mut waiting: Vec<usize> = members(known).collect();
    waiting.sort_by(|&a, &b| starts[b].total_cmp(&starts[a]));
    let mut active: Set = 0;
    let mut now = 0.0_f64;
    loop {
        while let Some(&next) = waiting.last()
            && (active == 0 || starts[next] <= now)
        {
            waiting.pop();
            now = now.max(starts[next]);
            active |= 1 << next;
        }
        if active == 0 {
            return Ok(ends);
        }
        let row = rates.row(active)?;
        let soonest = members(active)
            .map(|i| (left[i] / row[i], i))
            .fold((f64::INFINITY, 0), |a, b| if b.0 < a.0 { b } else { a });
        let arrival = waiting.last().map_or(f64::INFINITY, |&i| starts[i] - now);
        let step = soonest.0.min(arrival);
        for i in members(active) {
            left[i] -= row[i] * step;
        }
        now += step;
        for i in members(active) {
            let over = left[i] <= 1e-12 * jobs[i].work;
            if over || (soonest.0 <= arrival && i == soonest.1) {
                ends[i] = now;
                active &= !(1 << i);
            }
        }
    }
}

/// Time at which the last task finishes compute when all start at once.
pub fn all_at_once(jobs: &[RoundTask], rates: &mut Rates) -> Result<f64, String> {
    let starts = vec![0.0; jobs.len()];
    let ends = ends(jobs, &starts, everyone(jobs.len()), rates)?;
    Ok(ends.into_iter().fold(0.0, f64::max))
}
