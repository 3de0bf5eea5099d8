//! Predictions of a model for the configurations of a table, as rows for other programs.

use std::io::BufRead;

use doc::Model;
use predict::Predictor;
use serde::Serialize;
use units::corun::{Setting, Throughput as _};

use crate::DesignError;
use crate::table::{self, Throughput};

/// Half width of a 95 % interval in standard deviations, as in a plan.
const INTERVAL: f64 = 1.96;

/// One task of one configuration, in samples per second.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Predicted {
    /// Name of the model's workload; empty if it has none.
    pub device: String,
    /// The configuration's label in the table.
    pub config: String,
    /// Name of the task.
    pub task: String,
    /// Batch size.
    pub batch: u32,
    /// Share in percent of the device.
    pub share_percent: f64,
    /// Throughput while the tasks of the configuration run.
    pub samples_per_s: f64,
    /// Lower end of the 95 % interval, 0 or more.
    pub low_samples_per_s: f64,
    /// Upper end of the 95 % interval.
    pub high_samples_per_s: f64,
    /// Throughput alone on the whole device, at the same batch size.
    pub solo_samples_per_s: f64,
    /// Why the configuration lies outside the measured domain; empty if it does not.
    pub outside: String,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowForm {
    /// Comma-separated, with a heading.
    Csv,
    /// One JSON object per line.
    Json,
}

/// Predictions for every configuration of a table, and messages about the table.
///
/// # Errors
/// [`DesignError`] with every fault of the table, or for an invalid model.
pub fn ask(
    model: &Model,
    table: impl BufRead,
    source: &str,
) -> Result<(Vec<Predicted>, Vec<String>), DesignError> {
    let workload = &model.workload;
    let read = table::read(table, source, workload, Throughput::Ignored)?;
    let predictor = Predictor::from_model(model).map_err(DesignError::NoPredictor)?;
    let mut rows = Vec::new();
    for (runs, label) in read.configurations.iter().zip(&read.labels) {
        let settings: Vec<Setting> = runs
            .iter()
            .map(|r| Setting {
                task: r.task,
                batch: r.batch,
                share: r.share,
            })
            .collect();
        let mut means = vec![0.0; settings.len()];
        predictor.means(&settings, &mut means);
        let errors = predictor.std_errors(&settings);
        let outside = predictor.outside(&settings);
        let name = |i: usize| workload.tasks[i].id.to_string();
        for (k, s) in settings.iter().enumerate() {
            let of_this = outside.iter().filter(|o| o.concerns(s.task));
            let reasons: Vec<String> = of_this.map(|o| o.reason(name)).collect();
            rows.push(Predicted {
                device: workload.id.clone().unwrap_or_default(),
                config: label.clone(),
                task: name(s.task),
                batch: s.batch.get(),
                share_percent: s.share.percent(),
                samples_per_s: means[k],
                low_samples_per_s: (means[k] - INTERVAL * errors[k]).max(0.0),
                high_samples_per_s: means[k] + INTERVAL * errors[k],
                solo_samples_per_s: predictor.solo(s.task, s.batch),
                outside: reasons.join("; "),
            });
        }
    }
    let notes = read.notes.into_iter().map(|n| format!("{source}: {n}"));
    Ok((rows, notes.collect()))
}

/// The rows as text. With `heading`, CSV begins with the column names.
///
/// # Errors
/// [`DesignError::Table`] if a row cannot be written; valid predictions never cause this.
pub fn rows_text(rows: &[Predicted], form: RowForm, heading: bool) -> Result<String, DesignError> {
    let failed = |error: String| DesignError::Table(error);
    let mut bytes = Vec::new();
    match form {
        RowForm::Csv => {
            let mut table = csv::WriterBuilder::new()
                .has_headers(heading)
                .from_writer(&mut bytes);
            for row in rows {
                table.serialize(row).map_err(|e| failed(e.to_string()))?;
            }
            table.flush().map_err(|e| failed(e.to_string()))?;
        }
        RowForm::Json => {
            for row in rows {
                serde_json::to_writer(&mut bytes, row).map_err(|e| failed(e.to_string()))?;
                bytes.push(b'\n');
            }
        }
    }
    String::from_utf8(bytes).map_err(|e| failed(e.to_string()))
}
