//! Reports the status of a cluster's jobs: what runs, what waits and why, and when each job is
//! expected to end.

use doc::{ClusterStatus, JobState, JobStatus};

use super::words::listed;
use crate::number::plain;
use crate::page::{Cell, Report, Table};
use crate::picture::{Drawing, Gantt, Lane, Span};

/// Maximum number of jobs drawn, for the same reason as the maximum number of GPUs of a schedule:
/// the height of the picture.
const MOST_LANES: usize = 64;

/// A table of the jobs, and a picture of the expected end of each open one.
pub fn report(status: &ClusterStatus) -> Report {
    let mut report = Report::new("Status", None, false);
    report.fact("time", format!("{} s", plain(status.time.get())));
    let count = |state| status.jobs.iter().filter(|j| j.state == state).count();
    let states = [
        JobState::Running,
        JobState::Waiting,
        JobState::Done,
        JobState::Cancelled,
    ];
    let all = states.map(|s| (count(s), s.name()));
    let counts = all.iter().filter(|c| c.0 > 0);
    report.fact(
        "jobs",
        listed(counts.map(|(n, name)| format!("{n} {name}"))),
    );
    if !status.lost.is_empty() {
        report.fact("GPUs lost", listed(status.lost.iter().cloned()));
    }
    let late: Vec<String> = status
        .jobs
        .iter()
        .filter(|j| is_late(j))
        .map(|j| j.job.to_string())
        .collect();
    if !late.is_empty() {
        report.fact("expected after their deadlines", listed(late));
    }
    report.table(jobs(status));
    let lanes: Vec<Lane> = status
        .jobs
        .iter()
        .enumerate()
        .filter_map(|(i, job)| lane(i, job, status.time.get()))
        .collect();
    if !lanes.is_empty() {
        let gantt = Gantt {
            axis: "time (s)".to_owned(),
            lanes: lanes.into_iter().take(MOST_LANES).collect(),
            limits: Vec::new(),
        };
        let title =
            "When jobs run: above until the latest expected end, below until the expected one";
        report.picture("ends", title, Drawing::Gantt(gantt));
    }
    report
}

fn is_late(job: &JobStatus) -> bool {
    let end = job.end.map(|e| e.at);
    let open = matches!(job.state, JobState::Running | JobState::Waiting);
    open && end.zip(job.deadline).is_some_and(|(end, by)| end > by)
}

fn jobs(status: &ClusterStatus) -> Table {
    let mut table = Table::new("jobs", "Jobs")
        .column("job", "job", "")
        .column("state", "state", "")
        .column("weight", "weight", "")
        .column("rounds_done", "rounds done", "")
        .column("rounds", "of", "")
        .column("gpus", "on", "")
        .measured("end_s", "expected end", "s")
        .measured("end_low_s", "from", "s")
        .measured("end_high_s", "to", "s")
        .column("deadline_s", "deadline", "s")
        .column("waits", "why it waits", "");
    for job in &status.jobs {
        let on: Vec<String> = job.running.iter().map(|t| t.gpu.clone()).collect();
        table.rows.push(vec![
            job.job.as_str().into(),
            job.state.name().into(),
            Cell::Number(job.weight.get()),
            Cell::Count(u64::from(job.rounds_done)),
            Cell::Count(u64::from(job.rounds)),
            Cell::text(Some(on.join(" ")).filter(|t| !t.is_empty())),
            Cell::number(job.end.map(|e| e.at.get())),
            Cell::number(job.end.map(|e| e.low.get())),
            Cell::number(job.end.map(|e| e.high.get())),
            Cell::number(job.deadline.map(|d| d.get())),
            Cell::text(job.waits.clone()),
        ]);
    }
    table.without_empty_columns()
}

/// Lane of an open job: from now or, if it waits, from its expected start, to its expected end.
fn lane(index: usize, job: &JobStatus, now: f64) -> Option<Lane> {
    let end = job.end?;
    let open = matches!(job.state, JobState::Running | JobState::Waiting);
    let start = match (job.state, &job.next) {
        (JobState::Waiting, Some((start, _))) => start.get(),
        _ => now,
    };
    let span = |end: f64| Span {
        task: job.job.to_string(),
        index,
        start,
        end,
    };
    open.then(|| Lane {
        name: job.job.to_string(),
        planned: vec![span(end.high.get())],
        measured: vec![span(end.at.get())],
    })
}
