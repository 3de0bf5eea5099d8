//! The cost of samples in addition to their windows: for waking parked workers, for starting pool workers, and for
//! restarting jobs.

use std::fmt;
use std::time::Duration;

/// How the workers of a sample were started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// All were parked and woken.
    Woken,
    /// Some pool worker had to be started.
    Started,
    /// Some job does not speak the pool protocol and was started for this sample alone.
    Restarted,
}

/// Samples of one kind and their cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    /// Samples.
    pub samples: u32,
    /// Wall-clock time of all of them.
    pub total: Duration,
    /// The part of it outside of windows.
    pub overhead: Duration,
}

/// Tallies of the three kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Costs {
    tallies: [Tally; 3],
}

impl Costs {
    /// Records a sample that took `total`, of which `counted` was its window.
    pub fn note(&mut self, way: Way, total: Duration, counted: Duration) {
        let tally = &mut self.tallies[way as usize];
        tally.samples += 1;
        tally.total += total;
        tally.overhead += total.saturating_sub(counted);
    }

    /// The tally of one way.
    #[must_use]
    pub fn of(&self, way: Way) -> Tally {
        self.tallies[way as usize]
    }
}

impl Tally {
    /// Seconds per sample outside of the window; `None` without samples.
    #[must_use]
    pub fn overhead_per_sample_s(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.overhead.as_secs_f64() / f64::from(self.samples))
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (Way::Woken, "with parked workers woken"),
            (Way::Started, "with workers started for the pool"),
            (Way::Restarted, "with jobs restarted"),
        ];
        let mut first = true;
        for (way, word) in words {
            let tally = self.of(way);
            let Some(each) = tally.overhead_per_sample_s() else {
                continue;
            };
            if !first {
                f.write_str("; ")?;
            }
            first = false;
            write!(
                f,
                "{} samples {word} at {each:.2} s each beside the window",
                tally.samples
            )?;
        }
        if first {
            f.write_str("no sample was measured")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_told_for_each_way() {
        let mut costs = Costs::default();
        assert_eq!(costs.to_string(), "no sample was measured");
        let s = Duration::from_secs;
        costs.note(Way::Woken, s(3), s(2));
        costs.note(Way::Woken, s(5), s(2));
        costs.note(Way::Restarted, s(12), s(2));
        assert_eq!(costs.of(Way::Woken).overhead_per_sample_s(), Some(2.0));
        assert_eq!(
            costs.to_string(),
            "2 samples with parked workers woken at 2.00 s each beside the window; 1 samples with \
             jobs restarted at 10.00 s each beside the window"
        );
    }
}
