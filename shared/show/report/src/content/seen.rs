//! Judges from measurements of a plan whether sharing was worth it.

use std::collections::{BTreeMap, BTreeSet};

use doc::{DeviceKind, EventPayload, Measured, Plan, Profile, RunEvent, Sample, Verdict, WorkKind};
use units::corun::seconds_to_finish;
use units::{Share, TaskId};

use crate::number::{change, plain};

/// Measured throughput of a task alone at a batch size.
pub fn solo(profile: &Profile, id: &TaskId, batch: units::Batch) -> Option<f64> {
    let alone = profile.samples.iter().find_map(|s| match &s.tasks[..] {
        [t] if t.id == *id && t.batch == batch && t.share == Share::FULL => Some(t),
        _ => None,
    });
    alone.map(|t| t.throughput.get())
}

/// Compares the work of the plan's verdict done together and one task after another, at measured rates; `None` if
/// some of them were not measured. For a round only compute counts, since transfers are not measured.
pub fn verdict(plan: &Plan, profile: &Profile) -> Option<String> {
    let verdict = plan.feasible()?.verdict.as_ref()?;
    let work = |i: usize| {
        let task = verdict.tasks.iter().find(|t| t.id == plan.tasks[i].id);
        task.map(|t| t.samples)
    };
    let gpu = |i: usize| plan.tasks[i].gpu.unwrap_or(0);
    let gpus: BTreeSet<u32> = (0..plan.tasks.len()).map(gpu).collect();
    let (mut together, mut serial) = (0.0_f64, 0.0_f64);
    for one in gpus {
        let tasks: Vec<usize> = (0..plan.tasks.len()).filter(|&i| gpu(i) == one).collect();
        let work: Vec<f64> = tasks.iter().map(|&i| work(i)).collect::<Option<_>>()?;
        together = together.max(match verdict.work {
            WorkKind::Round => seconds_to_finish(&work, |left| {
                let left: Vec<usize> = left.iter().map(|&k| tasks[k]).collect();
                rates(plan, profile, &left)
            })?,
            // A mixture proceeds at the sum of the measured rates.
            WorkKind::Mixture => {
                let total: f64 = rates(plan, profile, &tasks)?.iter().sum();
                work.iter().sum::<f64>() / total
            }
        });
        serial = serial.max(one_after_another(plan, profile, verdict, &tasks)?);
    }
    let total: f64 = verdict.tasks.iter().map(|t| t.samples).sum();
    let show = |seconds: f64| match verdict.work {
        WorkKind::Round => format!("{} s", plain(seconds)),
        WorkKind::Mixture => format!("{} samples/s", plain(total / seconds)),
    };
    let what = match (verdict.work, plan.link) {
        (WorkKind::Round, Some(_)) => ", compute alone",
        _ => "",
    };
    Some(format!(
        "{}: together {}, one after another {}{what} ({})",
        advice(together, serial),
        show(together),
        show(serial),
        change(serial / together)
    ))
}

/// Compares the mean time of the plan's rounds in which every task finished with running the tasks one after another.
/// The latter was not run. Its time is the plan's prediction plus the start-up of each task in these rounds, because
/// the time together also includes the start-up. `None` if no round finished, the work is not a round, only some
/// tasks were launched, or the plan changed meanwhile.
pub fn of_run(plan: &Plan, events: &[RunEvent]) -> Option<String> {
    let verdict = plan.feasible()?.verdict.as_ref()?;
    let anew = events.iter().skip(1).any(|e| e.planned().is_some());
    if verdict.work != WorkKind::Round || anew {
        return None;
    }
    let rounds: Vec<(u32, f64)> = events
        .iter()
        .filter_map(|e| match &e.payload {
            EventPayload::Round {
                ok: true,
                makespan,
                round,
                tasks,
                ..
            } if tasks.len() == plan.tasks.len() => Some((*round, makespan.get())),
            _ => None,
        })
        .collect();
    if rounds.is_empty() {
        return None;
    }
    let n = rounds.len() as f64;
    let together = rounds.iter().map(|(_, makespan)| makespan).sum::<f64>() / n;
    let startup = rounds
        .iter()
        .map(|(round, _)| startup(events, *round))
        .sum::<f64>()
        / n;
    let planned = verdict.together.get();
    let by_plan = verdict.one_after_another.get();
    let alone = by_plan + startup;
    let (with, of) = match startup < NO_STARTUP {
        true => (String::new(), String::new()),
        false => (
            " without start-up".to_owned(),
            format!(
                ": {} s and start-ups of {} s",
                plain(by_plan),
                plain(startup)
            ),
        ),
    };
    Some(format!(
        "{}: together {} s measured (predicted {} s{with}), one after another {} s predicted{of} ({})",
        advice(together, alone),
        plain(together),
        plain(planned),
        plain(alone),
        change(alone / together)
    ))
}

/// Total start-up below which it is not mentioned, in seconds: a tenth of a second is invisible in three digits.
const NO_STARTUP: f64 = 0.1;

/// Total seconds from the start of each task of a round until it was ready; a restart is part of the work.
fn startup(events: &[RunEvent], round: u32) -> f64 {
    let mut started: BTreeMap<&TaskId, f64> = BTreeMap::new();
    let mut ready: BTreeMap<&TaskId, f64> = BTreeMap::new();
    for event in events {
        match &event.payload {
            EventPayload::Start { round: r, task, .. } if *r == round => {
                started.entry(task).or_insert(event.time.get());
            }
            EventPayload::Ready { round: r, task } if *r == round => {
                ready.entry(task).or_insert(event.time.get());
            }
            _ => {}
        }
    }
    let one = |(task, from): (&&TaskId, &f64)| Some((ready.get(*task)? - from).max(0.0));
    started.iter().filter_map(one).sum()
}

fn advice(together: f64, serial: f64) -> &'static str {
    match together < serial {
        true => "share",
        false => "do not share",
    }
}

/// Measured throughputs of some tasks of the plan at its batch sizes and shares, while only these tasks run.
fn rates(plan: &Plan, profile: &Profile, tasks: &[usize]) -> Option<Vec<f64>> {
    let divides = plan
        .workload()
        .is_some_and(|w| w.device.kind == DeviceKind::Cpu);
    let as_planned = |sample: &&Sample| {
        let factor = |&i: &usize| {
            let given = plan.given(i);
            let of = |t: &&Measured| t.id == plan.tasks[i].id && Some(t.batch) == given.batch;
            let measured = sample.tasks.iter().find(of)?.share;
            Some((measured, measured.fraction() / given.share?.fraction()))
        };
        let factors: Option<Vec<(Share, f64)>> = tasks.iter().map(factor).collect();
        sample.tasks.len() == tasks.len() && factors.is_some_and(|f| as_given(&f, divides))
    };
    let sample = profile.samples.iter().find(as_planned)?;
    let rate = |&i: &usize| {
        let task = sample.tasks.iter().find(|t| t.id == plan.tasks[i].id);
        task.map(|t| t.throughput.get()).filter(|r| *r > 0.0)
    };
    tasks.iter().map(rate).collect()
}

/// Whether measured shares, each given with its ratio to the plan's, agree with the plan. They must equal the plan's.
/// If the device gives the shares of idle tasks to the others, they may be larger by one common factor, up to the
/// whole device.
fn as_given(shares: &[(Share, f64)], divides: bool) -> bool {
    // Shares are whole hundredths of a percent, so a share of 1 % may be off by a hundredth of itself.
    const ROUNDING: f64 = 0.01;
    if !divides {
        return shares.iter().all(|(_, factor)| *factor == 1.0);
    }
    let open = shares.iter().filter(|(share, _)| *share < Share::FULL);
    let factors: Vec<f64> = open.map(|(_, factor)| *factor).collect();
    let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
    let most = factors.iter().copied().fold(1.0, f64::max);
    let all_rise = shares.iter().all(|(_, factor)| *factor > 1.0 - ROUNDING);
    all_rise && (factors.is_empty() || most <= least * (1.0 + ROUNDING))
}

/// Seconds that the tasks of one GPU take one after another, each at its batch size that is fastest alone.
fn one_after_another(
    plan: &Plan,
    profile: &Profile,
    verdict: &Verdict,
    tasks: &[usize],
) -> Option<f64> {
    let seconds = |&i: &usize| {
        let task = verdict.tasks.iter().find(|t| t.id == plan.tasks[i].id)?;
        Some(task.samples / solo(profile, &task.id, task.batch)?)
    };
    tasks.iter().map(seconds).sum()
}
