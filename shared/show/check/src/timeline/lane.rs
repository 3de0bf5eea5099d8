//! The tasks of a round for the checks: their work, and when they do it.

use doc::{PhaseKind, Timeline};

use crate::judge::Judge;
use crate::round_task::RoundTask;

/// Start and end in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    pub start: f64,
    pub end: f64,
}

/// The three phases of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lane {
    pub download: Span,
    pub compute: Span,
    pub upload: Span,
}

/// The phases of every task, each exactly once.
pub fn lanes(timeline: &Timeline, j: &mut Judge) -> Option<Vec<Lane>> {
    let find = |task: usize, kind: PhaseKind, j: &mut Judge| {
        let mut found = timeline
            .phases
            .iter()
            .filter(|p| p.task == task && p.kind == kind);
        let first = found.next().map(|p| Span {
            start: p.start.get(),
            end: p.end.get(),
        });
        let count = usize::from(first.is_some()) + found.count();
        if count != 1 {
            let id = &timeline.plan.tasks[task].id;
            j.contradiction(
                "phases",
                format!("{count} phases {kind:?} of task {id}"),
                "one",
            );
        }
        first.filter(|_| count == 1)
    };
    let lanes: Vec<Option<Lane>> = (0..timeline.plan.tasks.len())
        .map(|i| {
            let download = find(i, PhaseKind::Download, j);
            let compute = find(i, PhaseKind::Compute, j);
            let upload = find(i, PhaseKind::Upload, j);
            Some(Lane {
                download: download?,
                compute: compute?,
                upload: upload?,
            })
        })
        .collect();
    lanes.into_iter().collect()
}

/// Durations and work of every task, or a message that says what is missing.
pub fn jobs(timeline: &Timeline) -> Result<Vec<RoundTask>, String> {
    let plan = &timeline.plan;
    let workload = plan.workload();
    let link = plan.link.or_else(|| workload.and_then(|w| w.link));
    plan.tasks
        .iter()
        .map(|task| {
            let of_workload = workload.and_then(|w| Some(&w.tasks[w.task_index(&task.id)?]));
            let samples = task.samples.or(of_workload.and_then(|t| t.samples));
            let bytes = task
                .update_bytes
                .or(of_workload.and_then(|t| t.update_bytes));
            let samples =
                samples.ok_or_else(|| format!("task {} does not say how many samples", task.id))?;
            Ok(RoundTask::new(link, bytes, samples))
        })
        .collect()
}
