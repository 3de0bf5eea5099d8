//! Which jobs may share a GPU, and at what rates.

/// Rates of pairs of jobs on one GPU, by class. A *row* stands for a job; a job without one runs alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CoRates {
    rows: Vec<Vec<Entry>>,
}

/// A partner of a row, with the rates of both on a GPU of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    class: usize,
    other: usize,
    /// The row's own rate and the partner's, each relative to its rate alone.
    rates: (f64, f64),
}

impl CoRates {
    /// The table of `rows` rows. A pair is a class, two different rows, and the rate of each
    /// relative to its rate alone, above 0 and at most 1.
    pub fn new(
        rows: usize,
        pairs: impl IntoIterator<Item = (usize, [usize; 2], [f64; 2])>,
    ) -> Self {
        let mut table = vec![Vec::new(); rows];
        for (class, [a, b], [own, others]) in pairs {
            let entry = |other, rates| Entry {
                class,
                other,
                rates,
            };
            table[a].push(entry(b, (own, others)));
            table[b].push(entry(a, (others, own)));
        }
        for row in &mut table {
            row.sort_by_key(|e| (e.class, e.other));
        }
        Self { rows: table }
    }

    /// Whether no two jobs may share a GPU.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(Vec::is_empty)
    }

    /// Whether two tasks may share a GPU of a class.
    pub fn on(&self, class: usize) -> bool {
        self.rows.iter().flatten().any(|e| e.class == class)
    }

    /// The rates of two rows together on a GPU of a class; `None`: they may not share one.
    pub fn of(&self, class: usize, a: usize, b: usize) -> Option<(f64, f64)> {
        let row = &self.rows[a];
        let at = row.binary_search_by_key(&(class, b), |e| (e.class, e.other));
        at.ok().map(|at| row[at].rates)
    }
}

/// Ends of training of two tasks that train together from `now` on. `left` has the seconds that
/// each needs alone; `rates` hold until one of them is done, and the other then has the GPU to
/// itself.
pub(crate) fn ends_together(now: f64, left: (f64, f64), rates: (f64, f64)) -> (f64, f64) {
    let (a, b) = (left.0 / rates.0, left.1 / rates.1);
    if a <= b {
        (now + a, now + a + (left.1 - a * rates.1))
    } else {
        (now + b + (left.0 - b * rates.0), now + b)
    }
}
