/// Most tasks that share one device: a set of them is one machine word. MPS admits 48 clients
/// per GPU up to CUDA 13.0 and 60 after, so that no device reaches it.
pub const MAX_TASKS: usize = 64;

/// A set of tasks by their index, below [`MAX_TASKS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TaskSet(u64);

impl TaskSet {
    /// No task.
    pub const EMPTY: Self = Self(0);

    /// The first `n` tasks, at most [`MAX_TASKS`].
    #[must_use]
    pub const fn first(n: usize) -> Self {
        if n >= MAX_TASKS {
            Self(u64::MAX)
        } else {
            Self((1 << n) - 1)
        }
    }

    /// The set whose bit `i` stands for task `i`.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Bit `i` stands for task `i`.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether task `i` is in the set; no task beyond [`MAX_TASKS`] is.
    #[must_use]
    pub const fn contains(self, task: usize) -> bool {
        task < MAX_TASKS && self.0 >> task & 1 == 1
    }

    /// The set with task `i`, below [`MAX_TASKS`].
    #[must_use]
    pub const fn with(self, task: usize) -> Self {
        debug_assert!(task < MAX_TASKS);
        Self(self.0 | 1 << task)
    }

    /// The set without task `i`.
    #[must_use]
    pub const fn without(self, task: usize) -> Self {
        if task < MAX_TASKS {
            Self(self.0 & !(1 << task))
        } else {
            self
        }
    }

    /// Number of tasks.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no task is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The tasks, ascending.
    #[must_use]
    pub const fn iter(self) -> Members {
        Members(self.0)
    }
}

impl FromIterator<usize> for TaskSet {
    fn from_iter<I: IntoIterator<Item = usize>>(tasks: I) -> Self {
        tasks.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl IntoIterator for TaskSet {
    type Item = usize;
    type IntoIter = Members;

    fn into_iter(self) -> Members {
        self.iter()
    }
}

/// The tasks of a [`TaskSet`], ascending.
#[derive(Debug, Clone)]
pub struct Members(u64);

impl Iterator for Members {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        (self.0 != 0).then(|| {
            let task = self.0.trailing_zeros() as usize;
            self.0 &= self.0 - 1;
            task
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The slow twin is an ordinary set.
        #[test]
        fn is_a_set(tasks in prop::collection::vec(0..MAX_TASKS, 0..80), out in 0..MAX_TASKS) {
            let slow: BTreeSet<usize> = tasks.iter().copied().collect();
            let set: TaskSet = tasks.iter().copied().collect();
            prop_assert!(set.iter().eq(slow.iter().copied()));
            prop_assert_eq!(set.len(), slow.len());
            prop_assert_eq!(set.contains(out), slow.contains(&out));
            prop_assert_eq!(set.without(out).len(), slow.len() - usize::from(slow.contains(&out)));
            prop_assert_eq!(TaskSet::from_bits(set.bits()), set);
        }
    }

    #[test]
    fn the_first_tasks() {
        assert!(TaskSet::first(0).is_empty());
        assert_eq!(TaskSet::first(3).iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(TaskSet::first(MAX_TASKS).len(), MAX_TASKS);
        assert!(!TaskSet::first(MAX_TASKS).contains(MAX_TASKS));
    }
}
