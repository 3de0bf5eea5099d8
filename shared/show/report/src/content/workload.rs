use doc::{
    DeviceFingerprint, DeviceKind, Duplex, Efficiency, EfficiencyCurve, EfficiencySource, GpuSpec,
    Link, Workload,
};
use units::Bytes;

use super::words::listed;
use crate::number::{bandwidth, bytes, plain};
use crate::page::{Cell, Report, Table};

/// Reports a workload: its device, link and tasks.
pub fn report(workload: &Workload) -> Report {
    let mut report = Report::new("Workload", workload.id.as_deref(), false);
    report.fact("device", device(workload));
    if let Some(memory) = workload.device.memory {
        report.fact("memory", bytes(memory.get()));
    }
    report.fact(
        "link",
        workload
            .link
            .map_or("none: transfers take no time".to_owned(), link),
    );
    report.table(tasks(workload));
    report
}

/// The device that a workload requests.
fn device(workload: &Workload) -> String {
    let kind = match workload.device.kind {
        DeviceKind::Auto => "auto",
        DeviceKind::Sim => "simulator",
        DeviceKind::Cpu => "cpu",
        DeviceKind::Cuda => "cuda",
        DeviceKind::Replay => "replay",
    };
    let gpu = match &workload.device.gpu {
        None => String::new(),
        Some(GpuSpec::Named(name)) => format!(", {name}"),
        Some(GpuSpec::Described(gpu)) => format!(", {}", gpu.name),
    };
    match workload.device.gpus {
        1 => format!("{kind}{gpu}"),
        n => format!("{kind}, {n} GPUs{gpu}"),
    }
}

/// Name of the device that produced the numbers, and whether it is simulated.
pub fn fingerprint(device: &DeviceFingerprint) -> String {
    let units = device
        .units
        .map_or(String::new(), |n| format!(", {n} units"));
    let noise = device
        .noise_percent
        .as_ref()
        .map_or(String::new(), |n| format!(", with {n} % noise"));
    let how = if device.simulated { "simulated " } else { "" };
    format!("{how}{}{units}{noise}", device.name)
}

/// A link in words.
pub fn link(link: Link) -> String {
    let duplex = match link.duplex {
        Duplex::Full => "one transfer at a time each way",
        Duplex::Half => "one transfer at a time in all",
        Duplex::Shared => "transfers of one direction share it",
    };
    format!(
        "{} down, {} up, {duplex}",
        bandwidth(link.down.get()),
        bandwidth(link.up.get())
    )
}

/// The known efficiency of batch sizes, as text.
pub fn efficiency(known: &Efficiency) -> String {
    let source = match known.source {
        EfficiencySource::Declared => "declared",
        EfficiencySource::Measured => "measured",
        EfficiencySource::Learnt => "learnt",
    };
    let curve = match &known.curve {
        EfficiencyCurve::NoiseScale { samples, interval } => {
            let around = interval.map_or(String::new(), |[low, high]| {
                format!(" ({} to {})", plain(low), plain(high))
            });
            format!("noise scale {}{around}", plain(*samples))
        }
        EfficiencyCurve::Progress(rows) | EfficiencyCurve::Rounds(rows) => {
            let known = rows.iter().any(|row| row.interval.is_some());
            let around = if known { " with intervals" } else { "" };
            format!("{} batch sizes{around}", rows.len())
        }
    };
    format!("{curve}, {source}")
}

fn tasks(workload: &Workload) -> Table {
    let mut table = Table::new("tasks", "Tasks")
        .column("task", "task", "")
        .column("model", "model", "")
        .column("batch_sizes", "batch sizes", "samples")
        .column("reference_batch", "reference", "samples")
        .column("efficiency", "efficiency", "")
        .column("rounds_to_target", "to target", "rounds")
        .column("samples", "per round", "samples")
        .column("download_mb", "download", "MB")
        .column("upload_mb", "upload", "MB")
        .column("weight", "weight", "");
    let mb = |b: Bytes| b.get() as f64 / 1e6;
    for task in &workload.tasks {
        let what = task.model.clone().or_else(|| {
            let program = task.job.as_ref().map(|j| j.argv.join(" "));
            program.or_else(|| Some(format!("{} layers", task.layers.len())))
        });
        table.rows.push(vec![
            task.id.as_str().into(),
            Cell::text(what),
            listed(&task.batch_sizes).into(),
            Cell::count(task.batch.map(|b| u64::from(b.get()))),
            Cell::text(task.efficiency.as_ref().map(efficiency)),
            Cell::number(task.rounds_at_reference()),
            Cell::count(task.samples.map(units::Samples::get)),
            Cell::number(task.update_bytes.map(|b| mb(b.down))),
            Cell::number(task.update_bytes.map(|b| mb(b.up))),
            Cell::number(task.weight.map(units::Weight::get)),
        ]);
    }
    table.without_empty_columns()
}
