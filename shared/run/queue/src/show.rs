//! Formats the state of a queue for the terminal.

use std::cmp::Reverse;

use crate::devices::CPU;
use crate::learnt::Learnt;
use crate::message::{DeviceStatus, JobStatus, LISTED, Status, Word};
use crate::policy::Wait;

/// Ends that need a user's attention.
const BAD: [Word; 4] = [Word::Failed, Word::Killed, Word::TimedOut, Word::Skipped];
/// Ends that need no attention.
const GOOD: [Word; 3] = [Word::Done, Word::Left, Word::Cancelled];
/// Columns of the narrowest table.
const NARROWEST: usize = 40;
/// Maximum width of a column: a command of a hundred thousand characters does not fill every row with blanks. (A format
/// takes widths up to 65,535.)
const WIDEST: usize = 200;

/// Width of a column by the lengths of its cells, in characters. A longer cell stands out of it.
#[must_use]
pub fn column(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.max().unwrap_or(0).min(WIDEST)
}

/// The queue in a few lines: what runs, what comes next, what failed. `all`: list every job.
#[must_use]
pub fn table(status: &Status, all: bool, width: Option<u16>, now_s: f64) -> String {
    // Without a terminal, lines are not truncated, so that the output can be searched.
    let width = width.map_or(usize::MAX, |w| {
        usize::from(w).saturating_sub(1).max(NARROWEST)
    });
    let mut lines = head(status);
    let of = |word: Word| status.jobs.iter().filter(move |job| job.state == word);
    let total = |words: &[Word]| match status.counts.is_empty() {
        true => words.iter().map(|word| of(*word).count()).sum(),
        false => words
            .iter()
            .filter_map(|word| status.counts.get(word))
            .sum(),
    };
    let running: Vec<&JobStatus> = of(Word::Running).collect();
    let mut waiting: Vec<&JobStatus> = of(Word::Waiting).collect();
    waiting.sort_by_key(|job| (Reverse(job.priority), job.id));
    let ended_s = |job: &&JobStatus| job.ended_s.unwrap_or(0.0);
    let ended = |words: &[Word]| {
        let mut jobs: Vec<&JobStatus> = words.iter().flat_map(|word| of(*word)).collect();
        jobs.sort_by(|a, b| ended_s(a).total_cmp(&ended_s(b)).then(a.id.cmp(&b.id)));
        jobs
    };
    let mut blocks = vec![
        (running, total(&[Word::Running]), "run"),
        (waiting, total(&[Word::Waiting]), "wait"),
        (ended(&BAD), total(&BAD), "are not done (mt status --all)"),
        (ended(&GOOD), total(&GOOD), "are done (mt status --all)"),
    ];
    if all {
        let mut jobs: Vec<&JobStatus> = status.jobs.iter().filter(|j| j.state.is_ended()).collect();
        jobs.sort_by_key(|job| job.id);
        blocks.truncate(2);
        let count = jobs.len();
        blocks.push((jobs, count, ""));
    } else {
        blocks[1].0.truncate(LISTED);
        for (jobs, ..) in &mut blocks[2..] {
            jobs.drain(..jobs.len().saturating_sub(LISTED));
        }
    }
    if blocks.iter().any(|(jobs, ..)| !jobs.is_empty()) {
        lines.push(row(["ID", "STATE", "TIME", "PROGRESS"], "COMMAND", width));
    }
    for (jobs, total, what) in blocks {
        lines.extend(jobs.iter().map(|job| job_row(job, width, now_s)));
        let rest = total.saturating_sub(jobs.len());
        if rest > 0 {
            lines.push(format!("      ... and {rest} more that {what}"));
        }
    }
    lines.join("\n") + "\n"
}

/// Summary above the list of jobs: number of jobs in each state, what was learnt, problems.
#[must_use]
pub fn head(status: &Status) -> Vec<String> {
    let mut counts = status.counts.clone();
    if counts.is_empty() {
        for job in &status.jobs {
            *counts.entry(job.state).or_insert(0usize) += 1;
        }
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
    lines.extend(server.devices.iter().filter_map(device));
    for (kind, templates) in &server.learnt {
        let several = server.learnt.len() > 1;
        let on = if several {
            format!(" on {kind}")
        } else {
            String::new()
        };
        for (template, learnt) in templates {
            let running = status
                .jobs
                .iter()
                .any(|j| !j.state.is_ended() && j.template == *template);
            if running && learnt.level > 1 {
                lines.push(level(template, learnt, &on));
            }
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

/// How many copies of a template run at once.
fn level(template: &str, learnt: &Learnt, on: &str) -> String {
    let template = cli::one_line(template);
    match learnt.wants {
        // On processors no numbers were compared; this number fills the processors.
        Some(wants) => format!(
            "up to {} at once, since one keeps {wants:.2} processors busy: {template}",
            learnt.level
        ),
        None => {
            let so_far = if learnt.step == 0 { "" } else { " so far" };
            let gives = learnt
                .over_alone()
                .map(|over| format!(" achieve {over:.1} times the throughput of one{so_far}"));
            format!(
                "{} at once{on}{}: {template}",
                learnt.level,
                gives.unwrap_or_default()
            )
        }
    }
}

/// A GPU with its jobs, its memory, and the other processes that use it. `None` for processors, whose other users do
/// not matter here.
fn device(device: &DeviceStatus) -> Option<String> {
    if device.id == CPU {
        return None;
    }
    let gb = |bytes: u64| format!("{:.1}", bytes as f64 * 1e-9);
    let jobs = match device.jobs.len() {
        1 => "1 job".to_owned(),
        count => format!("{count} jobs"),
    };
    let mut text = format!("{} ({}): {jobs}", device.name, device.kind);
    if let Some(why) = &device.lost {
        return Some(format!("{text}, cannot be used: {why}"));
    }
    if let Some(free) = device.free {
        let (free, all) = (gb(free), gb(device.memory));
        text += &format!(", {free} of {all} GB free");
    }
    for stranger in &device.strangers {
        let held = gb(stranger.bytes);
        text += &match stranger.name.as_str() {
            "" => format!(", pid {} holds {held} GB", stranger.pid),
            name => format!(", {name} (pid {}) holds {held} GB", stranger.pid),
        };
    }
    Some(text)
}

/// Name of a state, one word.
#[must_use]
pub const fn name(word: Word) -> &'static str {
    match word {
        Word::Running => "running",
        Word::Waiting => "waiting",
        Word::Done => "done",
        Word::Failed => "failed",
        Word::Killed => "killed",
        Word::TimedOut => "timed out",
        Word::Cancelled => "cancelled",
        Word::Skipped => "skipped",
        Word::Left => "left",
    }
}

/// State of a job, and why it waits or how it ended, in at most eleven characters.
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
    let command = cli::one_line(&job.command);
    let what = match &job.why {
        Some(why) => format!("{command}: {why}"),
        None => command.into_owned(),
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
        Wait::After => "for another",
        Wait::Group => "for group",
        Wait::Device => "for a device",
        Wait::Promise => "for promise",
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

/// A duration, such as `45s`, `3:07` or `2:05:00`.
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
        (Word::TimedOut, ..) => "took longer than --timeout".to_owned(),
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
    format!(
        "{} {how}{why}{took}: {}",
        job.id,
        cli::one_line(&job.command)
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::book::{Book, Demand, Group, JobEnd, QueuedJob, Record};

    #[test]
    fn three_hundred_jobs_are_a_screen() {
        let mut book = Book::default();
        let group = Group {
            token: "t".to_owned(),
            cwd: "/".to_owned(),
            env: BTreeMap::new(),
            demand: Demand::default(),
            first: None,
            origin: None,
        };
        let job = |id| QueuedJob {
            id,
            template: "sh {}".to_owned(),
            argv: vec!["sh".to_owned(), id.to_string()],
            set: BTreeMap::new(),
            values: Vec::new(),
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
                JobEnd::Failed(2)
            } else {
                JobEnd::Done
            };
            [
                Record::Started {
                    id,
                    at_s: 1.0,
                    placed: None,
                },
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
        assert!(
            text.contains("   99 done") && text.contains("... and 85 more that are done"),
            "{text}"
        );
        let brief = Status::overview(&book);
        assert!(brief.jobs.len() <= 15, "{}", brief.jobs.len());
        assert_eq!(table(&brief, false, Some(80), 100.0), text);
        assert!(table(&status, true, None, 100.0).lines().count() > 300);
    }
}
