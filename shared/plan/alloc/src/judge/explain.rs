use units::Share;

use units::corun::Throughput;

use crate::error::AllocError;
use crate::problem::Problem;
use crate::problem::compute::together;
use crate::search::answer::Solution;
use crate::search::instance::Instance;
use crate::search::point::Point;

/// Effect of a change of one task's share, everything else unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Index of the task.
    pub task: usize,
    /// Its changed share.
    pub share: Share,
    /// Change of the objective.
    pub objective: f64,
    /// Change of every task's throughput, samples per second.
    pub rates: Vec<f64>,
}

/// Explains the shares: for each task, the effect of `delta` more and of `delta` less share, if the share stays
/// above 0 and at most 100 %. The sum of the shares changes, too.
pub fn marginals<C: Throughput + ?Sized>(
    rates: &C,
    problem: &Problem,
    solution: &Solution,
    delta: Share,
) -> Result<Vec<Change>, AllocError> {
    let inst = Instance::new(rates, problem)?;
    let point = Point {
        batch: solution
            .settings
            .iter()
            .zip(&inst.batches)
            .map(|(s, list)| list.iter().position(|b| *b == s.batch).unwrap_or(0) as u8)
            .collect(),
        level: vec![1; inst.n],
    };
    let mut changes = Vec::new();
    for task in 0..inst.n {
        let now = solution.settings[task].share;
        let more = Some(now + delta).filter(|s| *s <= Share::FULL);
        let less = Some(now - delta).filter(|s| *s > Share::ZERO);
        for share in [less, more].into_iter().flatten() {
            let mut settings = solution.settings.clone();
            settings[task].share = share;
            let moved = together(rates, &settings);
            changes.push(Change {
                task,
                share,
                objective: inst.value_of(&point, &settings, &moved) - solution.objective,
                rates: moved
                    .iter()
                    .zip(&solution.rates)
                    .map(|(a, b)| a - b)
                    .collect(),
            });
        }
    }
    Ok(changes)
}
