use crate::{Task, Workload};

/// Error: the workload of another round has other tasks than the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it has the tasks {now}, the input has {known}; give the same names")]
pub struct OtherTasks {
    /// Task names of the new workload, sorted.
    pub now: String,
    /// Task names that the model knows, sorted.
    pub known: String,
}

impl Workload {
    /// Takes from `now` what changes from round to round: samples, update sizes, weights, memory, link, name. Batch
    /// sizes and device stay, because the model knows only those that were measured. If `now` gives no memory for a
    /// task, the old value stays, since the profiler may have measured it. An efficiency that was measured or learnt
    /// is not replaced by one that `now` only declares. Rounds to a target are taken together with their reference
    /// size, unless the model does not know that size.
    ///
    /// # Errors
    /// [`OtherTasks`] if the two workloads have different tasks.
    pub fn renew(&mut self, now: &Workload) -> Result<(), OtherTasks> {
        let names = |w: &Workload| {
            let mut names: Vec<_> = w.tasks.iter().map(|t| t.id.to_string()).collect();
            names.sort();
            names.join(", ")
        };
        if names(self) != names(now) {
            return Err(OtherTasks {
                now: names(now),
                known: names(self),
            });
        }
        for task in &mut self.tasks {
            if let Some(i) = now.task_index(&task.id) {
                let new = &now.tasks[i];
                task.samples = new.samples;
                task.update_bytes = new.update_bytes;
                task.weight = new.weight;
                task.memory = new.memory.or(task.memory);
                // The reference size of the rounds must be one that the model knows.
                if task.batch_sizes.contains(&new.reference()) {
                    task.batch = Some(new.reference()).filter(|b| *b != task.batch_sizes[0]);
                    task.rounds_to_target = new.rounds_to_target;
                }
                let source = |task: &Task| task.efficiency.as_ref().map(|e| e.source);
                if source(new) >= source(task) {
                    task.efficiency.clone_from(&new.efficiency);
                }
            }
        }
        self.link = now.link;
        if now.id.is_some() {
            self.id.clone_from(&now.id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Documents, Frames, Workload};

    fn workload(memory: &str) -> Workload {
        let text = format!(
            r#"{{"schema":"mt.workload/1","device":{{"kind":"sim"}},"tasks":[
                {{"id":"a","model":"alexnet","batch_sizes":[32],"samples":9{memory}}}]}}"#
        );
        let frames = Frames::new(text.as_bytes(), "test");
        Documents::new(frames).next().unwrap().unwrap()
    }

    #[test]
    fn memory_that_was_found_out_stays() {
        let known = r#","memory":{"fixed_bytes":1,"bytes_per_sample":2}"#;
        let other = r#","memory":{"fixed_bytes":3,"bytes_per_sample":4}"#;
        for (now, wanted) in [("", known), (other, other)] {
            let mut renewed = workload(known);
            renewed.renew(&workload(now)).expect("the same tasks");
            assert_eq!(renewed, workload(wanted));
        }
    }
}
