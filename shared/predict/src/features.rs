use crate::dataset::MAX_TASKS;
use crate::{Active, Anchor};

/// Features of one row: [`FEATURES`] numbers.
pub(crate) type Row = [f64; FEATURES];

/// How many features describe one task's place in a co-run.
pub(crate) const FEATURES: usize = 7;

/// Solo step times of the active tasks, seconds, in the order of `active`.
pub(crate) fn steps(anchors: &[Anchor], active: &[Active]) -> [f64; MAX_TASKS] {
    let mut tau = [0.0; MAX_TASKS];
    for (t, a) in tau.iter_mut().zip(active) {
        *t = anchors[a.task].step_seconds(a.batch);
    }
    tau
}

/// Describes the task at position `at` of a co-run: its own step time and share, and sums over
/// the others, so that absent tasks need no special value.
pub(crate) fn row(active: &[Active], tau: &[f64], at: usize) -> Row {
    let own = active[at].share.fraction();
    let (mut share, mut work, mut both, mut excess) = (0.0, 0.0, 0.0, 0.0);
    for (j, a) in active.iter().enumerate() {
        if j == at {
            continue;
        }
        let r = a.share.fraction();
        let t = tau[j] / tau[at];
        share += r;
        work += t / (1.0 + t);
        both += r * t / (1.0 + t);
        excess += (own + r - 1.0).max(0.0);
    }
    [
        tau[at].ln(),
        own.ln(),
        share,
        work,
        both,
        (own + share - 1.0).max(0.0),
        excess,
    ]
}
