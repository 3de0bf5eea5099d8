use doc::PhaseKind;

/// One phase of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// Index of the task.
    pub task: usize,
    /// Which phase.
    pub kind: PhaseKind,
    /// Start in seconds from the start of the round.
    pub start_s: f64,
    /// End in seconds from the start of the round.
    pub end_s: f64,
}

/// The phases of a round with their times.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// All phases of all tasks, by start time; at equal times by kind, end and task.
    pub phases: Vec<Phase>,
    /// End of the last phase in seconds.
    pub makespan_s: f64,
}

impl Schedule {
    pub(crate) fn new(mut phases: Vec<Phase>) -> Self {
        phases.sort_by(|a, b| {
            a.start_s
                .total_cmp(&b.start_s)
                .then(a.kind.cmp(&b.kind))
                .then(a.end_s.total_cmp(&b.end_s))
                .then(a.task.cmp(&b.task))
        });
        let makespan_s = phases.iter().fold(0.0, |m: f64, p| m.max(p.end_s));
        Self { phases, makespan_s }
    }

    /// The tasks in the order in which their phases of one kind start.
    #[must_use]
    pub fn order_of(&self, kind: PhaseKind) -> Vec<usize> {
        let of_kind = self.phases.iter().filter(|p| p.kind == kind);
        of_kind.map(|p| p.task).collect()
    }
}
