use crate::bounds::workload::capacity;
use crate::instance::Instance;
use crate::{RoundTask, Set};

/// Up to this many tasks every order of ends is tried: 24 for 4 tasks.
const MOST_TASKS: usize = 4;
const SETS: usize = 1 << MOST_TASKS;

/// A lower bound on rounds of the same few tasks at many different rates, in a microsecond and without a linear
/// program.
///
/// Like the bound of the processor ([`crate::lower_bounds`]), it follows from prices `y_i >= 0` per
/// sample. While the tasks `A` compute, the processor earns `v(A) = sum_A y_i r_i(A)` per second,
/// but not before their downloads fit, and not later than their uploads allow. Any prices give a
/// bound that holds for every order and any idling. The prices tried are the best ones for rounds
/// in which all tasks compute until they end in a given order: after each end, `v = 1` for the set
/// of remaining tasks.
#[derive(Debug, Clone)]
pub struct QuickBound {
    jobs: Vec<RoundTask>,
    /// The sets of tasks sorted by the seconds of their downloads, and of their uploads.
    by_download: Vec<(f64, usize)>,
    by_upload: Vec<(f64, usize)>,
    orders: Vec<Vec<usize>>,
}

impl QuickBound {
    /// `None` for more than 4 tasks.
    #[must_use]
    pub fn new(instance: &Instance) -> Option<Self> {
        let jobs = instance.jobs().to_vec();
        let n = jobs.len();
        if n > MOST_TASKS {
            return None;
        }
        let sorted = |seconds: &dyn Fn(&RoundTask) -> f64| {
            let of = |set: usize| {
                (0..n)
                    .filter(|i| set >> i & 1 == 1)
                    .map(|i| seconds(&jobs[i]))
                    .sum()
            };
            let mut all: Vec<(f64, usize)> = (1..1 << n).map(|set| (of(set), set)).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            all
        };
        Some(Self {
            by_download: sorted(&|j| j.download_s),
            by_upload: sorted(&|j| j.upload_s),
            orders: crate::instance::batches::combinations(&vec![n; n])
                .map(|order| order.into_iter().map(usize::from).collect::<Vec<_>>())
                .filter(|order| (0..n).all(|i| order.contains(&i)))
                .collect(),
            jobs,
        })
    }

    /// Whether no round ends before `below_s`; `rates(A)` returns the samples per second of every task while the
    /// tasks `A` compute, of which only the entries of `A` are read.
    pub fn excludes<'r>(&self, rates: impl Fn(Set) -> &'r [f64], below_s: f64) -> bool {
        let n = self.jobs.len();
        let rows: [&[f64]; SETS] = std::array::from_fn(|set| {
            if set == 0 || set >= 1 << n {
                &[][..]
            } else {
                rates(set as Set)
            }
        });
        let fine = |(set, row): (usize, &&[f64])| {
            (0..n).all(|i| set >> i & 1 == 0 || (row[i].is_finite() && row[i] > 0.0))
        };
        // No bound if a rate is not a positive number: ordering the round reports that error.
        if !rows.iter().enumerate().take(1 << n).all(fine) {
            return false;
        }
        let longest = (0..n).map(|i| {
            let with = (1..1_usize << n).filter(|set| set >> i & 1 == 1);
            let fastest = with.map(|set| rows[set][i]).fold(0.0, f64::max);
            let job = self.jobs[i];
            job.download_s + job.work / fastest + job.upload_s
        });
        if longest.fold(0.0, f64::max) >= below_s {
            return true;
        }
        self.orders
            .iter()
            .any(|order| self.excluded_by(order, &rows, below_s))
    }

    /// The same as [`Self::excludes`] with the prices for one order of ends, given from the last
    /// task to the first.
    fn excluded_by(&self, order: &[usize], rows: &[&[f64]; SETS], below_s: f64) -> bool {
        let mut prices = [0.0; MOST_TASKS];
        let mut set = 0;
        for &i in order {
            set |= 1 << i;
            let row = rows[set];
            let others: f64 = (0..row.len())
                .filter(|j| set >> j & 1 == 1)
                .map(|j| prices[j] * row[j])
                .sum();
            prices[i] = ((1.0 - others) / row[i]).max(0.0);
        }
        let mut values = [0.0; SETS];
        for (set, row) in rows.iter().enumerate() {
            let each = row.iter().zip(&prices).enumerate();
            values[set] = each
                .filter(|(i, _)| set >> i & 1 == 1)
                .map(|(_, (r, y))| r * y)
                .sum();
        }
        let mut early = [(0.0, 0.0); SETS];
        let mut late = [(0.0, 0.0); SETS];
        let early = stairs(&self.by_download, &values, &mut early);
        let late = stairs(&self.by_upload, &values, &mut late);
        let wanted: f64 = self.jobs.iter().zip(&prices).map(|(j, y)| j.work * y).sum();
        // The work is reduced by more than the rounding of the sums.
        capacity(early, late, below_s) < wanted * (1.0 - 1e-9)
    }
}

/// The highest value of any set within a given cost in seconds, as a step function of that cost.
fn stairs<'s>(
    costs: &[(f64, usize)],
    values: &[f64; SETS],
    steps: &'s mut [(f64, f64); SETS],
) -> &'s [(f64, f64)] {
    let (mut len, mut most) = (0, 0.0);
    for &(cost, set) in costs {
        if values[set] > most {
            most = values[set];
            steps[len] = (cost, most);
            len += 1;
        }
    }
    &steps[..len]
}
