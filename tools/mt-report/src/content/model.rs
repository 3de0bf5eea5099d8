use doc::Model;

use super::word;
use super::workload::fingerprint;
use crate::report::Report;

/// A model: its family, on what it was fitted, and how well it predicts.
pub fn report(model: &Model) -> Report {
    let simulated = model.device.simulated;
    let mut report = Report::new("Model", model.workload.id.as_deref(), simulated);
    report.fact("fitted to", fingerprint(&model.device));
    report.fact("family", word(model.predictor.method));
    report
}
