//! Checks switching: how often a GPU changes jobs, and how often the model of the next job is still
//! in memory.

use doc::{ClusterJob, Schedule, SwitchingMode};

use super::gangs::is_gang;
use crate::judge::Judge;

/// Which model is evicted when memory is short.
#[derive(Clone, Copy, PartialEq)]
enum Goes {
    /// The model that finished longest ago.
    Oldest,
    /// The model whose next use is furthest in the future (Belady).
    LastUsed,
}

pub fn judge(schedule: &Schedule, groups: &[usize], j: &mut Judge) {
    let Some(claimed) = schedule.switching else {
        return;
    };
    let mut lanes: Vec<Vec<(f64, usize)>> = vec![Vec::new(); groups.len()];
    for (i, task) in schedule.assignments.iter().enumerate() {
        lanes[task.gpu].push((task.start.get(), i));
    }
    let mut switches = 0_u32;
    let mut newest = 0_u32;
    let mut farthest = 0_u32;
    let (mut seconds, mut occupied) = (0.0, 0.0);
    for (gpu, lane) in lanes.iter_mut().enumerate() {
        lane.sort_by(|a, b| a.0.total_cmp(&b.0));
        let jobs: Vec<usize> = lane.iter().map(|l| schedule.assignments[l.1].job).collect();
        let memory = schedule.cluster.groups[groups[gpu]].memory;
        for (at, &(_, i)) in lane.iter().enumerate() {
            let task = &schedule.assignments[i];
            seconds += task.switch.get();
            occupied += task.trained.get() - task.start.get();
            // A gang waits until all of its tasks have switched, so a task may wait although its
            // own job continues.
            let waits = is_gang(&schedule.cluster.jobs[task.job]);
            if at > 0 && jobs[at - 1] == jobs[at] && task.switch.get() > 0.0 && !waits {
                j.field("assignments", |j| {
                    j.index(i, |j| {
                        j.contradiction("switch_s", task.switch.get(), "0: the same job continues")
                    });
                });
            }
        }
        switches += (0..jobs.len())
            .filter(|&i| i == 0 || jobs[i - 1] != jobs[i])
            .count() as u32;
        newest += hits(&jobs, &schedule.cluster.jobs, memory, Goes::Oldest);
        farthest += hits(&jobs, &schedule.cluster.jobs, memory, Goes::LastUsed);
    }
    j.field("switching", |j| {
        j.same("switches", claimed.switches, switches);
        j.same("hits_newest", claimed.hits_newest, newest);
        j.same("hits_belady", claimed.hits_belady, farthest);
        let charged = if charges_hits(claimed.mode) {
            farthest
        } else {
            0
        };
        j.same("hits", claimed.hits, charged);
        j.number_of("total_s", claimed.total_s, seconds, occupied * 1e-3);
        let share = if occupied > 0.0 {
            claimed.total_s / occupied
        } else {
            0.0
        };
        j.number_of("share", claimed.share, share, 1e-3);
        j.same("modelled", claimed.modelled, true);
    });
}

fn model_bytes(job: &ClusterJob) -> f64 {
    if job.layers.is_empty() {
        job.model_bytes.unwrap_or(0.0)
    } else {
        job.layers.iter().map(|l| l.bytes).sum()
    }
}

/// How often a job returns to a GPU after another job, while its model is still in memory.
fn hits(sequence: &[usize], jobs: &[ClusterJob], memory: Option<f64>, goes: Goes) -> u32 {
    let memory = memory.unwrap_or(f64::INFINITY);
    // Jobs whose models are in memory, and the position at which each ran last.
    let mut inside: Vec<(usize, usize)> = Vec::new();
    let mut hits = 0;
    for (at, &job) in sequence.iter().enumerate() {
        let found = inside.iter().any(|m| m.0 == job);
        if found && at > 0 && sequence[at - 1] != job {
            hits += 1;
        }
        inside.retain(|m| m.0 != job);
        let needed = jobs[job].memory.unwrap_or(0.0).max(model_bytes(&jobs[job]));
        // Sort by priority; a model stays if it fits beside those with higher priority.
        let next_use = |m: usize| {
            let mut later = sequence.iter().skip(at + 1);
            later.position(|&n| n == m).unwrap_or(usize::MAX)
        };
        match goes {
            Goes::Oldest => inside.sort_by_key(|m| std::cmp::Reverse(m.1)),
            Goes::LastUsed => inside.sort_by_key(|m| (next_use(m.0), usize::MAX - m.1)),
        }
        let mut room = memory - needed;
        let mut stay = Vec::new();
        for &(other, last) in &inside {
            let bytes = model_bytes(&jobs[other]);
            if bytes <= room {
                room -= bytes;
                stay.push((other, last));
            }
        }
        stay.push((job, at));
        inside = stay;
    }
    hits
}

/// Whether the mode of switching takes hits into account.
pub fn charges_hits(mode: SwitchingMode) -> bool {
    mode == SwitchingMode::Hare
}
