//! Recomputes the work that every task completes on its GPU: how many tasks train there at once, at which
//! rates, and for how long.

use std::collections::{BTreeMap, HashMap};

use doc::Schedule;

use crate::judge::{Judge, ROUNDING};

/// Work done on the GPUs.
pub struct Worked {
    /// Work that each task completes, in seconds of training alone.
    pub works: Vec<f64>,
    /// Total seconds in which a GPU trains, whether one task or two.
    pub busy: f64,
}

/// A task begins or ends.
struct Turn {
    at: f64,
    begins: bool,
    task: usize,
}

/// Integrates the rates of the tasks on each GPU over time, from each start or end of a task there to the
/// next.
pub fn worked(schedule: &Schedule, groups: &[usize], j: &mut Judge) -> Worked {
    let tasks = &schedule.assignments;
    let alone = |t: &doc::ScheduledTask| t.trained.get() - t.start.get() - t.switch.get();
    // Tasks of merged rounds never share a GPU.
    if schedule.cluster.sharing.is_empty() || schedule.is_merged() {
        let works: Vec<f64> = tasks.iter().map(alone).collect();
        let all = works.iter().zip(tasks);
        let busy = all.map(|(work, t)| f64::from(t.rounds) * work).sum();
        return Worked { works, busy };
    }
    let mut lanes: BTreeMap<usize, Vec<Turn>> = BTreeMap::new();
    for (task, t) in tasks.iter().enumerate() {
        let turn = |at, begins| Turn { at, begins, task };
        let lane = lanes.entry(t.gpu).or_default();
        lane.push(turn(t.start.get() + t.switch.get(), true));
        lane.push(turn(t.trained.get(), false));
    }
    let rates = rates(schedule);
    let mut out = Worked {
        works: vec![0.0; tasks.len()],
        busy: 0.0,
    };
    for (gpu, mut turns) in lanes {
        turns.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.begins.cmp(&b.begins)));
        let mut there: Vec<usize> = Vec::new();
        let mut since = 0.0;
        for turn in turns {
            let seconds = turn.at - since;
            // An overlap within rounding is not sharing.
            let counts = seconds > ROUNDING * turn.at.max(1.0);
            let of = |a: usize, b: usize| {
                rates
                    .get(&(tasks[a].job, tasks[b].job, groups[gpu]))
                    .copied()
            };
            match there[..] {
                [a] => out.works[a] += seconds,
                [a, b] => {
                    if counts && of(a, b).is_none() {
                        refuse(
                            schedule,
                            b,
                            "no other task that it does not share the GPU with",
                            j,
                        );
                    }
                    out.works[a] += seconds * of(a, b).unwrap_or(1.0);
                    out.works[b] += seconds * of(b, a).unwrap_or(1.0);
                }
                [.., last] => {
                    if counts {
                        refuse(schedule, last, "at most one other task on the GPU", j);
                    }
                    there.iter().for_each(|&t| out.works[t] += seconds);
                }
                [] => {}
            }
            out.busy += if there.is_empty() { 0.0 } else { seconds };
            since = turn.at;
            match turn.begins {
                true => there.push(turn.task),
                false => there.retain(|&t| t != turn.task),
            }
        }
    }
    out
}

fn refuse(schedule: &Schedule, task: usize, expected: &str, j: &mut Judge) {
    let start = schedule.assignments[task].start.get();
    j.field("assignments", |j| {
        j.index(task, |j| j.contradiction("start_s", start, expected));
    });
}

/// Rate of the first job beside the second on GPUs of a group, keyed by `(first, second, group)`.
fn rates(schedule: &Schedule) -> HashMap<(usize, usize, usize), f64> {
    let cluster = &schedule.cluster;
    let mut out = HashMap::new();
    for pair in &cluster.sharing {
        let [a, b] = pair.jobs;
        let memory = |n: usize| cluster.jobs[n].memory.unwrap_or(0.0);
        for (g, group) in cluster.groups.iter().enumerate() {
            let small = group
                .memory
                .is_some_and(|have| memory(a) + memory(b) > have);
            if group.kind == pair.kind && !small {
                out.insert((a, b, g), pair.rates[0]);
                out.insert((b, a, g), pair.rates[1]);
            }
        }
    }
    out
}
