//! The measured domain: within it, predictions interpolate.

use units::corun::Setting;
use units::{Batch, Share};

use crate::dataset::Dataset;

/// Shares (in hundredths of a percent) that count as one level: 2.5 %, less than the smallest step at which shares
/// are usually profiled (5 %), and more than the rounding of MPS (one of 108 multiprocessors is 0.9 %).
const LEVEL: u32 = 250;

/// Shares and crowd sizes of the co-runs that a model learnt from.
///
/// Solo runs do not count: if a task was measured alone at 20 % but with others only at 100 %, nothing is known about
/// the effect of others at 20 %.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Domain {
    /// Shares at which each task ran with others, ascending; neighbours closer than [`LEVEL`] / 2 are left out,
    /// except the smallest and the largest.
    pub shares: Vec<Vec<Share>>,
    /// Numbers of tasks that ran together, ascending, 2 or more.
    pub crowds: Vec<usize>,
}

impl Domain {
    pub fn of(data: &Dataset) -> Self {
        let mut shares = vec![Vec::new(); data.tasks.len()];
        let mut crowds = Vec::new();
        for s in data.samples.iter().filter(|s| s.active.len() > 1) {
            crowds.push(s.active.len());
            for (a, p) in s.active.iter().zip(&s.throughput) {
                if *p > 0.0 {
                    shares[a.task].push(a.share);
                }
            }
        }
        for levels in &mut shares {
            thin(levels);
        }
        crowds.sort_unstable();
        crowds.dedup();
        Self { shares, crowds }
    }

    /// Whether every share of a co-run is a measured level of its task, and this number of tasks was measured
    /// together. Regression trees are used only in such co-runs, because between levels they predict a step, and
    /// beyond them the value of the last level. With shares of 20 and 80 % held out of ten levels, they raised the
    /// blend's error from 2.6 to 15.3 %.
    pub fn has_levels_of(&self, active: &[Setting]) -> bool {
        self.crowds.contains(&active.len()) && self.has_shares_of(active)
    }

    /// Whether every share of a co-run is a measured level of its task.
    pub fn has_shares_of(&self, active: &[Setting]) -> bool {
        let near = |a: &Setting| {
            let levels = self.shares.get(a.task).map_or(&[][..], Vec::as_slice);
            let gap = |l: &Share| l.hundredths().abs_diff(a.share.hundredths());
            levels.iter().any(|l| gap(l) <= LEVEL)
        };
        active.iter().all(near)
    }

    /// Whether a task of a co-run has a smaller or a larger share than it ever had with others.
    pub fn lacks_share_of(&self, active: &[Setting]) -> bool {
        active.iter().any(|a| {
            let outside = |(low, high)| !(low..=high).contains(&a.share);
            self.range(a.task).is_some_and(outside)
        })
    }

    /// Smallest and largest share at which a task ran with others.
    pub fn range(&self, task: usize) -> Option<(Share, Share)> {
        let levels = self.shares.get(task)?;
        Some((*levels.first()?, *levels.last()?))
    }
}

/// Sorts shares and removes those that are too close to a kept one to be a level of their own.
fn thin(levels: &mut Vec<Share>) {
    levels.sort_unstable();
    levels.dedup();
    let Some(&last) = levels.last() else { return };
    let mut kept: Option<Share> = None;
    levels.retain(|l| {
        let far = kept.is_none_or(|k| l.hundredths() - k.hundredths() >= LEVEL / 2);
        if far || *l == last {
            kept = Some(*l);
        }
        far || *l == last
    });
}

/// Smallest and largest batch size and share at which one task ran, alone or not; `None` if it never ran.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranges {
    pub batches: Option<(Batch, Batch)>,
    pub shares: Option<(Share, Share)>,
}

impl Ranges {
    pub fn of(data: &Dataset, task: usize) -> Self {
        let rows = || {
            let all = data
                .samples
                .iter()
                .flat_map(|s| s.active.iter().zip(&s.throughput));
            all.filter(|(a, p)| a.task == task && **p > 0.0)
                .map(|(a, _)| a)
        };
        let batch = |a: &Setting| a.batch;
        let share = |a: &Setting| a.share;
        Self {
            batches: rows().map(batch).min().zip(rows().map(batch).max()),
            shares: rows().map(share).min().zip(rows().map(share).max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(percent: &[f64]) -> Vec<Share> {
        let one = |p: &f64| Share::from_percent(*p).unwrap();
        percent.iter().map(one).collect()
    }

    #[test]
    fn levels_are_thinned_but_not_their_ends() {
        let mut levels = shares(&[30.0, 10.0, 10.5, 20.0, 30.5, 10.0, 31.0]);
        thin(&mut levels);
        assert_eq!(levels, shares(&[10.0, 20.0, 30.0, 31.0]));
    }

    #[test]
    fn a_share_between_levels_and_a_crowd_never_measured_have_no_level() {
        let domain = Domain {
            shares: vec![shares(&[10.0, 50.0]), shares(&[100.0])],
            crowds: vec![2],
        };
        let run = |percent: &[f64]| -> Vec<Setting> {
            let one = |(task, share): (usize, Share)| Setting {
                task,
                batch: Batch::new(1).unwrap(),
                share,
            };
            shares(percent).into_iter().enumerate().map(one).collect()
        };
        assert!(domain.has_levels_of(&run(&[52.0, 100.0])));
        assert!(!domain.has_levels_of(&run(&[30.0, 100.0])));
        assert!(!domain.has_levels_of(&run(&[50.0])), "one task alone");
        assert_eq!(
            domain.range(0),
            Some((shares(&[10.0])[0], shares(&[50.0])[0]))
        );
    }
}
