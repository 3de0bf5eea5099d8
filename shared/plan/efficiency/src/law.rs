use doc::{Efficiency, EfficiencyCurve, EfficiencyRow, Task};
use units::Batch;

use crate::level::{each, levelled};

/// Progress of a sample at each batch size, relative to the reference size, where it is 1.
///
/// By the gradient noise scale `phi` (McCandlish et al. 2018, equation 2.12 with D.1; Pollux, OSDI 2021,
/// equation 7), in samples, with reference size `B0`:
///
/// ```text
/// E(B) = (phi + B0) / (phi + B)
/// ```
///
/// It never rises with `B`, and never falls faster than `1 / B`: then a larger batch would make less progress
/// per *step* than a smaller one.
#[derive(Debug, Clone, PartialEq)]
pub struct Law {
    reference: f64,
    curve: Curve,
}

#[derive(Debug, Clone, PartialEq)]
enum Curve {
    NoiseScale {
        samples: f64,
        interval: Option<[f64; 2]>,
    },
    Table {
        rows: Rows,
        /// Logarithm of the progress per sample at the reference size.
        at_reference: f64,
        /// The rows at each end of their intervals.
        ends: Option<[Rows; 2]>,
    },
}

/// Logarithms of batch size and of progress per sample; sizes ascend, progress never rises.
type Rows = Vec<(f64, f64)>;

impl Law {
    /// The workload's declaration for a task; `None` if there is none.
    #[must_use]
    pub fn of_task(task: &Task) -> Option<Self> {
        let known = task.efficiency.as_ref()?;
        Some(Self::new(known, task.reference()))
    }

    /// An efficiency with a reference size.
    #[must_use]
    pub fn new(efficiency: &Efficiency, reference: Batch) -> Self {
        let curve = match &efficiency.curve {
            EfficiencyCurve::NoiseScale { samples, interval } => Curve::NoiseScale {
                samples: *samples,
                interval: *interval,
            },
            EfficiencyCurve::Progress(rows) => table(rows, reference, f64::ln),
            // A round trains on a fixed number of samples: progress per sample is one over rounds.
            EfficiencyCurve::Rounds(rows) => table(rows, reference, |rounds| -rounds.ln()),
        };
        Self {
            reference: reference.as_f64(),
            curve,
        }
    }

    /// The law of a noise scale (samples, above 0) without an interval.
    #[must_use]
    pub fn of_noise_scale(samples: f64, reference: Batch) -> Self {
        Self {
            reference: reference.as_f64(),
            curve: Curve::NoiseScale {
                samples,
                interval: None,
            },
        }
    }

    /// `E(B)`: progress of a sample at batch size `batch`, relative to the reference size.
    #[must_use]
    pub fn at(&self, batch: Batch) -> f64 {
        let b = batch.as_f64();
        match &self.curve {
            Curve::NoiseScale { samples, .. } => by_noise_scale(*samples, self.reference, b),
            Curve::Table {
                rows, at_reference, ..
            } => (progress(rows, b) - at_reference).exp(),
        }
    }

    /// The laws of the lower and of the upper end of the noise scale's interval, or of those of a table's rows; `None`
    /// if no interval is known.
    ///
    /// At an end of a table the progress stays relative to that of the reference size in the table itself: the rounds
    /// at the reference size have an error, too.
    #[must_use]
    pub fn ends(&self) -> Option<[Self; 2]> {
        let law = |curve| Self {
            reference: self.reference,
            curve,
        };
        match &self.curve {
            Curve::NoiseScale { interval, .. } => {
                let at = |samples| Curve::NoiseScale {
                    samples,
                    interval: None,
                };
                interval.map(|ends| ends.map(|samples| law(at(samples))))
            }
            Curve::Table {
                at_reference, ends, ..
            } => {
                let at = |rows| Curve::Table {
                    rows,
                    at_reference: *at_reference,
                    ends: None,
                };
                ends.clone().map(|ends| ends.map(|rows| law(at(rows))))
            }
        }
    }
}

/// The law of the noise scale; see [`Law`]. Every argument is above 0.
pub(crate) fn by_noise_scale(phi: f64, reference: f64, batch: f64) -> f64 {
    (phi + reference) / (phi + batch)
}

/// Rounds are whole numbers, so a table may rise slightly (`doc` bounds by how much). Rises are levelled, at each end
/// of the intervals separately: the fit is monotone in its values, so the ends stay on their sides of the table.
fn table(rows: &[EfficiencyRow], reference: Batch, log_progress: impl Fn(f64) -> f64) -> Curve {
    let level = |value: &dyn Fn(&EfficiencyRow) -> f64| -> Rows {
        let levels = levelled(rows.iter().map(|row| (log_progress(value(row)), 1)));
        let sizes = rows.iter().map(|row| row.batch.as_f64().ln());
        sizes.zip(each(&levels)).collect()
    };
    let levels = level(&|row| row.value);
    let known = !rows.is_empty() && rows.iter().all(|row| row.interval.is_some());
    let end = |k: usize| level(&|row| row.interval.map_or(row.value, |ends| ends[k]));
    Curve::Table {
        at_reference: progress(&levels, reference.as_f64()),
        ends: known.then(|| [end(0), end(1)]),
        rows: levels,
    }
}

/// Logarithm of the progress per sample at a batch size: linear between two rows in both logarithms, like the law on
/// either side of `phi`. Beyond the ends it takes the law's limits. Below the smallest size it is constant: noise
/// dominates and a sample is worth the same. Above the largest the slope is -1: noise is averaged out and further
/// samples of a batch add nothing, so this promises nothing that was not measured.
fn progress(rows: &[(f64, f64)], batch: f64) -> f64 {
    let x = batch.ln();
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return 0.0;
    };
    if x <= first.0 {
        return first.1;
    }
    if x >= last.0 {
        return last.1 - (x - last.0);
    }
    let above = rows.partition_point(|row| row.0 <= x);
    let ((x0, y0), (x1, y1)) = (rows[above - 1], rows[above]);
    y0 + (y1 - y0) * (x - x0) / (x1 - x0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use doc::EfficiencySource;

    fn batch(size: u64) -> Batch {
        Batch::new(size).unwrap()
    }

    fn row(size: u64, value: f64, interval: Option<[f64; 2]>) -> EfficiencyRow {
        EfficiencyRow {
            interval,
            ..EfficiencyRow::of(batch(size), value)
        }
    }

    fn rounds(rows: &[(u64, f64)], reference: u64) -> Law {
        let rows = rows.iter().map(|&(b, n)| row(b, n, None)).collect();
        let efficiency = Efficiency {
            curve: EfficiencyCurve::Rounds(rows),
            source: EfficiencySource::Declared,
        };
        Law::new(&efficiency, batch(reference))
    }

    #[test]
    fn the_law_is_the_one_of_the_paper() {
        // Measured on handwritten digits: rounds 4, 5, 5, 10, 20, 46; with phi = 29 the efficiency is 1, .82, .61,
        // .40, .24, .13.
        let law = Law::of_noise_scale(29.0, batch(8));
        for (size, wanted) in [
            (8, 1.0),
            (16, 0.822),
            (32, 0.607),
            (64, 0.398),
            (128, 0.236),
        ] {
            let found = law.at(batch(size));
            assert!((found - wanted).abs() < 5e-4, "{size}: {found}");
        }
        assert!((4.0 / law.at(batch(256)) - 30.8).abs() < 0.1);
    }

    #[test]
    fn a_table_goes_through_its_rows_and_takes_the_limits_of_the_law_beyond() {
        let law = rounds(&[(8, 4.0), (16, 5.0), (64, 10.0)], 16);
        for (size, wanted) in [
            (8, 1.25),
            (16, 1.0),
            (64, 0.5),
            // The geometric mean is the midpoint in logarithms.
            (32, 0.5_f64.sqrt()),
            (4, 1.25),
            (128, 0.25),
            (256, 0.125),
        ] {
            let found = law.at(batch(size));
            assert!((found - wanted).abs() < 1e-12, "{size}: {found}");
        }
        assert_eq!(law.ends(), None);
    }

    #[test]
    fn rounds_that_rise_by_their_noise_are_levelled() {
        // Measured on satellite images.
        let law = rounds(&[(8, 4.0), (16, 3.0), (32, 3.0), (64, 4.5), (128, 10.0)], 8);
        let level = (law.at(batch(8)), law.at(batch(16)), law.at(batch(32)));
        assert_eq!(level, (1.0, 1.0, 1.0));
        let wanted = 36.0_f64.cbrt() / 4.5;
        assert!((law.at(batch(64)) - wanted).abs() < 1e-12);
    }

    #[test]
    fn an_interval_of_the_noise_scale_is_one_of_the_efficiency() {
        let efficiency = Efficiency {
            curve: EfficiencyCurve::NoiseScale {
                samples: 60.0,
                interval: Some([30.0, 120.0]),
            },
            source: EfficiencySource::Measured,
        };
        let law = Law::new(&efficiency, batch(32));
        for size in [8, 128] {
            let value = law.at(batch(size));
            let mut ends = law.ends().unwrap().map(|end| end.at(batch(size)));
            ends.sort_by(f64::total_cmp);
            let [low, high] = ends;
            assert!(low < value && value < high, "{size}: {low} {value} {high}");
        }
    }

    #[test]
    fn an_interval_of_rows_is_one_of_the_rounds_at_every_size() {
        let rows = vec![
            row(16, 4.0, Some([2.0, 6.0])),
            // Fewer rounds than at 16, at the upper end only.
            row(32, 4.0, Some([3.0, 5.0])),
            row(64, 8.0, Some([8.0, 16.0])),
        ];
        let efficiency = Efficiency {
            curve: EfficiencyCurve::Rounds(rows),
            source: EfficiencySource::Declared,
        };
        let law = Law::new(&efficiency, batch(16));
        let ends = law.ends().unwrap();
        let rounds = |law: &Law, size| 4.0 / law.at(batch(size));
        let level = 30.0_f64.sqrt();
        for (size, low, high) in [
            (8, 2.0, level),
            // The reference size has its own error.
            (16, 2.0, level),
            (32, 3.0, level),
            (64, 8.0, 16.0),
            (128, 16.0, 32.0),
        ] {
            let found = ends.each_ref().map(|end| rounds(end, size));
            for (found, wanted) in found.into_iter().zip([low, high]) {
                assert!((found / wanted - 1.0).abs() < 1e-12, "{size}: {found}");
            }
        }
        assert_eq!(ends[0].ends(), None);
    }
}
