//! Writes the activity of the simulated GPU for a trace viewer and for a spreadsheet.

use std::fmt::Write;

use doc::Workload;
use gpusim::Trace;
use units::corun::Setting;

/// The trace of a configuration as Chrome trace events (which Perfetto opens), and the SM occupancy
/// over time as CSV.
#[must_use]
pub fn texts(trace: &Trace, workload: &Workload, configuration: &[Setting]) -> (String, String) {
    let names: Vec<String> = configuration
        .iter()
        .map(|run| {
            let id = &workload.tasks[run.task].id;
            format!("{id} (batch {}, {})", run.batch, run.share)
        })
        .collect();
    let ids = configuration
        .iter()
        .map(|run| workload.tasks[run.task].id.as_str());
    (events(trace, &names), occupancy(trace, ids))
}

/// Trace Event Format in JSON object form, with a thread for each task and a counter of SMs. Task
/// names need no escaping.
fn events(trace: &Trace, names: &[String]) -> String {
    let mut text = String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    text +=
        "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"simulated GPU\"}}";
    for (task, name) in names.iter().enumerate() {
        // Writing to a string cannot fail.
        write!(
            text,
            ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{task},\"args\":{{\"name\":\"{name}\"}}}}"
        )
        .ok();
    }
    for span in &trace.kernels {
        write!(
            text,
            ",\n{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3},\"dur\":{:.3},\"args\":{{\"held_sms\":{:.2},\"active_sms\":{:.2}}}}}",
            span.kind.as_str(),
            span.task,
            span.start_us,
            span.end_us - span.start_us,
            span.held_sms,
            span.active_sms
        )
        .ok();
    }
    for point in &trace.occupancy {
        let held: f64 = point.held_sms.iter().sum();
        let active: f64 = point.active_sms.iter().sum();
        write!(
            text,
            ",\n{{\"name\":\"SMs\",\"ph\":\"C\",\"pid\":1,\"ts\":{:.3},\"args\":{{\"active\":{active:.2},\"idle but held\":{:.2}}}}}",
            point.start_us,
            (held - active).max(0.0)
        )
        .ok();
    }
    text += "\n]}\n";
    text
}

/// CSV with a row for each change of occupancy: time in microseconds, then for each task the SMs
/// that it holds and those that work for it.
fn occupancy<'a>(trace: &Trace, ids: impl Iterator<Item = &'a str>) -> String {
    let mut text = String::from("start_us");
    for id in ids {
        write!(text, ",{id}_held_sms,{id}_active_sms").ok();
    }
    text.push('\n');
    for point in &trace.occupancy {
        write!(text, "{:.3}", point.start_us).ok();
        for (held, active) in point.held_sms.iter().zip(&point.active_sms) {
            write!(text, ",{held:.2},{active:.2}").ok();
        }
        text.push('\n');
    }
    text
}
