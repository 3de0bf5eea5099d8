use units::corun::Setting;

use super::space::{Configuration, Space};
use crate::DesignError;

/// Maximum size of a grid, which is kept in memory.
const LARGEST: u128 = 1_000_000;

/// Every co-run of all tasks; the last task's share changes fastest.
pub(super) fn grid(space: &Space) -> Result<Vec<Configuration>, DesignError> {
    let n = space.task_count();
    let choices: Vec<u128> = (0..n)
        .map(|task| (space.batches(task).len() * space.shares.len()) as u128)
        .collect();
    let size = choices.iter().try_fold(1u128, |a, &b| a.checked_mul(b));
    if size.is_none_or(|size| size > LARGEST) {
        return Err(DesignError::Grid(LARGEST));
    }
    let mut all = vec![Vec::new()];
    for task in 0..n {
        let mut longer: Vec<Configuration> = Vec::new();
        for start in &all {
            for &batch in space.batches(task) {
                for &share in &space.shares {
                    let mut runs = start.clone();
                    runs.push(Setting { task, batch, share });
                    longer.push(runs);
                }
            }
        }
        all = longer;
    }
    // If there is one task, its runs on the whole device are already solo runs.
    let solos = space.solos();
    all.retain(|runs| space.allows(runs) && !(n == 1 && solos.contains(runs)));
    Ok(all)
}
