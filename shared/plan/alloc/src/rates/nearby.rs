use std::cell::RefCell;
use std::collections::HashMap;

use overlap::{MAX_TASKS, OverlapError, Rates, Set};
use units::Batch;

/// Rates of one choice, by set of computing tasks, filled on demand.
pub(crate) type Rows = RefCell<HashMap<Set, Vec<f64>>>;

/// Rates of a choice, extrapolated from those of a similar choice. For each task, the ratio of its rates at both
/// choices is predicted for the task alone and with all others; for other sets, its logarithm is interpolated
/// linearly in the number of co-runners. This takes one prediction of all tasks together and one of each task alone,
/// instead of one for every set that the round contains.
pub(crate) struct Nearby<'a, R> {
    base: &'a R,
    batches: &'a [Batch],
    rows: &'a Rows,
    /// Logarithm of the ratio of each task's rates when alone; `all`: with all others.
    alone: Vec<f64>,
    all: Vec<f64>,
}

impl<'a, R: Rates> Nearby<'a, R> {
    /// Rates for `there`, extrapolated from the `rows` of `base` at `batches`. `together` are the rates of all tasks
    /// together at `there`, if known.
    pub(crate) fn new(
        base: &'a R,
        batches: &'a [Batch],
        rows: &'a Rows,
        there: &impl Rates,
        at: &[Batch],
        together: Option<&[f64]>,
    ) -> Result<Self, OverlapError> {
        let n = batches.len();
        let (mut alone, mut all) = (vec![0.0; n], vec![0.0; n]);
        let near = Self {
            base,
            batches,
            rows,
            alone: Vec::new(),
            all: Vec::new(),
        };
        let mut now = vec![0.0; n];
        let everyone = Set::MAX >> (MAX_TASKS - n);
        match together {
            Some(known) => now.copy_from_slice(known),
            None => there.rates(everyone, at, &mut now)?,
        }
        near.row(everyone, |row| {
            for i in 0..n {
                all[i] = (now[i] / row[i]).ln();
            }
        })?;
        for i in 0..n {
            there.rates(1 << i, at, &mut now)?;
            near.row(1 << i, |row| alone[i] = (now[i] / row[i]).ln())?;
        }
        Ok(Self { alone, all, ..near })
    }

    fn row(&self, active: Set, mut read: impl FnMut(&[f64])) -> Result<(), OverlapError> {
        if let Some(row) = self.rows.borrow().get(&active) {
            read(row);
            return Ok(());
        }
        let mut row = vec![0.0; self.batches.len()];
        self.base.rates(active, self.batches, &mut row)?;
        read(&row);
        self.rows.borrow_mut().insert(active, row);
        Ok(())
    }
}

impl<R: Rates> Rates for Nearby<'_, R> {
    fn rates(&self, active: Set, _: &[Batch], out: &mut [f64]) -> Result<(), OverlapError> {
        let n = self.batches.len();
        let crowd = (active.count_ones() - 1) as f64 / (n.max(2) - 1) as f64;
        self.row(active, |row| {
            for i in (0..n).filter(|i| active >> i & 1 == 1) {
                let ln = crowd * self.all[i] + (1.0 - crowd) * self.alone[i];
                out[i] = row[i] * ln.exp();
            }
        })
    }
}
