//! Writes Chrome trace JSON, which Perfetto and chrome://tracing open.

use serde::Serialize;

use crate::RenderError;
use crate::page::{Report, Track};

#[derive(Serialize)]
struct Trace<'a> {
    #[serde(rename = "traceEvents")]
    events: Vec<Event<'a>>,
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
}

/// One event; `ph` is its kind: `X` a slice, `C` a counter, `M` a name.
#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    ph: &'static str,
    pid: usize,
    tid: usize,
    /// Start in microseconds.
    ts: f64,
    /// Length in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Arguments<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Arguments<'a> {
    Name(String),
    Value(f64),
    Task(&'a str),
}

/// Each report becomes one process for the planned and one for the measured tracks. A task is a thread, a phase is a
/// slice, and a throughput is a counter.
pub fn perfetto(reports: &[Report]) -> Result<String, RenderError> {
    let mut events = Vec::new();
    let mut pid = 0;
    for report in reports {
        for group in ["planned", "measured"] {
            let tracks: Vec<&Track> = report.tracks.iter().filter(|t| t.group == group).collect();
            if tracks
                .iter()
                .any(|t| !t.slices.is_empty() || !t.counters.is_empty())
            {
                pid += 1;
                process(
                    pid,
                    format!("{}: {group}", report.title),
                    &tracks,
                    &mut events,
                );
            }
        }
    }
    if events.is_empty() {
        return Err(RenderError::NothingOverTime);
    }
    let trace = Trace { events, unit: "ms" };
    let mut text = serde_json::to_string(&trace)?;
    text.push('\n');
    Ok(text)
}

fn process<'a>(pid: usize, name: String, tracks: &[&'a Track], events: &mut Vec<Event<'a>>) {
    let event = |name, ph, tid, ts, dur, args| Event {
        name,
        ph,
        pid,
        tid,
        ts,
        dur,
        args,
    };
    let title = Some(Arguments::Name(name));
    events.push(event("process_name", "M", 0, 0.0, None, title));
    let mut threads: Vec<&str> = Vec::new();
    for track in tracks {
        let known = threads.iter().position(|t| *t == track.name);
        let tid = 1 + known.unwrap_or(threads.len());
        if known.is_none() {
            threads.push(&track.name);
            let title = Some(Arguments::Name(track.name.clone()));
            events.push(event("thread_name", "M", tid, 0.0, None, title));
        }
        for (name, start, end) in &track.slices {
            let task = Some(Arguments::Task(&track.name));
            let (start, length) = (start * 1e6, (end - start) * 1e6);
            events.push(event(name, "X", tid, start, Some(length), task));
        }
        for (_, time, value) in &track.counters {
            let value = Some(Arguments::Value(*value));
            events.push(event(&track.name, "C", tid, time * 1e6, None, value));
        }
    }
}
