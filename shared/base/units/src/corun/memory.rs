use crate::Batch;

use crate::corun::Setting;

/// Reduces batch sizes until a co-run fits into memory. Each step moves one task to its next smaller size in
/// `sizes` (by task, in any order), for the task that frees most. `need` returns the bytes of a setting. Returns
/// whether the co-run fits; if it does not, all tasks are at their smallest sizes.
///
/// It is used for random co-runs: with many tasks, few draws fit by themselves, and good plans nearly fill the
/// memory.
pub fn shrink_to_fit(
    active: &mut [Setting],
    sizes: &[Vec<Batch>],
    need: impl Fn(&Setting) -> f64,
    capacity: f64,
) -> bool {
    let smaller = |s: &Setting| {
        let below = sizes[s.task].iter().copied().filter(|b| *b < s.batch);
        below.max().map(|batch| Setting { batch, ..*s })
    };
    while active.iter().map(&need).sum::<f64>() > capacity {
        let mut best: Option<(f64, usize, Setting)> = None;
        for (at, setting) in active.iter().enumerate() {
            let Some(next) = smaller(setting) else {
                continue;
            };
            let freed = need(setting) - need(&next);
            if freed > best.map_or(0.0, |b| b.0) {
                best = Some((freed, at, next));
            }
        }
        let Some((_, at, next)) = best else {
            return false;
        };
        active[at] = next;
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::Share;

    use super::*;

    fn batch(size: u32) -> Batch {
        Batch::new(size.into()).unwrap()
    }

    fn settings(of: &[u32]) -> Vec<Setting> {
        let one = |(task, &size): (usize, &u32)| Setting {
            task,
            batch: batch(size),
            share: Share::FULL,
        };
        of.iter().enumerate().map(one).collect()
    }

    /// Bytes of a setting: the second task needs ten times as much per sample.
    fn need(s: &Setting) -> f64 {
        100.0 + s.batch.as_f64() * if s.task == 1 { 10.0 } else { 1.0 }
    }

    fn shrunk(of: &[u32], capacity: f64) -> (bool, Vec<Setting>) {
        let sizes = vec![vec![batch(8), batch(64), batch(16)]; of.len()];
        let mut active = settings(of);
        (shrink_to_fit(&mut active, &sizes, need, capacity), active)
    }

    #[test]
    fn what_frees_most_goes_first_and_only_as_far_as_needed() {
        // The tasks need 164 + 740 + 164 bytes; the second needs 260 with a batch size of 16.
        assert_eq!(
            shrunk(&[64, 64, 64], 1068.0),
            (true, settings(&[64, 64, 64]))
        );
        assert_eq!(
            shrunk(&[64, 64, 64], 1000.0),
            (true, settings(&[64, 16, 64]))
        );
        assert_eq!(shrunk(&[64, 64, 64], 500.0), (true, settings(&[16, 8, 64])));
    }

    #[test]
    fn what_never_fits_ends_at_the_smallest_sizes() {
        assert_eq!(shrunk(&[64, 64], 200.0), (false, settings(&[8, 8])));
    }
}
