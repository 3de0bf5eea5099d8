use crate::search::point::Point;

/// The best points seen so far, best first. Points of equal value are sorted, so that the list does
/// not depend on the order of the search.
#[derive(Debug, Clone)]
pub(crate) struct Shortlist {
    most: usize,
    entries: Vec<(f64, Point)>,
}

impl Shortlist {
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            entries: Vec::new(),
        }
    }

    /// A point of at most this value cannot improve the list.
    pub fn cutoff(&self) -> f64 {
        if self.entries.len() < self.most {
            f64::NEG_INFINITY
        } else {
            self.entries[self.entries.len() - 1].0
        }
    }

    pub fn offer(&mut self, value: f64, point: &Point) {
        let full = self.entries.len() == self.most;
        let before = |(v, p): &(f64, Point)| *v > value || (*v == value && p < point);
        if !value.is_finite() || (full && self.entries.last().is_some_and(before)) {
            return;
        }
        if let Some(known) = self.entries.iter().position(|(_, p)| p == point) {
            if self.entries[known].0 >= value {
                return;
            }
            self.entries.remove(known);
        }
        let at = self.entries.partition_point(before);
        self.entries.insert(at, (value, point.clone()));
        self.entries.truncate(self.most);
    }

    pub fn merge(&mut self, other: Self) {
        for (value, point) in other.entries {
            self.offer(value, &point);
        }
    }

    pub fn best(&self) -> Option<&(f64, Point)> {
        self.entries.first()
    }

    pub fn into_entries(self) -> Vec<(f64, Point)> {
        self.entries
    }
}
