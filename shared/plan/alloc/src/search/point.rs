/// A choice for every task: index into its batch sizes, and multiple of the share step.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Point {
    pub batch: Vec<u8>,
    pub level: Vec<u16>,
}

impl Point {
    pub const fn empty() -> Self {
        Self {
            batch: Vec::new(),
            level: Vec::new(),
        }
    }
}

impl Clone for Point {
    fn clone(&self) -> Self {
        Self {
            batch: self.batch.clone(),
            level: self.level.clone(),
        }
    }

    /// Reuses the allocations; the derived implementation would not.
    fn clone_from(&mut self, other: &Self) {
        self.batch.clone_from(&other.batch);
        self.level.clone_from(&other.level);
    }
}
