//! Simulating the rows with given constants.

use std::collections::HashMap;
use std::error::Error;

use gpusim::{
    Gpu, Host, Network, Program, RATE_WINDOW_S, SimOptions, SimTask, Simulator, Tuning, temporal,
};
use units::{Batch, Share};

use crate::rows::Row;

/// Shares are searched in shorter windows than those used for the final evaluation.
const SEARCH_WINDOW_S: f64 = 8.0;

/// Everything that the fit may change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    pub tuning: Tuning,
    pub host: Host,
    /// Host of the machine with the RTX cards.
    pub rtx_host: Host,
}

impl Constants {
    /// The built-in constants.
    pub fn built_in() -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            tuning: Tuning::default(),
            host: Gpu::built_in("titan-v")?.host(),
            rtx_host: Gpu::built_in("rtx-3090")?.host(),
        })
    }

    /// Start of a fit: rounded guesses, so that it does not depend on an earlier fit.
    pub fn guess() -> Result<Self, Box<dyn Error>> {
        let mut c = Self::built_in()?;
        c.tuning.conv3_efficiency = 0.8;
        c.tuning.gemm_efficiency = 0.7;
        c.tuning.traffic = 0.7;
        c.tuning.operand_rate = 6e5;
        c.tuning.occupancy = 3.0;
        c.tuning.handover = 0.02;
        for host in [&mut c.host, &mut c.rtx_host] {
            host.us_per_sample = 200.0;
            host.contention = 0.4;
        }
        Ok(c)
    }
}

/// One simulated row.
#[derive(Debug, Clone)]
pub struct Simulated {
    pub temporal: f64,
    pub ratios: [f64; 3],
    pub best_shares: Vec<u32>,
}

/// A mix ready to run under any shares, in steps of 5 %.
pub struct Mix {
    simulator: Simulator,
    programs: Vec<Program>,
    cache: HashMap<Vec<u32>, Vec<f64>>,
    window_s: f64,
}

impl Mix {
    pub fn new(
        gpu: &str,
        models: &[&str],
        batches: &[u64],
        constants: &Constants,
        window_s: f64,
    ) -> Result<Self, Box<dyn Error>> {
        let host = if gpu == "titan-v" {
            constants.host
        } else {
            constants.rtx_host
        };
        let gpu = Gpu::built_in(gpu)?.with_host(host)?;
        let simulator = Simulator::with_tuning(gpu, constants.tuning);
        let mut programs = Vec::new();
        for (model, &batch) in models.iter().zip(batches) {
            let network = Network::by_name(model)?;
            programs.push(simulator.program(&network, Batch::new(batch)?, None)?);
        }
        Ok(Self {
            simulator,
            programs,
            cache: HashMap::new(),
            window_s,
        })
    }

    /// Samples per second of each task at shares in percent.
    pub fn rates(&mut self, shares: &[u32]) -> &[f64] {
        if !self.cache.contains_key(shares) {
            let tasks: Vec<SimTask<'_>> = self
                .programs
                .iter()
                .zip(shares)
                .map(|(program, &percent)| SimTask {
                    program,
                    share: Share::from_hundredths(100 * percent),
                })
                .collect();
            let outcome = self
                .simulator
                .run_for(&tasks, self.window_s, &SimOptions::default());
            self.cache.insert(shares.to_vec(), outcome.samples_per_s);
        }
        &self.cache[shares]
    }

    pub fn total(&mut self, shares: &[u32]) -> f64 {
        self.rates(shares).iter().sum()
    }

    pub fn solos(&self) -> Vec<f64> {
        self.programs
            .iter()
            .map(|program| {
                let task = SimTask {
                    program,
                    share: Share::FULL,
                };
                let options = SimOptions::default();
                self.simulator
                    .run_for(&[task], self.window_s, &options)
                    .total()
            })
            .collect()
    }

    /// Best shares by coordinate ascent with pair moves from several starts on a grid of `step`.
    pub fn best(&mut self, step: u32) -> Vec<u32> {
        let n = self.programs.len();
        let mut best = vec![100; n];
        for start in [100, 80, 60, (200 / n as u32).min(100) / step * step] {
            let found = self.ascend(vec![start.max(step); n], step);
            if self.total(&found) > self.total(&best) {
                best = found;
            }
        }
        best
    }

    pub fn ascend(&mut self, mut shares: Vec<u32>, step: u32) -> Vec<u32> {
        loop {
            let before = self.total(&shares);
            for i in 0..shares.len() {
                let mut candidate = shares.clone();
                for percent in (step..=100).step_by(step as usize) {
                    candidate[i] = percent;
                    if self.total(&candidate) > self.total(&shares) {
                        shares.clone_from(&candidate);
                    }
                }
            }
            if self.total(&shares) <= before * (1.0 + 1e-9) {
                return shares;
            }
        }
    }
}

/// Simulates one row; `step` is the grid of shares in percent.
pub fn simulate(row: &Row, constants: &Constants, step: u32) -> Result<Simulated, Box<dyn Error>> {
    let n = row.models.len();
    let batches = vec![128; n];
    let best_shares =
        Mix::new(&row.gpu, &row.models, &batches, constants, SEARCH_WINDOW_S)?.best(step);
    let mut mix = Mix::new(&row.gpu, &row.models, &batches, constants, RATE_WINDOW_S)?;
    let base = temporal(&mix.solos());
    let isolated = mix.total(&vec![100 / n as u32; n]);
    let sharing = mix.total(&vec![100; n]);
    let best = mix.total(&best_shares);
    Ok(Simulated {
        temporal: base,
        ratios: [isolated / base, sharing / base, best / base],
        best_shares,
    })
}
