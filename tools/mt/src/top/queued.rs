//! State of a queue of jobs.

use queue::message::{JobStatus, Status, Word};
use queue::show;

use super::screen::{Row, Screen};

/// The screen of a queue at the time `now_s`, in seconds since 1970.
#[must_use]
pub fn queued(status: &Status, now_s: f64) -> Screen {
    let mut notes = show::head(status);
    let title = format!("queue: {}", notes.remove(0));
    let mut jobs: Vec<&JobStatus> = status.jobs.iter().collect();
    // Running jobs first, then those that start next, then ended ones, the latest first.
    jobs.sort_by_key(|job| match job.state {
        Word::Running => (0, 0, job.id.0),
        Word::Waiting => (1, -job.priority, job.id.0),
        _ => (2, 0, u64::MAX - job.id.0),
    });
    let rows = jobs.into_iter().map(|job| row(job, now_s)).collect();
    Screen { title, notes, rows }
}

fn row(job: &JobStatus, now_s: f64) -> Row {
    let progress = job.progress.as_ref();
    let part = progress.and_then(|p| p.of.filter(|of| *of > 0.0).map(|of| p.done / of));
    let done = progress.zip(job.unit.as_ref());
    Row {
        id: job.id.to_string(),
        state: show::state(job),
        running: job.state == Word::Running,
        ended: job.state.is_ended(),
        time_s: job
            .started_s
            .map(|from| job.ended_s.unwrap_or(now_s) - from),
        share_percent: job.share_percent.filter(|_| job.state == Word::Running),
        part,
        done: done.map_or_else(String::new, |(p, unit)| format!("{:.0} {unit}", p.done)),
        left_s: progress
            .and_then(|p| p.left_s)
            .filter(|_| job.state == Word::Running),
        of_predicted_percent: None,
        what: match &job.why {
            Some(why) => format!("{}: {why}", job.command),
            None => job.command.clone(),
        },
    }
}
