//! Results of live runs: completions and pauses, from the events of the launcher.

use std::collections::BTreeMap;
use std::path::Path;

use doc::{EventPayload, Frame, ReadError, RunEvent, TrainingEvent, TrainingNews};

use crate::paper::Times;

/// The repetitions of one policy.
#[derive(Default)]
pub struct Runs {
    /// Seconds from the arrival of each training to its completion, for every repetition.
    pub completions: Vec<BTreeMap<String, f64>>,
    /// The last completion, from the first arrival.
    pub totals: Vec<f64>,
    /// Seconds for which a reconfiguration kept a training from its steps.
    pub pauses: Vec<f64>,
    /// Steps that were repeated or left out at a reconfiguration.
    pub broken_steps: u64,
}

impl Runs {
    /// The older and the younger of two trainings, if the runs have two.
    pub fn times(&self) -> Vec<Times> {
        let runs = self.completions.iter().zip(&self.totals);
        let times = runs.map(|(ends, total)| {
            Some(Times {
                total: *total,
                older: *ends.get("older")?,
                younger: *ends.get("younger")?,
            })
        });
        times.collect::<Option<_>>().unwrap_or_default()
    }

    /// Mean time from arrival to completion over the trainings, of every repetition.
    pub fn means(&self) -> Vec<f64> {
        let mean = |ends: &BTreeMap<String, f64>| ends.values().sum::<f64>() / ends.len() as f64;
        self.completions.iter().map(mean).collect()
    }
}

/// Reads `POLICY-N.ndjson` of a folder, with `arrivals.ndjson` beside them.
///
/// # Errors
/// What cannot be read, as a message.
pub fn read(folder: &Path) -> Result<BTreeMap<String, Runs>, String> {
    let arrivals = arrivals(&folder.join("arrivals.ndjson"))?;
    let mut all: BTreeMap<String, Runs> = BTreeMap::new();
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_stem().and_then(|n| n.to_str()).unwrap_or("");
        let Some((policy, _)) = name.rsplit_once('-') else {
            continue;
        };
        if path.extension().is_none_or(|e| e != "ndjson") {
            continue;
        }
        let events = events(&path)?;
        let runs = all.entry(policy.to_owned()).or_default();
        let shown = path.display();
        let completions =
            completions(&events, &arrivals).ok_or(format!("{shown}: a training did not end"))?;
        let ends = completions.iter().map(|(name, took)| took + arrivals[name]);
        runs.totals.push(ends.fold(0.0, f64::max));
        runs.completions.push(completions);
        runs.pauses.extend(pauses(&events));
        runs.broken_steps += broken(&events);
    }
    Ok(all)
}

fn frames(path: &Path) -> Result<Vec<Frame>, String> {
    let text = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let lines = text.split(|b| *b == b'\n').zip(1..);
    Ok(lines
        .filter(|(l, _)| !l.trim_ascii().is_empty())
        .map(|(bytes, line)| Frame {
            bytes: bytes.to_vec(),
            source_name: path.display().to_string(),
            line,
        })
        .collect())
}

fn events(path: &Path) -> Result<Vec<RunEvent>, String> {
    let parse = |f: &Frame| f.parse::<RunEvent>().map_err(|e: ReadError| e.to_string());
    frames(path)?.iter().map(parse).collect()
}

fn arrivals(path: &Path) -> Result<BTreeMap<String, f64>, String> {
    let mut all = BTreeMap::new();
    for frame in frames(path)? {
        let event = TrainingEvent::read(&frame).map_err(|e| e.to_string())?;
        if let TrainingNews::Arrive(arrival) = event.what {
            all.insert(arrival.task.to_string(), event.time.get());
        }
    }
    Ok(all)
}

/// The last end of a process of each task is its completion; from its arrival, seconds.
fn completions(
    events: &[RunEvent],
    arrivals: &BTreeMap<String, f64>,
) -> Option<BTreeMap<String, f64>> {
    let Some(EventPayload::Summary { ok: true, .. }) = events.last().map(|e| &e.payload) else {
        return None;
    };
    let end = |name: &str| {
        let of = |e: &&RunEvent| matches!(&e.payload, EventPayload::Exit { task, .. } if task.as_str() == name);
        events.iter().rev().find(of).map(|e| e.time.get())
    };
    let all = arrivals.iter();
    all.map(|(name, at)| Some((name.clone(), end(name)? - at)))
        .collect()
}

/// From the last step before a training is stopped for other GPUs (or its checkpoint, if that is reported with the
/// step) until it is ready on them.
fn pauses(events: &[RunEvent]) -> Vec<f64> {
    let mut moves: BTreeMap<&str, bool> = BTreeMap::new();
    let mut trained: BTreeMap<&str, f64> = BTreeMap::new();
    let mut since: BTreeMap<&str, f64> = BTreeMap::new();
    let mut all = Vec::new();
    for event in events {
        let time = event.time.get();
        match &event.payload {
            EventPayload::Reshare { task, gpus, .. } => {
                moves.insert(task.as_str(), *gpus != Some(0));
            }
            EventPayload::Progress { task, .. } => {
                trained.insert(task.as_str(), time);
            }
            EventPayload::Exit { task, .. } if moves.get(task.as_str()) == Some(&true) => {
                since.extend(trained.get(task.as_str()).map(|at| (task.as_str(), *at)));
            }
            EventPayload::Ready { task, .. } => {
                all.extend(since.remove(task.as_str()).map(|at| time - at));
            }
            _ => {}
        }
    }
    all
}

/// Steps of progress never decrease; repeated ones show as a fall.
fn broken(events: &[RunEvent]) -> u64 {
    let mut at: BTreeMap<&str, u64> = BTreeMap::new();
    let mut broken = 0;
    for event in events {
        if let EventPayload::Progress { task, progress, .. } = &event.payload
            && let Some(step) = progress.step
        {
            let before = at.insert(task.as_str(), step).unwrap_or(0);
            broken += before.saturating_sub(step);
        }
    }
    broken
}
