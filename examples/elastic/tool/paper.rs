//! The paper's experiment on the simulated machine: an older training, and one that starts 200 s later; each is done
//! when it has made the progress of a training alone on 4 GPUs in 300 s.

use crate::machine::{Batch, Beside, Machine};

const SOLO_S: f64 = 300.0;
const YOUNGER_S: f64 = 200.0;
/// Step of the integration. A tenth of it changes no figure of the table by 0.1 percent points.
const DT: f64 = 0.1;

/// Times of a run, in seconds: of all, of the older training, and of the younger from its start.
#[derive(Clone, Copy)]
pub struct Times {
    pub total: f64,
    pub older: f64,
    pub younger: f64,
}

impl Times {
    /// By how many percent each is longer than in `other`; negative if it is shorter.
    pub fn against(&self, other: &Self) -> [f64; 3] {
        let change = |a: f64, b: f64| 100.0 * (a / b - 1.0);
        [
            change(self.total, other.total),
            change(self.older, other.older),
            change(self.younger, other.younger),
        ]
    }
}

/// Progress of a training alone on 4 GPUs in 300 s. The noise depends on the fraction of this distance, so it is
/// found by iteration, which converges fast.
fn distance(machine: &Machine, batch: Batch) -> f64 {
    let mut distance = 100.0;
    for _ in 0..20 {
        let (mut reached, mut time) = (0.0, 0.0);
        while time < SOLO_S {
            reached += DT * machine.progress(4, batch, Beside::Nobody, reached / distance);
            time += DT;
        }
        distance = reached;
    }
    distance
}

/// A run of an older and a younger training, each with its machine (its model), with these GPUs while both train; a
/// training that is alone has all four.
pub fn run(machines: [&Machine; 2], batch: Batch, older: u32, younger: u32) -> Times {
    let distances = machines.map(|machine| distance(machine, batch));
    let (mut at, mut time) = ([0.0; 2], 0.0);
    let mut ends = [None; 2];
    while ends.iter().any(Option::is_none) {
        let active = [ends[0].is_none(), ends[1].is_none() && time >= YOUNGER_S];
        let gpus = match active {
            [true, true] => [older, younger],
            _ => [4, 4],
        };
        for task in 0..2 {
            let other = match active[1 - task] {
                true => Beside::of(gpus[1 - task]),
                false => Beside::Nobody,
            };
            if active[task] {
                let part = at[task] / distances[task];
                at[task] += DT * machines[task].progress(gpus[task], batch, other, part);
            }
        }
        time += DT;
        for task in 0..2 {
            if active[task] && at[task] >= distances[task] {
                ends[task] = Some(time);
            }
        }
    }
    Times {
        total: time,
        older: ends[0].unwrap_or(time),
        younger: ends[1].unwrap_or(time) - YOUNGER_S,
    }
}
