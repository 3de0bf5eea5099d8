/// Neighbouring items with the same level.
pub(crate) struct Level {
    sum: f64,
    values: usize,
    /// Number of items.
    pub(crate) items: usize,
}

impl Level {
    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.values as f64
    }
}

/// The least-squares fit among non-increasing sequences (pool-adjacent-violators): rises are treated as noise. Each
/// item is the sum of some values, and their number.
pub(crate) fn levelled(items: impl Iterator<Item = (f64, usize)>) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    for (sum, values) in items {
        levels.push(Level {
            sum,
            values,
            items: 1,
        });
        while let [.., before, last] = levels.as_slice()
            && last.mean() >= before.mean()
        {
            let merged = Level {
                sum: before.sum + last.sum,
                values: before.values + last.values,
                items: before.items + last.items,
            };
            levels.truncate(levels.len() - 2);
            levels.push(merged);
        }
    }
    levels
}

/// The level of each item.
pub(crate) fn each(levels: &[Level]) -> impl Iterator<Item = f64> {
    levels
        .iter()
        .flat_map(|level| std::iter::repeat_n(level.mean(), level.items))
}
