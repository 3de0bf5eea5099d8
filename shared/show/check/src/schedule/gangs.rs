//! Checks gangs: the tasks of a round must start together, each on its own GPU, on one node if
//! requested, and run at the pace of the slowest.

use std::collections::{BTreeMap, BTreeSet};

use doc::{Cluster, ClusterJob, Gang, Schedule};

use super::times::times;
use crate::judge::{Judge, ROUNDING};

/// Expected training and synchronisation time of every task; in a gang, the longest of its round.
/// `None` on a GPU that cannot run the job.
pub fn paces(schedule: &Schedule, groups: &[usize]) -> Vec<Option<(f64, f64)>> {
    let cluster = &schedule.cluster;
    let own = |task: &doc::ScheduledTask| {
        times(&cluster.jobs[task.job], &cluster.groups[groups[task.gpu]])
    };
    let mut longest: BTreeMap<(usize, u32), (f64, f64)> = BTreeMap::new();
    for task in &schedule.assignments {
        if let (true, Some((train, sync))) = (is_gang(&cluster.jobs[task.job]), own(task)) {
            let most = longest.entry((task.job, task.round)).or_insert((0.0, 0.0));
            *most = (most.0.max(train), most.1.max(sync));
        }
    }
    let pace = |task| {
        let alone = own(task)?;
        Some(
            longest
                .get(&(task.job, task.round))
                .copied()
                .unwrap_or(alone),
        )
    };
    schedule.assignments.iter().map(pace).collect()
}

/// Whether the job is a gang. With one task per round there is nothing to run at the same time.
pub fn is_gang(job: &ClusterJob) -> bool {
    job.gang.is_some() && job.tasks > 1
}

pub fn judge(schedule: &Schedule, groups: &[usize], j: &mut Judge) {
    let cluster = &schedule.cluster;
    // For every round of a gang: the index of its first task, and its GPUs.
    let mut rounds: BTreeMap<(usize, u32), (usize, BTreeSet<usize>)> = BTreeMap::new();
    for (i, task) in schedule.assignments.iter().enumerate() {
        let job = &cluster.jobs[task.job];
        if !is_gang(job) {
            continue;
        }
        let (first, gpus) = rounds
            .entry((task.job, task.round))
            .or_insert_with(|| (i, BTreeSet::new()));
        let new = gpus.insert(task.gpu);
        let other = &schedule.assignments[*first];
        let node = |gpu: usize| (cluster.groups[groups[gpu]].node.as_ref(), gpu);
        let (here, there) = (node(task.gpu), node(other.gpu));
        let beside = here.0.is_some() && here.0 == there.0 || here.1 == there.1;
        j.field("assignments", |j| {
            j.index(i, |j| {
                let start = other.start.get();
                let mut with = |own: f64, start: f64| {
                    if (own - start).abs() > ROUNDING * start.max(1.0) {
                        let with = format!("{start}, with the others of its gang");
                        j.contradiction("start_s", own, with);
                    }
                };
                with(task.start.get(), start);
                if task.rounds > 1 {
                    with(task.start.get() + task.moved(), start + other.moved());
                }
                if !new {
                    j.contradiction(
                        "gpu",
                        task.gpu,
                        "another GPU than that of its gang's other tasks",
                    );
                }
                if job.gang == Some(Gang::SameNode) && !beside {
                    j.contradiction("gpu", task.gpu, "a GPU of the node of its gang");
                }
            });
        });
    }
}

/// Shortest possible round of a gang that has the whole cluster to itself.
///
/// Sort the GPUs by training time. If the gang uses GPUs of a prefix, the round trains as long as the
/// last GPU of the prefix. It synchronises as long as the longest of the chosen synchronisation times;
/// the best choice takes the shortest ones of the prefix, one per task.
pub fn shortest_round(cluster: &Cluster, job: &ClusterJob) -> f64 {
    let mut places: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (i, group) in cluster.groups.iter().enumerate() {
        let Some(each) = times(job, group) else {
            continue;
        };
        for k in 0..group.count.unwrap_or(1) {
            let place = match (job.gang, &group.node) {
                (Some(Gang::SameNode), Some(node)) => format!("at {node}"),
                (Some(Gang::SameNode), None) => format!("{i} {k}"),
                _ => String::new(),
            };
            places.entry(place).or_default().push(each);
        }
    }
    let tasks = job.tasks as usize;
    let least = places.into_values().flat_map(|mut gpus| {
        gpus.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut syncs: Vec<f64> = Vec::new();
        let mut ends = Vec::new();
        for (train, sync) in gpus {
            let at = syncs.partition_point(|s| *s <= sync);
            syncs.insert(at, sync);
            ends.extend(syncs.get(tasks - 1).map(|s| train + s));
        }
        ends
    });
    least.fold(f64::INFINITY, f64::min)
}
