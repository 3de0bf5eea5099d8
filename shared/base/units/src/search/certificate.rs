/// Why a search stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Stop {
    /// Every answer of the class was evaluated.
    Enumerated,
    /// Every answer of the class was evaluated or excluded by a bound.
    Bounded,
    /// The answer meets a bound for every answer of the class.
    BoundMet,
    /// The heuristic ended by itself, without a proof.
    Heuristic,
    /// The limit of points, nodes or plays was reached.
    Budget,
    /// The time limit was reached; the answer may differ from run to run.
    TimeLimit,
}

impl Stop {
    /// Whether this proves that the answer is the best of its class.
    #[must_use]
    pub const fn is_proof(self) -> bool {
        matches!(self, Stop::Enumerated | Stop::Bounded | Stop::BoundMet)
    }
}

/// Certificate of an answer: why the search stopped, a bound that holds for a class of answers, and that class. A
/// proof without its class is misleading: "no order is faster" does not mean "no schedule is faster".
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub struct Certificate<C> {
    /// Why the search stopped.
    pub stop: Stop,
    /// No answer of the class is better than this, if a bound is known.
    pub bound: Option<f64>,
    /// The class of answers.
    pub class: C,
}

impl<C> Certificate<C> {
    /// Whether the answer is proven to be the best of the class.
    #[must_use]
    pub fn is_proof(&self) -> bool {
        self.stop.is_proof()
    }
}
