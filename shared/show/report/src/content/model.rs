use doc::Model;
use doc::params::{Evidence, ModelParams, Validation};

use super::workload::fingerprint;
use crate::number::plain;
use crate::page::{Cell, Report, Table};

/// Reports a model: its family, its data, and its accuracy.
pub fn report(model: &Model) -> Report {
    let simulated = model.device.simulated;
    let mut report = Report::new("Model", model.workload.id.as_deref(), simulated);
    let params = &model.predictor;
    report.fact("fitted to", fingerprint(&model.device));
    report.fact("family", doc::name_of(&params.method));
    let most = params.domain.most_together;
    let learnt = params.domain.configurations;
    report.fact(
        "learnt from",
        format!("{learnt} configurations of up to {most} tasks"),
    );
    report.fact("error of the total", accuracy(&params.validation));
    if let Some(coverage) = params.validation.coverage_90 {
        let percent = plain(100.0 * coverage);
        report.fact(
            "90 % intervals hold",
            format!("{percent} % of the held-out throughputs"),
        );
    }
    if let Some(law) = &params.workload_law {
        let gamma0 = plain(law.gamma0_s * 1e3);
        let gamma1 = plain(law.gamma1_s * 1e12);
        let (alpha, beta) = (plain(law.alpha), plain(law.beta));
        let text = format!(
            "step of {gamma0} ms + {gamma1} ps for each unit of {alpha} FLOP + {beta} bytes"
        );
        report.fact("law of workload", text);
    }
    report.table(kinds(&params.validation));
    report.table(tasks(params));
    report.table(families(&params.validation));
    report.table(solo(params));
    report
}

fn accuracy(validation: &Validation) -> String {
    match validation.total_error_percent {
        None => "unknown: too few measurements to hold some out".to_owned(),
        Some(error) => format!(
            "{} % on configurations left out, mean of {} parts",
            plain(error),
            validation.folds
        ),
    }
}

fn tasks(params: &ModelParams) -> Table {
    let mut table = Table::new("tasks", "Each task")
        .column("task", "task", "")
        .measured("error_percent", "error on held-out data", "%")
        .column("evidence", "measured", "")
        .column("batch_from", "batch from", "samples")
        .column("batch_to", "to", "samples")
        .column("share_from_percent", "share from", "%")
        .column("share_to_percent", "to", "%");
    for task in &params.tasks {
        let evidence = match task.evidence {
            Evidence::Together => "with others",
            Evidence::Alone => "alone only",
            Evidence::Nothing => "never",
        };
        table.rows.push(vec![
            task.id.clone().into(),
            Cell::number(task.error_percent),
            evidence.into(),
            Cell::count(task.batch_range.map(|r| r.0)),
            Cell::count(task.batch_range.map(|r| r.1)),
            Cell::number(task.share_range_percent.map(|r| r.0)),
            Cell::number(task.share_range_percent.map(|r| r.1)),
        ]);
    }
    table.without_empty_columns()
}

fn kinds(validation: &Validation) -> Table {
    let mut table = Table::new(
        "kinds",
        "Error by distance from the measured configurations",
    )
    .column("kind", "configurations with", "")
    .measured("error_percent", "error of a throughput", "%")
    .column("cases", "left out", "")
    .column("parts", "in parts", "");
    for e in &validation.kinds {
        table.rows.push(vec![
            e.kind.words().into(),
            Cell::Number(e.error_percent),
            Cell::count(Some(e.cases)),
            Cell::count(Some(u64::from(e.parts))),
        ]);
    }
    table
}

fn families(validation: &Validation) -> Table {
    let mut table = Table::new("families", "Families that were tried")
        .column("family", "family", "")
        .measured("total_error_percent", "error of the total", "%");
    for family in &validation.families {
        let error = Cell::Number(family.total_error_percent);
        table
            .rows
            .push(vec![doc::name_of(&family.method).into(), error]);
    }
    table
}

fn solo(params: &ModelParams) -> Table {
    let mut table = Table::new("solo", "Alone on the whole device")
        .column("task", "task", "")
        .column("batch", "batch", "samples")
        .measured("step_ms", "step", "ms")
        .measured("samples_per_s", "throughput", "samples/s");
    for task in &params.tasks {
        for step in &task.solo {
            table.rows.push(vec![
                task.id.clone().into(),
                Cell::Count(step.batch),
                Cell::Number(step.step_s * 1e3),
                Cell::Number(step.batch as f64 / step.step_s),
            ]);
        }
    }
    table
}
