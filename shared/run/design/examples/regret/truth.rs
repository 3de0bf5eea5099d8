//! Values of configurations in a long window that the profiler has not seen.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use device::{Device, Options, Sim, Window};
use doc::Workload;
use units::corun::{Setting, Throughput};
use units::{Batch, Seconds, Share};

use super::Failure;

/// Rates of one seed of the simulator; each configuration is simulated once.
pub(crate) struct Truth {
    tasks: usize,
    window: Window,
    inside: Mutex<Inside>,
}

struct Inside {
    sim: Sim,
    known: HashMap<Vec<Setting>, Vec<f64>>,
}

/// Windows of `repeats` stretches of at least this many seconds.
pub(crate) fn window(least: f64, repeats: u32) -> Result<Window, Failure> {
    Ok(Window {
        least: Seconds::new(least)?,
        most: Seconds::ZERO,
        precision: 0.01,
        repeats,
    })
}

impl Truth {
    /// Without noise.
    pub fn new(workload: &Workload, seed: u64, window: Window) -> Result<Self, Failure> {
        Self::with_noise(workload, seed, window, 0.0)
    }

    /// As a profiler sees them, with this much noise in percent.
    pub fn with_noise(
        workload: &Workload,
        seed: u64,
        window: Window,
        noise_percent: f64,
    ) -> Result<Self, Failure> {
        let options = Options {
            seed,
            noise_percent,
            ..Options::default()
        };
        Ok(Self {
            tasks: workload.tasks.len(),
            window,
            inside: Mutex::new(Inside {
                sim: Sim::open(workload, &options)?,
                known: HashMap::new(),
            }),
        })
    }
}

impl Throughput for Truth {
    fn task_count(&self) -> usize {
        self.tasks
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        let share = Share::FULL;
        let mut rate = [0.0];
        self.means(&[Setting { task, batch, share }], &mut rate);
        rate[0]
    }

    fn covers(&self, _: Setting, _: usize) -> bool {
        true
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rates) = inside.known.get(active) {
            return out.copy_from_slice(rates);
        }
        match inside.sim.measure(active, &self.window) {
            Ok(measured) => {
                for (out, rate) in out.iter_mut().zip(&measured.rates) {
                    *out = rate.throughput.get();
                }
            }
            // Too large for the GPU's memory: no choice.
            Err(_) => out.fill(0.0),
        }
        inside.known.insert(active.to_vec(), out.to_vec());
    }
}
