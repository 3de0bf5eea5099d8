//! Rounds of a mix on the simulator, as a fluid: rates change when a task ends.

use std::collections::HashMap;

use doc::Workload;
use host::SimulatedGpu;
use units::Share;
use units::corun::Setting;

use super::Failure;

/// What a mix does under given shares.
pub(crate) struct World {
    gpu: SimulatedGpu,
    tasks: Vec<(units::Batch, f64)>,
    seed: u64,
    known: HashMap<Vec<Setting>, Vec<f64>>,
}

impl World {
    pub(crate) fn new(workload: &Workload, seed: u64) -> Result<Self, Failure> {
        let tasks = workload.tasks.iter().map(|t| {
            let samples = t.samples.map_or(1.0, units::Samples::as_f64);
            (t.reference(), samples)
        });
        Ok(Self {
            gpu: SimulatedGpu::open(workload)?,
            tasks: tasks.collect(),
            seed,
            known: HashMap::new(),
        })
    }

    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Seconds until each task has trained on its samples; `slower` multiplies its time.
    pub(crate) fn round(&mut self, shares: &[Share], slower: &[f64]) -> Result<Vec<f64>, Failure> {
        let mut left: Vec<f64> = self
            .tasks
            .iter()
            .zip(slower)
            .map(|(t, s)| t.1 * s)
            .collect();
        let mut ends = vec![0.0; left.len()];
        let mut now = 0.0;
        loop {
            let active: Vec<usize> = (0..left.len()).filter(|&i| left[i] > 0.0).collect();
            if active.is_empty() {
                return Ok(ends);
            }
            let rates = self.rates(&active, shares)?;
            let step = active
                .iter()
                .zip(&rates)
                .map(|(&i, r)| left[i] / r)
                .fold(f64::INFINITY, f64::min);
            now += step;
            for (&i, rate) in active.iter().zip(&rates) {
                left[i] -= rate * step;
                if left[i] <= rate * 1e-6 {
                    left[i] = 0.0;
                    ends[i] = now;
                }
            }
        }
    }

    fn rates(&mut self, active: &[usize], shares: &[Share]) -> Result<Vec<f64>, Failure> {
        let setting = |&task: &usize| Setting {
            task,
            batch: self.tasks[task].0,
            share: shares[task],
        };
        let runs: Vec<Setting> = active.iter().map(setting).collect();
        if let Some(rates) = self.known.get(&runs) {
            return Ok(rates.clone());
        }
        let window = units::Seconds::new(2.0)?;
        let rates = self.gpu.window(&runs, window, self.seed)?.samples_per_s;
        self.known.insert(runs, rates.clone());
        Ok(rates)
    }
}
