use units::{Batch, shown};

use crate::checker::positive;
use crate::wire;
use crate::{Checker, Code, EfficiencySource};

/// Largest accepted ratio of progress per sample between a larger batch size and a smaller one. In theory the
/// ratio never exceeds 1. But rounds are whole numbers, so real tables rise a little: two of three data sets
/// did, by at most 1.33 (4 rounds at batch size 8, 3 at 16). A larger ratio points to a typing error or to a
/// learning rate that was not tuned.
const LARGEST_RISE: f64 = 1.5;

/// Value of a sample at each batch size, and where the values come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Efficiency {
    /// The values: a law or a table.
    pub curve: EfficiencyCurve,
    /// Where the values come from.
    pub source: EfficiencySource,
}

/// Progress per sample as a function of batch size.
#[derive(Debug, Clone, PartialEq)]
pub enum EfficiencyCurve {
    /// Law of the gradient noise scale, which is above 0 and at most 10^9 samples.
    NoiseScale {
        /// The noise scale `phi` in samples.
        samples: f64,
        /// 95 % confidence interval: positive, around `samples`.
        interval: Option<[f64; 2]>,
    },
    /// Table of relative progress per sample: at least two batch sizes, ascending; progress above 0.
    Progress(Vec<EfficiencyRow>),
    /// Table of rounds until the target: at least two batch sizes, ascending; rounds above 0.
    Rounds(Vec<EfficiencyRow>),
}

/// One batch size in a table of efficiency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EfficiencyRow {
    /// Batch size.
    pub batch: Batch,
    /// Progress per sample, or rounds.
    pub value: f64,
    /// 95 % interval for one more training at this size: positive, around `value`; known for all rows or for none.
    pub interval: Option<[f64; 2]>,
}

impl EfficiencyRow {
    /// A row without an interval.
    #[must_use]
    pub fn of(batch: Batch, value: f64) -> Self {
        Self {
            batch,
            value,
            interval: None,
        }
    }
}

/// The first pair of rows that no valid table has: progress per sample rises by more than [`LARGEST_RISE`].
fn rise(progress: &[f64]) -> Option<(usize, usize)> {
    (1..progress.len()).find_map(|large| {
        let least = (0..large).min_by(|a, b| progress[*a].total_cmp(&progress[*b]))?;
        (progress[large] > LARGEST_RISE * progress[least]).then_some((least, large))
    })
}

impl Efficiency {
    /// Largest plausible noise scale, in samples. The largest known one is about 10^7 (Dota 2; McCandlish et al.
    /// 2018, figure 4); beyond 10^9 no batch size makes a difference.
    pub const LARGEST_NOISE_SCALE: f64 = 1e9;
    /// Maximum number of rows of a table: as many as a task may have batch sizes.
    pub const MOST_ROWS: usize = 64;

    /// Whether the efficiency is given by a table.
    #[must_use]
    pub fn is_table(&self) -> bool {
        !matches!(self.curve, EfficiencyCurve::NoiseScale { .. })
    }

    /// The rows of a table; none for a noise scale.
    #[must_use]
    pub fn rows(&self) -> &[EfficiencyRow] {
        match &self.curve {
            EfficiencyCurve::NoiseScale { .. } => &[],
            EfficiencyCurve::Progress(rows) | EfficiencyCurve::Rounds(rows) => rows,
        }
    }

    pub(crate) fn from_wire(wire: &wire::Efficiency, c: &mut Checker) -> Option<Self> {
        let curve = match (wire.noise_scale, wire.table.as_slice()) {
            (Some(samples), []) => noise_scale(samples, wire.interval, c),
            (None, rows @ [_, ..]) => {
                if wire.interval.is_some() {
                    c.field("interval", |c| {
                        let problem = "it belongs to `noise_scale`, which is not given";
                        c.fault(Code::Conflict, problem, "remove it");
                    });
                }
                table(rows, c)
            }
            (scale, _) => {
                let problem = match scale {
                    Some(_) => "`noise_scale` and `table` are both given",
                    None => "neither `noise_scale` nor `table` is given",
                };
                let advice = "give one: {\"noise_scale\": 120}, or {\"table\": [{\"batch\": 8, \
                              \"rounds\": 4}, {\"batch\": 64, \"rounds\": 10}]}";
                c.fault(Code::Conflict, problem, advice);
                None
            }
        };
        Some(Self {
            curve: curve?,
            source: wire.source,
        })
    }

    pub(crate) fn to_wire(&self) -> wire::Efficiency {
        let empty = wire::Efficiency {
            source: self.source,
            ..wire::Efficiency::default()
        };
        let row = |r: &EfficiencyRow| wire::EfficiencyRow {
            batch: u64::from(r.batch.get()),
            progress: None,
            rounds: None,
            interval: r.interval,
        };
        match &self.curve {
            EfficiencyCurve::NoiseScale { samples, interval } => wire::Efficiency {
                noise_scale: Some(*samples),
                interval: *interval,
                ..empty
            },
            EfficiencyCurve::Progress(rows) => wire::Efficiency {
                table: rows
                    .iter()
                    .map(|r| wire::EfficiencyRow {
                        progress: Some(r.value),
                        ..row(r)
                    })
                    .collect(),
                ..empty
            },
            EfficiencyCurve::Rounds(rows) => wire::Efficiency {
                table: rows
                    .iter()
                    .map(|r| wire::EfficiencyRow {
                        rounds: Some(r.value),
                        ..row(r)
                    })
                    .collect(),
                ..empty
            },
        }
    }
}

fn noise_scale(
    samples: f64,
    interval: Option<[f64; 2]>,
    c: &mut Checker,
) -> Option<EfficiencyCurve> {
    if !(samples > 0.0 && samples <= Efficiency::LARGEST_NOISE_SCALE) {
        c.field("noise_scale", |c| {
            let advice = "give samples, above 0 and at most 1e9; if you do not know it, leave `efficiency` out";
            let problem = format_args!("{} is not a noise scale", shown(samples));
            c.fault(Code::OutOfRange, problem, advice);
        });
        return None;
    }
    if let Some([low, high]) = interval
        && !(low > 0.0 && low <= samples && samples <= high && high <= units::MOST)
    {
        c.field("interval", |c| {
            let problem = format_args!(
                "{} to {} is not an interval around {samples}",
                shown(low),
                shown(high)
            );
            let advice = "give [low, high] with 0 < low <= noise_scale <= high";
            c.fault(Code::OutOfRange, problem, advice);
        });
        return None;
    }
    Some(EfficiencyCurve::NoiseScale { samples, interval })
}

fn table(wire: &[wire::EfficiencyRow], c: &mut Checker) -> Option<EfficiencyCurve> {
    if wire.len() < 2 || wire.len() > Efficiency::MOST_ROWS {
        let code = if wire.len() < 2 {
            Code::TooFew
        } else {
            Code::TooMany
        };
        c.field("table", |c| {
            let problem = format_args!("{} rows", wire.len());
            c.fault(code, problem, "give 2 to 64 batch sizes");
        });
        return None;
    }
    let by_rounds = wire[0].rounds.is_some();
    let mut rows = c.list("table", wire, |row, c| table_row(*row, by_rounds, c))?;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&i| rows[i].batch);
    rows.sort_by_key(|r| r.batch);
    c.field("table", |c| {
        if let Some(i) = (1..rows.len()).find(|&i| rows[i].batch == rows[i - 1].batch) {
            let second = order[i].max(order[i - 1]);
            c.index(second, |c| {
                let problem = format_args!("batch size {} is given twice", rows[i].batch.get());
                c.fault(Code::Duplicate, problem, "remove one of the two");
            });
            return None;
        }
        let progress: Vec<_> = rows
            .iter()
            .map(|r| if by_rounds { 1.0 / r.value } else { r.value })
            .collect();
        if let Some((small, large)) = rise(&progress) {
            c.index(order[large], |c| {
                let of = |i: usize| (rows[i].value, rows[i].batch.get());
                let ((more, at), (less, below)) = (of(large), of(small));
                let what = if by_rounds { "rounds" } else { "progress" };
                let problem = format_args!(
                    "{what} {more} at batch size {at}, {less} at {below}: a sample would be worth \
                     {:.3} times as much in the larger batch",
                    progress[large] / progress[small]
                );
                let advice = "a larger batch makes no more progress per sample; up to 1.5 times is \
                              taken for noise: correct one of the two rows or remove it";
                c.fault(Code::NotMonotone, problem, advice);
            });
            return None;
        }
        let known = |row: &wire::EfficiencyRow| row.interval.is_some();
        if let Some(i) = wire.iter().position(|row| known(row) != known(&wire[0])) {
            c.index(i, |c| {
                let has = |row| if known(row) { "has one" } else { "has none" };
                let problem = format_args!("it {}, the first row {}", has(&wire[i]), has(&wire[0]));
                c.field("interval", |c| {
                    c.fault(
                        Code::Conflict,
                        problem,
                        "give `interval` in every row, or in none",
                    );
                });
            });
            return None;
        }
        Some(())
    })?;
    Some(if by_rounds {
        EfficiencyCurve::Rounds(rows)
    } else {
        EfficiencyCurve::Progress(rows)
    })
}

fn table_row(wire: wire::EfficiencyRow, by_rounds: bool, c: &mut Checker) -> Option<EfficiencyRow> {
    let batch = c.unit("batch", Batch::new(wire.batch));
    let (name, value, other) = if by_rounds {
        ("rounds", wire.rounds, wire.progress)
    } else {
        ("progress", wire.progress, wire.rounds)
    };
    let (Some(value), None) = (value, other) else {
        let problem = "not the one of `progress` and `rounds` that the first row has";
        let advice = format_args!("give `{name}` in every row, and no other");
        c.fault(Code::Conflict, problem, advice);
        return None;
    };
    // Beyond 1e9 the reciprocal of the number of rounds would lose precision; no training takes 10^9 rounds.
    let is_figure = |value: f64| value > 1e-9 && value < 1e9;
    if !is_figure(value) {
        c.field(name, |c| {
            let problem = format_args!("{} is not a figure of {name}", shown(value));
            c.fault(
                Code::OutOfRange,
                problem,
                "give a number above 1e-9, below 1e9",
            );
        });
        return None;
    }
    if let Some([low, high]) = wire.interval
        && !(is_figure(low) && low <= value && value <= high && is_figure(high))
    {
        c.field("interval", |c| {
            let problem = format_args!(
                "{} to {} is not an interval around {value}",
                shown(low),
                shown(high)
            );
            let advice = format_args!("give [low, high] with 1e-9 < low <= {name} <= high < 1e9");
            c.fault(Code::OutOfRange, problem, advice);
        });
        return None;
    }
    Some(EfficiencyRow {
        batch: batch?,
        value,
        interval: wire.interval,
    })
}

/// Reads the reference size, which must be one of the task's batch sizes: a plan keeps this size if no
/// efficiency is known. `None`: the smallest size.
pub(super) fn reference(wire: &wire::Task, c: &mut Checker) -> Option<Option<Batch>> {
    // Batch sizes are sorted when they are read. The first size as written is the default reference, so remember
    // it if it is not the smallest.
    let smallest = wire.batch_sizes.iter().min();
    let first = wire.batch_sizes.first().filter(|f| Some(*f) != smallest);
    let Some(batch) = wire.batch else {
        return Some(first.and_then(|&size| Batch::new(size).ok()));
    };
    if wire.batch_sizes.is_empty() {
        // The empty list is reported elsewhere.
        return None;
    }
    if !wire.batch_sizes.contains(&batch) {
        c.field("batch", |c| {
            let sizes: Vec<String> = wire.batch_sizes.iter().map(u64::to_string).collect();
            let problem = format_args!("{batch} is none of `batch_sizes`");
            let advice = format_args!("give one of {}", sizes.join(", "));
            c.fault(Code::Conflict, problem, advice);
        });
        return None;
    }
    c.unit("batch", Batch::new(batch)).map(Some)
}

/// Checks the number of rounds until the target at the reference size.
pub(super) fn rounds_to_target(wire: Option<f64>, c: &mut Checker) -> Option<Option<f64>> {
    match wire {
        None => Some(None),
        Some(rounds) => {
            positive(c, "rounds_to_target", rounds, "number of rounds", false).map(Some)
        }
    }
}
