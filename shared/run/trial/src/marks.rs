//! Progress of a command over time.

/// Amounts of work done by certain times, in ascending order of time.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    points: Vec<(f64, f64)>,
    /// Only every `every`-th mark is kept.
    every: u64,
    seen: u64,
    /// The last mark, whether it is kept or not.
    last: Option<(f64, f64)>,
}

/// Work per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Units of work per second; above 0.
    pub per_s: f64,
    /// Number of marks that it was computed from.
    pub marks: usize,
}

/// Number of marks that are kept; when there are twice as many, every second one is dropped. So a minute has at least a
/// mark every 30 ms, while the shortest window is half a second.
const KEPT: usize = 2048;

impl Marks {
    /// Records that `work` was done by `at` seconds.
    pub fn push(&mut self, at: f64, work: f64) {
        self.last = Some((at, work));
        let every = self.every.max(1);
        // The first mark is always kept, because the start-up ends with it.
        if self.seen.is_multiple_of(every) {
            self.points.push((at, work));
        }
        self.seen += 1;
        if self.points.len() >= 2 * KEPT {
            let mut index = 0;
            self.points.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.every = every * 2;
        }
    }

    /// The first mark.
    #[must_use]
    pub fn first(&self) -> Option<(f64, f64)> {
        self.points.first().copied()
    }

    /// The last mark.
    #[must_use]
    pub const fn last(&self) -> Option<(f64, f64)> {
        self.last
    }

    /// Number of marks so far.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.seen
    }

    /// The rate between the first and the last mark of `from..=to` seconds; `None` if they have the same time, or no
    /// work was done between them.
    #[must_use]
    pub fn rate(&self, from: f64, to: f64) -> Option<Rate> {
        let within = |(at, _): &(f64, f64)| (from..=to).contains(at);
        let mut points: Vec<(f64, f64)> = self.points.iter().copied().filter(within).collect();
        points.extend(
            self.last
                .filter(|last| within(last) && points.last().is_some_and(|p| p.0 < last.0)),
        );
        let ((start, before), (end, after)) = (*points.first()?, *points.last()?);
        if end <= start || after <= before {
            return None;
        }
        let per_s = (after - before) / (end - start);
        Some(Rate {
            per_s,
            marks: points.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_found_and_thinning_does_not_change_it() {
        let mut marks = Marks::default();
        for step in 1..=20_000 {
            marks.push(3.0 + f64::from(step) * 0.01, f64::from(step));
        }
        let rate = marks.rate(0.0, f64::INFINITY).unwrap();
        assert!((rate.per_s - 100.0).abs() < 0.1, "{rate:?}");
        assert!(rate.marks <= 2 * KEPT);
        assert_eq!(marks.first(), Some((3.01, 1.0)));
        assert_eq!(marks.last(), Some((203.0, 20_000.0)));
        let part = marks.rate(50.0, 60.0).unwrap();
        assert!((part.per_s - 100.0).abs() < 0.5, "{part:?}");
    }

    #[test]
    fn one_mark_is_no_rate_and_two_are_one() {
        let mut marks = Marks::default();
        marks.push(10.0, 1.0);
        assert_eq!(marks.rate(0.0, 99.0), None);
        marks.push(20.0, 2.0);
        let rate = marks.rate(0.0, 99.0).unwrap();
        assert_eq!((rate.per_s, rate.marks), (0.1, 2));
    }
}
