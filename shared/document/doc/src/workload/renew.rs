use crate::{Task, Workload};

/// A workload of another round that has other tasks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it has the tasks {now}, the input has {known}; give the same names")]
pub struct OtherTasks {
    /// Names of the new workload, sorted.
    pub now: String,
    /// Names that the model knows, sorted.
    pub known: String,
}

impl Workload {
    /// Takes what changes from round to round (samples, update sizes, weights, memory, link, name)
    /// from `now`. Batch sizes and device stay: a model knows those that were measured; so does the
    /// memory of a task of which `now` says none, since the profiler may have found it out, and an efficiency that was
    /// measured or learnt, against one that `now` declares. Rounds to a target come with their
    /// reference size, unless the model does not know that.
    ///
    /// # Errors
    /// [`OtherTasks`] if the two have not the same tasks.
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
                // The size that rounds refer to must be one that the model knows.
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
