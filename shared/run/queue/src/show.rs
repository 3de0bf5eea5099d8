//! Displays a queue.

use std::collections::BTreeMap;

use crate::message::{JobStatus, Status, Word};
use crate::policy::Wait;

/// Number of waiting jobs that are listed, the next to start first; the rest is counted.
const WAITING: usize = 5;
/// Number of failed or unstarted jobs that are listed, the last ones.
const FAILED: usize = 5;
/// Columns of the narrowest table.
const NARROWEST: usize = 40;

/// The queue in some lines: what runs, what comes next, what failed. `all`: list every job.
#[must_use]
pub fn table(status: &Status, all: bool, width: Option<u16>, now_s: f64) -> String {
    // Without a terminal, lines are not cut, so that the output can be searched.
    let width = width.map_or(usize::MAX, |w| {
        usize::from(w).saturating_sub(1).max(NARROWEST)
    });
    let mut lines = head(status);
    let of = |word: Word| status.jobs.iter().filter(move |job| job.state == word);
    let mut shown: Vec<&JobStatus> = of(Word::Running).collect();
    let mut waiting: Vec<&JobStatus> = of(Word::Waiting).collect();
    waiting.sort_by_key(|job| (-job.priority, job.id));
    let rest = match all {
        true => 0,
        false => waiting.len().saturating_sub(WAITING),
    };
    shown.extend(&waiting[..waiting.len() - rest]);
    let bad = |job: &&JobStatus| matches!(job.state, Word::Failed | Word::Killed | Word::Skipped);
    let mut ended: Vec<&JobStatus> = status.jobs.iter().filter(bad).collect();
    let more = ended.len().saturating_sub(FAILED);
    if all {
        ended = status
            .jobs
            .iter()
            .filter(|job| job.state.is_ended())
            .collect();
    } else {
        ended.drain(..more);
    }
    if !shown.is_empty() || !ended.is_empty() {
        lines.push(row(["ID", "STATE", "TIME", "PROGRESS"], "COMMAND", width));
    }
    lines.extend(shown.iter().map(|job| job_row(job, width, now_s)));
    if rest > 0 {
        lines.push(format!("      ... and {rest} more that wait"));
    }
    lines.extend(ended.iter().map(|job| job_row(job, width, now_s)));
    if more > 0 && !all {
        lines.push(format!(
            "      ... and {more} more that failed or were skipped (mt status --all)"
        ));
    }
    lines.join("\n") + "\n"
}

/// Summary before the jobs: how many in which state, what was learnt, what goes wrong.
#[must_use]
pub fn head(status: &Status) -> Vec<String> {
    let mut counts = BTreeMap::new();
    for job in &status.jobs {
        *counts.entry(job.state).or_insert(0usize) += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(word, n)| format!("{n} {}", name(*word)))
        .collect();
    let counts = match counts.is_empty() {
        true => "no jobs".to_owned(),
        false => counts.join(", "),
    };
    let mut lines = Vec::new();
    let Some(server) = &status.server else {
        lines.push(format!("{counts} (no server runs; `mt queue` starts it)"));
        return lines;
    };
    let paused = if status.paused { ", paused" } else { "" };
    lines.push(format!("{counts} on {}{paused}", server.device));
    for (template, learnt) in &server.learnt {
        let running = status
            .jobs
            .iter()
            .any(|j| !j.state.is_ended() && j.template == *template);
        if running && learnt.level > 1 {
            let (level, speedup) = (learnt.level, learnt.speedup);
            let sure = if learnt.step == 0 { "" } else { " so far" };
            lines.push(format!(
                "{level} at once achieve {speedup:.1} times the throughput of one{sure}: {template}"
            ));
        }
    }
    lines.extend(server.tries.iter().map(|tries| format!("trying {tries}")));
    lines.extend(
        server
            .trouble
            .iter()
            .map(|trouble| format!("warning: {trouble}")),
    );
    lines
}

const fn name(word: Word) -> &'static str {
    match word {
        Word::Running => "running",
        Word::Waiting => "waiting",
        Word::Done => "done",
        Word::Failed => "failed",
        Word::Killed => "killed",
        Word::Cancelled => "cancelled",
        Word::Skipped => "skipped",
        Word::Left => "left",
    }
}

/// State of a job, and why it waits or how it ended, in at most eleven letters.
#[must_use]
pub fn state(job: &JobStatus) -> String {
    match (job.state, job.code, job.signal, job.waits) {
        (Word::Failed, Some(code), ..) => format!("failed {code}"),
        (Word::Killed, _, Some(signal), _) => format!("signal {signal}"),
        (Word::Waiting, .., Some(why)) => reason(why).to_owned(),
        (word, ..) => name(word).to_owned(),
    }
}

fn job_row(job: &JobStatus, width: usize, now_s: f64) -> String {
    let state = state(job);
    let time = match (job.started_s, job.ended_s) {
        (Some(from), to) => clock(to.unwrap_or(now_s) - from),
        (None, _) => "-".to_owned(),
    };
    let what = match (&job.why, job.state) {
        (Some(why), _) => format!("{}: {why}", job.command),
        _ => job.command.clone(),
    };
    let id = job.id.to_string();
    row([&id, &state, &time, &progress(job)], &what, width)
}

const fn reason(why: Wait) -> &'static str {
    match why {
        Wait::Paused => "paused",
        Wait::Held => "held",
        Wait::Turn | Wait::Most => "waiting",
        Wait::Memory => "for memory",
        Wait::Alone => "to be alone",
        Wait::Reserved => "behind one",
    }
}

fn progress(job: &JobStatus) -> String {
    let Some(progress) = &job.progress else {
        return "-".to_owned();
    };
    let left = progress
        .left_s
        .map(|left| format!(", {} left", clock(left)));
    let left = left
        .filter(|_| job.state == Word::Running)
        .unwrap_or_default();
    match (progress.of, &job.unit) {
        (Some(of), _) if of > 0.0 => {
            format!("{:.0} %{left}", (100.0 * progress.done / of).min(100.0))
        }
        (_, Some(unit)) => format!("{:.0} {unit}", progress.done),
        _ => "-".to_owned(),
    }
}

/// `45s`, `3:07`, `2:05:00`.
#[must_use]
pub fn clock(seconds: f64) -> String {
    let all = seconds.max(0.0).round() as u64;
    match (all / 3600, all / 60 % 60, all % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}:{s:02}"),
        (h, m, s) => format!("{h}:{m:02}:{s:02}"),
    }
}

fn row(cells: [&str; 4], command: &str, width: usize) -> String {
    let [id, state, time, progress] = cells;
    let line = format!("{id:>5} {state:<11} {time:>7}  {progress:<17} {command}");
    if line.chars().count() <= width {
        return line.trim_end().to_owned();
    }
    let kept = line.chars().take(width.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// How a job ended, in a line.
#[must_use]
pub fn ended(job: &JobStatus) -> String {
    let how = match (job.state, job.code, job.signal) {
        (Word::Failed, Some(code), _) => format!("failed: exit status {code}"),
        (Word::Killed, _, Some(signal)) => format!("killed by signal {signal}"),
        (word, ..) => name(word).to_owned(),
    };
    let why = job
        .why
        .as_ref()
        .map_or_else(String::new, |why| format!(": {why}"));
    let took = match (job.started_s, job.ended_s) {
        (Some(from), Some(to)) => format!(" after {}", clock(to - from)),
        _ => String::new(),
    };
    format!("{} {how}{why}{took}: {}", job.id, job.command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::{Book, Demand, Group, Outcome, QueuedJob, Record};

    #[test]
    fn three_hundred_jobs_are_a_screen() {
        let mut book = Book::default();
        let group = Group {
            token: "t".to_owned(),
            cwd: "/".to_owned(),
            env: BTreeMap::new(),
            demand: Demand::default(),
            origin: None,
        };
        let job = |id| QueuedJob {
            id,
            template: "sh {}".to_owned(),
            argv: vec!["sh".to_owned(), id.to_string()],
            set: BTreeMap::new(),
            process: None,
            parent: None,
        };
        let jobs = book.next_ids(300).into_iter().map(job).collect();
        let records = [Record::Added {
            group,
            jobs,
            at_s: 0.0,
        }];
        let ends = (1..=100).flat_map(|n| {
            let id = crate::book::Id(n);
            let outcome = if n % 10 == 0 {
                Outcome::Failed(2)
            } else {
                Outcome::Done
            };
            [
                Record::Started { id, at_s: 1.0 },
                Record::Ended {
                    id,
                    at_s: 70.0,
                    outcome,
                },
            ]
        });
        for record in records.into_iter().chain(ends) {
            book.apply(&record).unwrap();
        }
        let status = Status::of(&book, &[]);
        let text = table(&status, false, Some(80), 100.0);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.len() <= 24 && lines.iter().all(|l| l.chars().count() < 80),
            "{text}"
        );
        assert!(
            lines[0].starts_with("200 waiting, 90 done, 10 failed"),
            "{text}"
        );
        assert!(
            text.contains("  101 waiting") && text.contains("... and 195 more that wait"),
            "{text}"
        );
        assert!(
            text.contains("  100 failed 2") && text.contains("1:09"),
            "{text}"
        );
        assert!(table(&status, true, None, 100.0).lines().count() > 300);
    }
}
