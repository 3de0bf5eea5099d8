//! Extracts measurements of rounds from the events of a run.

use std::collections::BTreeMap;

use doc::{EventPayload, PhaseKind};
use units::{Seconds, Share, TaskId};

use super::Observed;

/// Collects the phases of a round until its end.
#[derive(Debug, Clone)]
pub struct Lessons {
    tasks: Vec<TaskId>,
    /// Start and end of each task's compute, in seconds from the start of the round.
    compute: BTreeMap<TaskId, (f64, f64)>,
    /// End of each task's last phase.
    over: BTreeMap<TaskId, f64>,
}

impl Lessons {
    /// Lessons about tasks in this order.
    #[must_use]
    pub const fn new(tasks: Vec<TaskId>) -> Self {
        Self {
            tasks,
            compute: BTreeMap::new(),
            over: BTreeMap::new(),
        }
    }

    /// The tasks, in the order of shares and times in [`Observed`].
    #[must_use]
    pub fn tasks(&self) -> &[TaskId] {
        &self.tasks
    }

    /// Takes an event, and returns the measurements at the end of a round. There are none if a task did not finish or
    /// was restarted, because then the shares do not explain the duration of the round.
    pub fn hear(&mut self, event: &EventPayload) -> Option<Observed> {
        match event {
            EventPayload::Phase {
                task,
                phase,
                start,
                end,
                reason: None,
                ..
            } => {
                if *phase == PhaseKind::Compute {
                    let phase = (start.get(), end.get());
                    self.compute.insert(task.clone(), phase);
                }
                self.over.insert(task.clone(), end.get());
                None
            }
            EventPayload::Round { ok, tasks, .. } => {
                let compute = std::mem::take(&mut self.compute);
                let over = std::mem::take(&mut self.over);
                if !ok || tasks.iter().any(|t| t.restarts > 0) {
                    return None;
                }
                let share = |id: &TaskId| tasks.iter().find(|t| t.id == *id)?.share;
                let shares: Option<Vec<Share>> = self.tasks.iter().map(share).collect();
                let mut observed = Observed {
                    shares: shares?,
                    seconds: Vec::new(),
                    transfers: Vec::new(),
                };
                for id in &self.tasks {
                    let (start, end) = *compute.get(id)?;
                    let after = over.get(id)? - end;
                    // The logarithm needs a positive duration.
                    let trained = Seconds::new(end - start).ok()?.get().max(SHORTEST_S);
                    observed.seconds.push(trained);
                    observed.transfers.push(start + after);
                }
                Some(observed)
            }
            _ => None,
        }
    }
}

/// Shorter phases count as this long: clocks and the start of a process are coarser.
const SHORTEST_S: f64 = 1e-3;
