use crate::answer::Solution;
use crate::problem::Problem;

/// One GPU of a plan: its tasks, their problem and its solution.
pub(crate) struct Part {
    pub(crate) members: Vec<usize>,
    pub(crate) problem: Problem,
    pub(crate) solution: Solution,
}

impl Part {
    /// The part of the tasks `members`; `None` if no choice was found.
    pub(crate) fn of(
        problem: &Problem,
        members: Vec<usize>,
        solution: Option<Solution>,
    ) -> Option<Self> {
        solution.map(|solution| Part {
            problem: problem.restricted(&members),
            members,
            solution,
        })
    }
}
