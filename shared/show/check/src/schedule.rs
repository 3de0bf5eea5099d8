//! Checks a schedule of a cluster: it must be possible, its cost must be right, and its lower bound must hold.

mod gangs;
mod lanes;
mod residency;
mod sharing;
mod times;

use std::collections::BTreeMap;

use doc::{Cluster, ClusterJob, GpuGroup, Schedule, ScheduleBound, ScheduledTask};

use crate::judge::{Judge, ROUNDING, close};

/// Judges a cluster. Nothing is left to check: the reader has validated everything.
pub fn judge_cluster(cluster: &Cluster, j: &mut Judge) {
    if cluster.jobs.iter().any(|job| job.train.is_empty()) {
        j.contradiction(
            "jobs",
            "a job without training times",
            "at least one GPU type",
        );
    }
}

/// Judges a schedule by the cluster that it carries.
pub fn judge(schedule: &Schedule, j: &mut Judge) {
    j.same_option("id", schedule.id.as_ref(), schedule.cluster.id.as_ref());
    let fingerprint = schedule.cluster.fingerprint();
    j.same("fingerprint", &schedule.fingerprint, &fingerprint);
    let groups = schedule.cluster.gpu_groups();
    let paces = gangs::paces(schedule, &groups);
    let worked = sharing::worked(schedule, &groups, j);
    for (i, (task, pace)) in schedule.assignments.iter().zip(&paces).enumerate() {
        let group = &schedule.cluster.groups[groups[task.gpu]];
        let work = worked.works[i];
        j.field("assignments", |j| {
            j.index(i, |j| durations(schedule, task, work, group, *pace, j))
        });
    }
    gangs::judge(schedule, &groups, j);
    deviations(schedule, &paces, &worked.works, j);
    every_task_once(schedule, j);
    rounds_follow(schedule, j);
    // Tasks of merged rounds never share a GPU.
    if schedule.cluster.sharing.is_empty() || schedule.is_merged() {
        lanes::one_at_a_time(schedule, j);
    }
    let cost = figures(schedule, worked.busy, j);
    bounds(schedule, cost, j);
    baselines(schedule, j);
    residency::judge(schedule, &groups, j);
}

/// Whether a duration is the expected one, within the noise that the schedule declares.
fn lasts(duration: f64, expected: f64, scale: f64, noise: f64) -> bool {
    (duration - expected).abs() <= noise * expected + ROUNDING * scale.max(expected)
}

fn durations(
    schedule: &Schedule,
    task: &ScheduledTask,
    work: f64,
    group: &GpuGroup,
    pace: Option<(f64, f64)>,
    j: &mut Judge,
) {
    let job = &schedule.cluster.jobs[task.job];
    let Some((train, sync)) = pace else {
        return j.contradiction("gpu", &group.kind, "a GPU that can run the job");
    };
    let (start, end) = (task.start.get(), task.trained.get());
    let switch = task.switch.get();
    if !lasts(work, train, end, schedule.noise) {
        let expected = match schedule.cluster.sharing.is_empty() {
            true => (start + switch + train).to_string(),
            false => format!("when {train} s of training alone are done, and {work} s are"),
        };
        j.contradiction("train_end_s", end, expected);
    }
    let synced = task.synced.get();
    if !lasts(synced - end, sync, synced, schedule.noise) {
        j.contradiction("synced_s", synced, end + sync);
    }
    if start < job.arrival.get() * (1.0 - ROUNDING) {
        j.contradiction(
            "start_s",
            start,
            format!("at least the arrival {}", job.arrival.get()),
        );
    }
    if schedule.switching.is_none() && switch > 0.0 {
        j.contradiction("switch_s", switch, 0.0);
    }
}

/// The declared noise must be the largest relative deviation of any task, not just an upper limit. The total
/// synchronisation time must be the sum over all tasks: no other figure depends on the synchronisation of a task that
/// ends before others of its round.
fn deviations(schedule: &Schedule, paces: &[Option<(f64, f64)>], works: &[f64], j: &mut Judge) {
    let mut largest = 0.0_f64;
    let mut reached = schedule.noise <= 0.0;
    let mut sum = 0.0;
    for ((task, pace), &trained) in schedule.assignments.iter().zip(paces).zip(works) {
        let Some((train, sync)) = *pace else {
            continue;
        };
        let (end, synced) = (task.trained.get(), task.synced.get());
        sum += f64::from(task.rounds) * (synced - end);
        for (lasted, expected, at) in [(trained, train, end), (synced - end, sync, synced)] {
            if expected > 0.0 {
                let part = (lasted - expected).abs() / expected;
                largest = largest.max(part);
                reached |= part >= schedule.noise - ROUNDING * (at / expected).max(1.0);
            }
        }
    }
    if !reached {
        j.contradiction("noise", schedule.noise, largest);
    }
    let claimed = schedule.sync.map(|s| s.get());
    let sum = (schedule.noise > 0.0).then_some(sum.max(0.0));
    match (claimed, sum) {
        (Some(claimed), Some(sum)) => {
            j.number_of("sync_s", claimed, sum, schedule.makespan.get());
        }
        _ => j.optional_number("sync_s", claimed, sum),
    }
}

fn every_task_once(schedule: &Schedule, j: &mut Judge) {
    let mut seen: BTreeMap<(usize, u32), Vec<(u32, u32)>> = BTreeMap::new();
    for task in &schedule.assignments {
        let own = seen.entry((task.job, task.task)).or_default();
        own.push((task.round, task.round + task.rounds));
    }
    for (n, job) in schedule.cluster.jobs.iter().enumerate() {
        // For each task, the first round that is missing or appears twice.
        let wrong = (0..job.tasks).filter_map(|task| {
            let mut own = seen.remove(&(n, task)).unwrap_or_default();
            own.sort_unstable();
            let mut next = 0;
            for &(begin, end) in own.iter().chain([&(job.rounds, job.rounds)]) {
                if begin != next {
                    let round = begin.min(next);
                    let times = own
                        .iter()
                        .filter(|&&(a, b)| (a..b).contains(&round))
                        .count();
                    return Some((round, task, times));
                }
                next = end;
            }
            None
        });
        if let Some((round, task, times)) = wrong.min() {
            let claimed = format!("task {task} of round {round} of {} {times} times", job.id);
            return j.contradiction("assignments", claimed, "once");
        }
    }
}

/// A round must not start before every task of the previous round is synchronised.
///
/// Entries of a job that begin with the same round have the same number of rounds. Within them, starts and ends move by
/// the periods of the entries, so the latest end is a convex and the earliest start a concave function of the round. It
/// is therefore enough to check the first and the last pair of rounds.
fn rounds_follow(schedule: &Schedule, j: &mut Judge) {
    let later = |task: &ScheduledTask, rounds: u32| f64::from(rounds) * task.period;
    // `before`: when the previous round is synchronised. `within`: for entries that begin with this round, when their
    // first and their last but one round are synchronised.
    let mut before: BTreeMap<(usize, u32), f64> = BTreeMap::new();
    let mut within: BTreeMap<(usize, u32), (f64, f64)> = BTreeMap::new();
    for task in &schedule.assignments {
        let end = before
            .entry((task.job, task.round + task.rounds))
            .or_insert(0.0);
        *end = end.max(task.last_synced());
        if task.rounds > 1 {
            let ends = within.entry((task.job, task.round)).or_insert((0.0, 0.0));
            let first = task.synced.get();
            ends.0 = ends.0.max(first);
            ends.1 = ends.1.max(first + later(task, task.rounds - 2));
        }
    }
    for (i, task) in schedule.assignments.iter().enumerate() {
        let job = task.job;
        let round = task.round;
        let start = task.start.get();
        let first = before.get(&(job, round)).map(|&end| (round, start, end));
        let inside = within
            .get(&(job, round))
            .filter(|_| task.rounds > 1)
            .into_iter()
            .flat_map(|&(first, last)| {
                let rounds = task.rounds - 1;
                [
                    (round + 1, start + task.period, first),
                    (round + rounds, start + later(task, rounds), last),
                ]
            });
        let early = |&(_, start, ready): &(u32, f64, f64)| start < ready * (1.0 - ROUNDING);
        if let Some((round, start, ready)) = first.into_iter().chain(inside).find(early) {
            let least = format!("at least {ready}, when round {} ends", round - 1);
            j.field("assignments", |j| {
                j.index(i, |j| j.contradiction("start_s", start, least));
            });
        }
    }
}

/// Recomputes the figures; returns the cost.
fn figures(schedule: &Schedule, busy: f64, j: &mut Judge) -> f64 {
    let jobs = &schedule.cluster.jobs;
    let mut ends = vec![0.0_f64; jobs.len()];
    for task in &schedule.assignments {
        ends[task.job] = ends[task.job].max(task.last_synced());
    }
    let (mut cost, mut flow_cost) = (0.0, 0.0);
    let mut flows = Vec::with_capacity(jobs.len());
    for (job, end) in jobs.iter().zip(&ends) {
        let flow = end - job.arrival.get();
        cost += job.weight.get() * end;
        flow_cost += job.weight.get() * flow;
        flows.push(flow);
    }
    flows.sort_by(f64::total_cmp);
    let makespan = ends.iter().copied().fold(0.0, f64::max);
    let rank = (flows.len() * 95).div_ceil(100).max(1);
    let capacity = makespan * schedule.cluster.gpu_groups().len() as f64;
    j.number("cost", schedule.cost, cost);
    // Flow costs are differences of numbers as large as the cost.
    j.number_of("flow_cost", schedule.flow_cost, flow_cost, cost);
    let mean = flows.iter().sum::<f64>() / flows.len() as f64;
    j.number_of("mean_s", schedule.mean.get(), mean.max(0.0), makespan);
    j.number_of(
        "p95_s",
        schedule.p95.get(),
        flows[rank - 1].max(0.0),
        makespan,
    );
    j.number("makespan_s", schedule.makespan.get(), makespan);
    let part = if capacity > 0.0 { busy / capacity } else { 0.0 };
    j.number("utilisation", schedule.utilisation, part);
    cost
}

/// Chain bound `sum w (a + R l)`: every job has the cluster to itself.
fn chain(cluster: &Cluster) -> f64 {
    let each = cluster.jobs.iter().map(|job| {
        let round = match gangs::is_gang(job) {
            true => gangs::shortest_round(cluster, job),
            false => shortest_round(cluster, job),
        };
        let alone = f64::from(job.rounds) * round;
        job.weight.get() * (job.arrival.get() + alone)
    });
    each.sum()
}

/// Shortest round of a job alone on the cluster: each task goes to the GPU that finishes it first; returns the end of
/// the last task.
///
/// On an empty cluster this list rule gives the shortest possible round: the possible ends on a GPU are `Ts + k Tc`,
/// and the rule takes the smallest of them.
fn shortest_round(cluster: &Cluster, job: &ClusterJob) -> f64 {
    let mut queues: Vec<(f64, f64, u32, u32)> = Vec::new();
    for group in &cluster.groups {
        if let Some((train, sync)) = times::times(job, group) {
            queues.push((train, sync, group.count.unwrap_or(1), 0));
        }
    }
    let mut left = job.tasks;
    let mut end = 0.0_f64;
    while left > 0 {
        let next = queues.iter_mut().min_by(|a, b| {
            let due = |q: &(f64, f64, u32, u32)| q.1 + f64::from(q.3 + 1) * q.0;
            due(a).total_cmp(&due(b))
        });
        let Some(queue) = next else {
            return f64::INFINITY;
        };
        queue.3 += 1;
        end = end.max(queue.1 + f64::from(queue.3) * queue.0);
        left = left.saturating_sub(queue.2);
    }
    end
}

fn bounds(schedule: &Schedule, cost: f64, j: &mut Judge) {
    let claimed = schedule.lower_bound;
    let least = chain(&schedule.cluster) * (1.0 - schedule.noise);
    if claimed > cost * (1.0 + ROUNDING) {
        j.contradiction("lower_bound", claimed, format!("at most the cost {cost}"));
    }
    match schedule.bound {
        ScheduleBound::Chain => j.number("lower_bound", claimed, least),
        ScheduleBound::Exact if schedule.switching.is_none() => {
            j.number("lower_bound", claimed, cost);
        }
        _ if claimed < least * (1.0 - ROUNDING) => {
            j.contradiction(
                "lower_bound",
                claimed,
                format!("at least the chain bound {least}"),
            );
        }
        _ => j.unjudged(
            "lower_bound",
            "a relaxation: only the chain bound is recomputed",
        ),
    }
    let gap = if claimed > 0.0 {
        schedule.cost / claimed - 1.0
    } else {
        0.0
    };
    j.number_of("gap", schedule.gap, gap, 1.0);
    if schedule.proven && !close(claimed, cost, 0.0) {
        j.contradiction("proven", true, "false: the bound is below the cost");
    }
}

fn baselines(schedule: &Schedule, j: &mut Judge) {
    let arrivals: f64 = schedule
        .cluster
        .jobs
        .iter()
        .map(|n| n.weight.get() * n.arrival.get())
        .sum();
    for (i, other) in schedule.baselines.iter().enumerate() {
        j.field("baselines", |j| {
            j.index(i, |j| {
                j.number_of(
                    "flow_cost",
                    other.flow_cost,
                    other.cost - arrivals,
                    other.cost,
                );
                if other.cost < schedule.lower_bound * (1.0 - ROUNDING) {
                    let least = format!("at least the bound {}", schedule.lower_bound);
                    j.contradiction("cost", other.cost, least);
                }
                if schedule.lower_bound > 0.0 {
                    j.number(
                        "over_bound",
                        other.over_bound,
                        other.cost / schedule.lower_bound,
                    );
                }
            });
        });
    }
}
