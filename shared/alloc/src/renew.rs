use doc::Workload;

/// A workload of another round that has other tasks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it has the tasks {now}, the model has {known}; give the same names")]
pub struct OtherTasks {
    /// Names of the new workload, sorted.
    pub now: String,
    /// Names that the model knows, sorted.
    pub known: String,
}

/// Takes what changes from round to round (samples, update sizes, weights, memory, link) from
/// `now`. Batch sizes and device stay: the model knows those that were measured.
///
/// # Errors
/// [`OtherTasks`] if the two have not the same tasks.
pub fn renew(known: &mut Workload, now: &Workload) -> Result<(), OtherTasks> {
    let names = |w: &Workload| {
        let mut names: Vec<_> = w.tasks.iter().map(|t| t.id.to_string()).collect();
        names.sort();
        names.join(", ")
    };
    if names(known) != names(now) {
        return Err(OtherTasks {
            now: names(now),
            known: names(known),
        });
    }
    for task in &mut known.tasks {
        if let Some(i) = now.task_index(&task.id) {
            let new = &now.tasks[i];
            task.samples = new.samples;
            task.update_bytes = new.update_bytes;
            task.weight = new.weight;
            task.memory = new.memory;
        }
    }
    known.link = now.link;
    if now.id.is_some() {
        known.id.clone_from(&now.id);
    }
    Ok(())
}
