//! Reports plans with several total shares, each measured: throughput as a function of R_v.

use doc::{Plan, Profile};

use super::compare::{self, Promise};
use super::pictures;
use crate::page::{Cell, Report, Table};

/// Predictions of plans, and the measurements of them in later profiles.
#[derive(Debug, Default)]
pub struct Sweep {
    promises: Vec<(Promise, Option<f64>)>,
    simulated: bool,
}

impl Sweep {
    /// Remembers a plan's prediction for its own choice.
    pub fn planned(&mut self, plan: &Plan) {
        let promise = compare::own(plan).filter(|p| p.total > 0.0);
        self.promises.extend(promise.map(|p| (p, None)));
    }

    /// Looks for measurements of the predicted choices in a profile.
    pub fn measured(&mut self, profile: &Profile) {
        for (promise, measured) in &mut self.promises {
            if let Some(sample) = compare::measured_as(promise, profile) {
                *measured = Some(sample.iter().map(|t| t.throughput.get()).sum());
                self.simulated |= profile.header.device.simulated;
            }
        }
    }

    /// Predicted and measured throughput over R_v, if at least two with different R_v were measured.
    pub fn report(self) -> Option<Report> {
        let each = self
            .promises
            .iter()
            .filter_map(|(p, measured)| Some((p.rv_percent(), p.total, (*measured)?)));
        let mut rows: Vec<(f64, f64, f64)> = each.collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        rows.dedup_by_key(|row| row.0);
        if rows.len() < 2 {
            return None;
        }
        let mut report = Report::new("Plans by their total share", None, self.simulated);
        pictures::sweep(&mut report, &rows);
        let mut table = Table::new("sweep", "Total throughput over the total virtual resource")
            .column("rv_percent", "sum of shares R_v", "%")
            .measured("predicted_samples_per_s", "predicted", "samples/s")
            .measured("measured_samples_per_s", "measured", "samples/s")
            .column("error_percent", "error", "%");
        for (rv, predicted, measured) in rows {
            table.rows.push(vec![
                Cell::Number(rv),
                Cell::Number(predicted),
                Cell::Number(measured),
                Cell::Number(100.0 * (predicted / measured - 1.0)),
            ]);
        }
        report.table(table);
        Some(report)
    }
}
