use units::{Batch, Share, TotalShare};

use crate::{MAX_TASKS, TaskSet};

/// Batch size and share of one task of a co-run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setting {
    /// Index into the workload's tasks.
    pub task: usize,
    /// Samples of each step.
    pub batch: Batch,
    /// Part of the device.
    pub share: Share,
}

/// Tasks that run together: at least one, each once, by rising index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Configuration(Vec<Setting>);

/// Why settings are no configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// No task runs.
    #[error("a configuration of no task; name at least one")]
    Empty,
    /// A task stands twice.
    #[error("task {0} is given twice; give each task once")]
    Twice(usize),
    /// An index beyond the most tasks of a device.
    #[error("task {0}: a device runs at most {MAX_TASKS} tasks")]
    TooMany(usize),
}

impl Configuration {
    /// Orders the settings by task.
    ///
    /// # Errors
    /// [`ConfigurationError`] if there is none, or a task twice, or one beyond [`MAX_TASKS`].
    pub fn new(mut settings: Vec<Setting>) -> Result<Self, ConfigurationError> {
        settings.sort_unstable();
        match settings.last() {
            None => return Err(ConfigurationError::Empty),
            Some(last) if last.task >= MAX_TASKS => {
                return Err(ConfigurationError::TooMany(last.task));
            }
            Some(_) => {}
        }
        if let Some(twice) = settings.windows(2).find(|w| w[0].task == w[1].task) {
            return Err(ConfigurationError::Twice(twice[0].task));
        }
        Ok(Self(settings))
    }

    /// The settings, by rising task.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.0
    }

    /// Which tasks run.
    #[must_use]
    pub fn tasks(&self) -> TaskSet {
        self.0.iter().map(|s| s.task).collect()
    }

    /// Sum of the shares, `R_v`.
    #[must_use]
    pub fn total(&self) -> TotalShare {
        self.0.iter().map(|s| s.share).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(task: usize) -> Setting {
        Setting {
            task,
            batch: Batch::new(32).unwrap(),
            share: Share::FULL,
        }
    }

    #[test]
    fn each_task_runs_once() {
        let two = Configuration::new(vec![setting(3), setting(1)]).unwrap();
        assert_eq!(two.tasks().iter().collect::<Vec<_>>(), [1, 3]);
        assert!((two.total().percent() - 200.0).abs() < 1e-12);
        assert_eq!(Configuration::new(vec![]), Err(ConfigurationError::Empty));
        let twice = Configuration::new(vec![setting(3), setting(3)]);
        assert_eq!(twice, Err(ConfigurationError::Twice(3)));
        let beyond = Configuration::new(vec![setting(MAX_TASKS)]);
        assert_eq!(beyond, Err(ConfigurationError::TooMany(MAX_TASKS)));
    }
}
