//! What the simulator measures, each configuration once, without noise.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use corun::{Setting, Throughput};
use device::{Device, Options, Sim, Window};
use doc::Workload;
use units::{Batch, Seconds, Share};

use super::Failure;

pub(crate) struct Truth {
    tasks: usize,
    inside: Mutex<Inside>,
}

struct Inside {
    sim: Sim,
    known: HashMap<Vec<Setting>, Vec<f64>>,
}

/// The window of mt-profile on the simulator.
pub(crate) const WINDOW: Window = Window {
    least: Seconds::ZERO,
    most: Seconds::ZERO,
    precision: 0.01,
    repeats: 1,
};

impl Truth {
    pub fn new(workload: &Workload) -> Result<Self, Failure> {
        let sim = Sim::open(workload, &Options::default())?;
        Ok(Self {
            tasks: workload.tasks.len(),
            inside: Mutex::new(Inside {
                sim,
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
        match inside.sim.measure(active, &WINDOW) {
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
