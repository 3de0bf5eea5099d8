//! The poster's table of switching times, beside the model's.

use cluster::generate::{BUS, MODELS, Model};
use cluster::switching::{
    self, CLEAN_S, COPY_OVERHEAD_S, Footprint, HIT_S, Mode, RESTART_S, charge,
};
use cluster::{Problem, Schedule, document};

use crate::Outcome;
use crate::poster::testbed;

/// Milliseconds by the poster: default, PipeSwitch, Hare; models as in [`MODELS`].
const REPORTED: [[f64; 3]; 8] = [
    [3288.94, 4.01, 2.77],
    [5961.16, 4.75, 2.04],
    [7807.43, 5.03, 2.46],
    [9016.99, 12.57, 5.03],
    [5257.17, 10.34, 5.79],
    [5125.64, 8.91, 4.27],
    [5327.24, 2.86, 1.83],
    [5213.54, 2.42, 0.96],
];

/// A model's switching times in seconds: default, pipelined, with early cleaning.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    /// Milliseconds by the poster.
    pub reported: [f64; 3],
    /// Milliseconds by the model.
    pub modelled: [f64; 3],
    /// Switching with early cleaning over switching and one step.
    pub share: f64,
}

fn footprint(model: &Model) -> Footprint {
    let layers = model.layers();
    Footprint {
        layers: layers.iter().map(|l| (l.bytes, l.compute_s)).collect(),
        memory: model.memory,
    }
}

/// The table. Early cleaning depends on the job before: the mean over the other seven.
pub fn table() -> Vec<Row> {
    let footprints: Vec<Footprint> = MODELS.iter().map(footprint).collect();
    let row = |(i, model): (usize, &Model)| {
        let own = &footprints[i];
        let others = footprints.iter().enumerate().filter(|(j, _)| *j != i);
        let cleaned: f64 = others
            .map(|(_, before)| HIT_S + own.pipelined(BUS, before.freed(BUS)))
            .sum::<f64>()
            / (MODELS.len() - 1) as f64;
        let seconds = [
            RESTART_S + own.bytes() / BUS,
            HIT_S + CLEAN_S + own.pipelined(BUS, 0.0),
            cleaned,
        ];
        Row {
            name: model.name,
            reported: REPORTED[i],
            modelled: seconds.map(|s| 1e3 * s),
            share: cleaned / (cleaned + model.step_s),
        }
    };
    MODELS.iter().enumerate().map(row).collect()
}

/// What was assumed, in words.
pub fn assumptions() -> String {
    format!(
        "a new process and its context take {RESTART_S} s; a copy costs {:.0} us beside its bytes; \
         a bus of {:.2} GB/s; parameters in 32 bits, in ten equal groups; a forward pass is a third \
         of a step, and a step is what the poster's switching time and its share of the task time \
         give; waking a parked process takes {:.1} ms, cleaning up after the job before {:.1} ms (both from \
         the poster's least times; early cleaning hides the latter)",
        1e6 * COPY_OVERHEAD_S,
        BUS / 1e9,
        1e3 * HIT_S,
        1e3 * CLEAN_S
    )
}

/// Switching on a whole schedule by each mechanism.
#[derive(Debug, Clone)]
pub struct Charged {
    pub name: &'static str,
    /// Weighted flow time over that without switching.
    pub over_free: f64,
    /// Mean milliseconds of a switch to another job.
    pub mean_ms: f64,
    pub switches: usize,
    pub hits_newest: usize,
    pub hits_belady: usize,
}

/// Charges the testbed's plan.
pub fn charged(problem: &Problem, schedule: &Schedule) -> Outcome<Vec<Charged>> {
    let cluster = cluster::generate::generate(&testbed())?;
    let footprints = document::footprints(&cluster);
    let modes = [
        (Mode::Restart, "restart"),
        (Mode::Pipelined, "pipelined"),
        (Mode::Hare, "hare"),
    ];
    let one = |(mode, name)| {
        let switched: switching::Switched = charge(problem, &footprints, schedule, mode);
        Charged {
            name,
            over_free: switched.schedule.flow_cost(problem) / schedule.flow_cost(problem),
            mean_ms: 1e3 * switched.total / switched.switches.max(1) as f64,
            switches: switched.switches,
            hits_newest: switched.hits_newest,
            hits_belady: switched.hits_belady,
        }
    };
    Ok(modes.map(one).to_vec())
}
