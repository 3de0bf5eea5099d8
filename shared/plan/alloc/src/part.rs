use crate::answer::Solution;
use crate::problem::Problem;

/// One GPU of a plan: its tasks, the problem of those, and the choice.
pub(crate) struct Part {
    pub(crate) members: Vec<usize>,
    pub(crate) problem: Problem,
    pub(crate) solution: Solution,
}

impl Part {
    /// The part of some tasks, if a choice for them was found.
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
