/// A task counts as done if at most this fraction of all work is left of it: such a rest is rounding, not time.
const ROUNDING: f64 = 1e-12;

/// Seconds until every task has done its `work`, if all begin at once. `rates` gives the rates of the tasks that have
/// not ended, by their positions in `work`; it is asked again whenever a task ends. `None` if it gives none, or a task
/// makes no progress.
pub fn seconds_to_finish(
    work: &[f64],
    mut rates: impl FnMut(&[usize]) -> Option<Vec<f64>>,
) -> Option<f64> {
    let total: f64 = work.iter().sum();
    let mut active: Vec<usize> = (0..work.len()).collect();
    let mut left = work.to_vec();
    let mut now = 0.0;
    while !active.is_empty() {
        let rates = rates(&active)?;
        if !rates.iter().all(|r| r.is_finite() && *r > 0.0) {
            return None;
        }
        let ends = active.iter().zip(&rates).map(|(&i, rate)| left[i] / rate);
        let next = ends.fold(f64::INFINITY, f64::min);
        now += next;
        for (&i, rate) in active.iter().zip(&rates) {
            left[i] -= rate * next;
        }
        active.retain(|&i| left[i] > ROUNDING * total);
    }
    Some(now)
}
