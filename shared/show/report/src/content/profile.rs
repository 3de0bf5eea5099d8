use doc::{DesignKind, Plan, Profile, Sample, StopReason};
use units::{SamplesPerSec, Share, TotalShare};

use super::workload::fingerprint;
use super::{compare, pictures};
use crate::number::plain;
use crate::page::{Cell, Report, Table};

/// Number of best co-runs shown.
const BEST: usize = 5;

/// Reports a profile: its cost, solo runs and best co-runs, compared with a plan if there is one.
pub fn report(profile: &Profile, plan: Option<&Plan>) -> Report {
    let header = &profile.header;
    let id = header.workload.id.as_deref();
    let mut report = Report::new("Profile", id, header.device.simulated);
    report.fact("device", fingerprint(&header.device));
    report.fact("configurations", configurations(profile));
    if let Some(end) = &profile.end {
        let device_time = format!("{:.1} s", end.cost.get());
        let label = if header.device.simulated {
            "simulated time"
        } else {
            "device time"
        };
        report.fact(label, device_time);
    }
    let plan = plan.filter(|p| compare::concerns(p, profile));
    let verdict = plan.and_then(|p| p.feasible()?.verdict.as_ref());
    if let Some(found) = verdict.zip(profile.end.as_ref())
        && let Some(paid) = found.0.pay_off(found.1.cost)
    {
        report.fact("paid", paid.to_string());
    }
    if let Some(used) = utilisation(profile) {
        report.fact("GPU utilisation", used);
    }
    report.fact("seed", header.seed.to_string());
    let noise_scales: Vec<String> = profile
        .end
        .iter()
        .flat_map(|end| &end.noise_scales)
        .map(|n| format!("{} {} ± {}", n.id, plain(n.samples), plain(n.stderr)))
        .collect();
    if !noise_scales.is_empty() {
        report.fact("gradient noise scale, samples", noise_scales.join(", "));
    }
    if let Some(plan) = plan {
        compare::add(&mut report, plan, profile);
    }
    pictures::of_profile(&mut report, profile, plan);
    report.table(alone(profile));
    if header.design != DesignKind::Given {
        report.table(best(profile));
    }
    report.table(failures(profile));
    report.table(samples(profile));
    report
}

fn configurations(profile: &Profile) -> String {
    let design = match profile.header.design {
        DesignKind::Grid => "on a grid",
        DesignKind::Random => "drawn at random",
        DesignKind::Adaptive => "chosen one after another",
        DesignKind::Given => "given",
        DesignKind::Imported => "imported",
    };
    let solo = profile
        .samples
        .iter()
        .filter(|s| s.tasks.len() == 1)
        .count();
    let all = profile.samples.len();
    let stopped = match profile.end.as_ref().map(|end| end.stopped) {
        None => "; stopped half-way",
        Some(StopReason::Complete) => "",
        Some(StopReason::Budget) => "; the budget was used up",
        Some(StopReason::Tolerance) => "; another co-run was not expected to gain enough",
        Some(StopReason::Failure) => "; a task failed alone",
    };
    let failed = match profile.failures.len() {
        0 => String::new(),
        n => format!(", {n} failed"),
    };
    format!("{all} {design} ({solo} of one task alone){failed}{stopped}")
}

/// GPU utilisation, the fraction of the time in which a kernel ran: means over solo runs and over
/// co-runs.
fn utilisation(profile: &Profile) -> Option<String> {
    let mean = |alone: bool| {
        let samples = profile.samples.iter();
        let values: Vec<f64> = samples
            .filter(|s| (s.tasks.len() == 1) == alone)
            .filter_map(|s| s.gpu.as_ref()?.utilisation_percent)
            .collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        mean.is_finite().then(|| format!("{mean:.0} %"))
    };
    match (mean(true), mean(false)) {
        (None, None) => None,
        (Some(alone), None) => Some(format!("{alone} with one task")),
        (None, Some(together)) => Some(format!("{together} with tasks together")),
        (Some(alone), Some(together)) => Some(format!(
            "{alone} with one task, {together} with tasks together (means)"
        )),
    }
}

fn alone(profile: &Profile) -> Table {
    let mut table = Table::new("alone", "Tasks alone on the whole device")
        .column("task", "task", "")
        .column("batch", "batch", "samples")
        .measured("throughput", "throughput", "samples/s")
        .measured("stderr", "standard error", "samples/s");
    for sample in &profile.samples {
        if let [run] = &sample.tasks[..]
            && run.share == Share::FULL
        {
            table.rows.push(vec![
                run.id.as_str().into(),
                Cell::Count(u64::from(run.batch.get())),
                Cell::Number(run.throughput.get()),
                Cell::number(run.stderr.map(SamplesPerSec::get)),
            ]);
        }
    }
    table.rows.sort_by_key(|row| {
        let id = match &row[0] {
            Cell::Text(id) => profile
                .header
                .workload
                .tasks
                .iter()
                .position(|t| t.id.as_str() == id),
            _ => None,
        };
        (id, row[1].value().map(|b| b as u64))
    });
    table.without_empty_columns()
}

/// The settings of a configuration as text: `a 64 at 60 %`.
fn setting(sample: &Sample) -> String {
    let runs = sample
        .tasks
        .iter()
        .map(|t| format!("{} {} at {} %", t.id, t.batch, t.share.percent()));
    runs.collect::<Vec<_>>().join("; ")
}

fn total(sample: &Sample) -> f64 {
    sample.tasks.iter().map(|t| t.throughput.get()).sum()
}

fn best(profile: &Profile) -> Table {
    let everyone = profile.header.workload.tasks.len();
    let mut together: Vec<&Sample> = profile
        .samples
        .iter()
        .filter(|s| s.tasks.len() == everyone && everyone > 1)
        .collect();
    together.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let title = format!(
        "Highest total throughput of all tasks together ({} such co-runs)",
        together.len()
    );
    let mut table = Table::new("best", title)
        .column("config", "configuration", "")
        .column("setting", "task, batch size, share", "")
        .column("rv_percent", "sum of shares", "%")
        .measured("total_throughput", "total", "samples/s");
    for sample in together.into_iter().take(BEST) {
        let sum: TotalShare = sample.tasks.iter().map(|t| t.share).sum();
        table.rows.push(vec![
            Cell::Count(sample.config),
            setting(sample).into(),
            Cell::Number(sum.percent()),
            Cell::Number(total(sample)),
        ]);
    }
    table
}

fn failures(profile: &Profile) -> Table {
    let mut table = Table::new("failures", "Configurations that could not be measured")
        .column("config", "configuration", "")
        .column("setting", "task, batch size, share", "")
        .column("reason", "reason", "");
    for failure in &profile.failures {
        let runs = failure
            .tasks
            .iter()
            .map(|t| format!("{} {} at {} %", t.id, t.batch, t.share.percent()));
        let setting = runs.collect::<Vec<_>>().join("; ");
        let cells = vec![
            Cell::Count(failure.config),
            setting.into(),
            failure.reason.clone().into(),
        ];
        table.rows.push(cells);
    }
    table
}

/// Every sample, with the columns that `mt-profile --import` reads.
fn samples(profile: &Profile) -> Table {
    let mut table = Table::new("samples", "Samples")
        .column("config", "configuration", "")
        .column("task", "task", "")
        .column("batch", "batch", "samples")
        .column("share_percent", "share", "%")
        .measured("throughput", "throughput", "samples/s")
        .measured("stderr", "standard error", "samples/s");
    let metered = profile.samples.iter().any(|s| s.gpu.is_some());
    if metered {
        table = table
            .measured("memory_bytes", "device memory", "bytes")
            .measured("gpu_utilisation_percent", "GPU utilisation", "%")
            .measured("sm_active_percent", "SMs with work", "%")
            .measured("sm_occupancy_percent", "SM occupancy", "%");
    }
    for sample in &profile.samples {
        let gpu = sample.gpu.clone().unwrap_or_default();
        let memory = gpu.tasks_memory_bytes.unwrap_or_default();
        for (task, run) in sample.tasks.iter().enumerate() {
            let mut cells = vec![
                Cell::Count(sample.config),
                run.id.as_str().into(),
                Cell::Count(u64::from(run.batch.get())),
                Cell::Number(run.share.percent()),
                Cell::Number(run.throughput.get()),
                Cell::number(run.stderr.map(SamplesPerSec::get)),
            ];
            if metered {
                cells.extend([
                    Cell::number(memory.get(task).map(|&bytes| bytes as f64)),
                    Cell::number(gpu.utilisation_percent),
                    Cell::number(gpu.sm_active_percent),
                    Cell::number(gpu.sm_occupancy_percent),
                ]);
            }
            table.rows.push(cells);
        }
    }
    table.long = true;
    table
}
