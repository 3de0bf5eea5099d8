//! Decides whether another co-run is worth its time, given the number of coming rounds.
//!
//! A co-run is expected to shorten the rounds by some fraction ([`DesignState::expected_gain`], for the plan's
//! objective). If that fraction of the time of all rounds is less than the time of a measurement, it is better to
//! begin the rounds at once with the best configuration so far, often equal shares.
//!
//! [`DesignState::expected_gain`]: predict::design::DesignState::expected_gain

use doc::Workload;
use units::Samples;
use units::corun::Setting;

use crate::DesignError;

/// Number of co-runs that are always measured: the five schemes of equal shares that a plan is compared with. They
/// differ by a tenth and more, and the best of them becomes the plan unless something better is likely.
const SCHEMES: u32 = 5;
/// Relative expected gain of a co-run without a model: on simulated mixes, the best plans are better than the best
/// equal shares by 0.8 % in the median (examples/regret).
const UNKNOWN_GAIN: f64 = 0.01;

/// Cost of the co-runs so far, and the length of a round.
#[derive(Debug)]
pub struct Worth {
    rounds: f64,
    /// Samples of each task in a round.
    samples: Vec<f64>,
    /// Shortest round of the co-runs so far, until the last task has trained on its samples, in seconds.
    round_s: f64,
    coruns: u32,
    /// Time of the co-runs in seconds, including solo runs between them.
    cost_s: f64,
}

impl Worth {
    /// For this many rounds of a workload.
    ///
    /// # Errors
    /// [`DesignError::Rounds`] if a task does not declare its samples per round, and [`DesignError::RoundsOfSeveral`]
    /// on several GPUs.
    pub fn new(rounds: u64, workload: &Workload) -> Result<Self, DesignError> {
        if workload.device.gpus > 1 {
            return Err(DesignError::RoundsOfSeveral);
        }
        let samples = workload.tasks.iter().map(|task| {
            let samples = task.samples.map(Samples::as_f64);
            samples.ok_or_else(|| DesignError::Rounds(task.id.clone()))
        });
        Ok(Self {
            rounds: rounds as f64,
            samples: samples.collect::<Result<_, _>>()?,
            round_s: f64::INFINITY,
            coruns: 0,
            cost_s: 0.0,
        })
    }

    /// Learns the result and cost of a configuration; without `rates`, it could not be measured.
    pub fn observe(&mut self, runs: &[Setting], rates: Option<&[device::Rate]>, seconds: f64) {
        let together = runs.len() > 1;
        self.coruns += u32::from(together);
        if self.coruns > 0 {
            self.cost_s += seconds;
        }
        let Some(rates) = rates.filter(|_| runs.len() == self.samples.len()) else {
            return;
        };
        let each = runs
            .iter()
            .zip(rates)
            .map(|(run, rate)| self.samples[run.task] / rate.throughput.get());
        self.round_s = self.round_s.min(each.fold(0.0, f64::max));
    }

    /// Whether a co-run with this expected gain saves more time in all rounds than it takes.
    #[must_use]
    pub fn pays(&self, expected_gain: Option<f64>) -> bool {
        if self.coruns < SCHEMES || !self.round_s.is_finite() {
            return true;
        }
        let saved = expected_gain.unwrap_or(UNKNOWN_GAIN) * self.round_s * self.rounds;
        saved >= self.cost_s / f64::from(self.coruns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Batch, SamplesPerSec, Share};

    fn workload(samples: &str) -> Workload {
        let text = format!(
            r#"{{"schema":"mt.workload/1","tasks":[
            {{"id":"a","model":"vgg16","batch_sizes":[32],"samples":1000}},
            {{"id":"b","model":"vgg16","batch_sizes":[32]{samples}}}]}}"#
        );
        let frames = doc::Frames::new(text.as_bytes(), "test");
        doc::Documents::<_, Workload>::new(frames)
            .next()
            .unwrap()
            .unwrap()
    }

    fn runs(tasks: &[usize]) -> Vec<Setting> {
        let run = |&task| Setting {
            task,
            batch: Batch::new(32).unwrap(),
            share: Share::FULL,
        };
        tasks.iter().map(run).collect()
    }

    fn rates(each: &[f64]) -> Vec<device::Rate> {
        let rate = |&r: &f64| device::Rate {
            throughput: SamplesPerSec::new(r).unwrap(),
            stderr: None,
            gradient: None,
            launch: doc::Launch::default(),
        };
        each.iter().map(rate).collect()
    }

    #[test]
    fn a_co_run_pays_while_the_rounds_save_more_than_it_takes() {
        let mut worth = Worth::new(100, &workload(r#","samples":3000"#)).unwrap();
        // Solo runs before the first co-run are always measured, so their cost does not count.
        worth.observe(&runs(&[0]), Some(&rates(&[100.0])), 1_000.0);
        for _ in 0..SCHEMES {
            assert!(worth.pays(Some(0.0)), "the schemes are measured");
            worth.observe(&runs(&[0, 1]), Some(&rates(&[100.0, 100.0])), 30.0);
        }
        // A round takes 30 s, until `b` has trained on its 3000 samples; a hundred rounds take 3000 s, and 1 % of
        // that is 30 s.
        assert!(worth.pays(Some(0.0101)));
        assert!(!worth.pays(Some(0.0099)));
        // A faster co-run leaves less to save; failed co-runs cost time, too.
        worth.observe(&runs(&[0, 1]), Some(&rates(&[100.0, 200.0])), 30.0);
        assert!(!worth.pays(Some(0.0101)));
        worth.observe(&runs(&[0, 1]), None, 240.0);
        assert!(!worth.pays(Some(0.039)) && worth.pays(Some(0.041)));
    }

    #[test]
    fn a_task_that_says_nothing_of_a_round_is_named() {
        let error = Worth::new(1, &workload("")).unwrap_err();
        assert!(matches!(&error, DesignError::Rounds(task) if task.as_str() == "b"));
        assert_eq!(
            error.to_string(),
            "--rounds: task b has no `samples`; give how many it trains on in a round"
        );
    }
}
