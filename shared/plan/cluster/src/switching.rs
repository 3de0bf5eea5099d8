//! Modelled cost of switching a GPU from one job to another.
//!
//! PipeSwitch copies the model in groups of layers while the first ones already compute. With bytes
//! `b_g` and compute `c_g` of group g, bus speed `bw` and an overhead `o` for each copy,
//!
//! ```text
//! F_g = max(F_(g-1), sum_(h <= g) (b_h / bw + o)) + c_g,    switching time = F_last - sum c_g
//! ```
//!
//! Hare adds *early cleaning* (during the previous job's last backward pass, its layers are freed one by
//! one and the next job's are copied into their place) and *residency* (models of jobs that will return
//! stay in memory while they fit).

use crate::{Assignment, Problem, Schedule};

/// How a GPU switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A new process and context, and the whole model copied.
    Restart,
    /// The model copied by groups of layers while the first are computed.
    Pipelined,
    /// Pipelined, with early cleaning and models that stay resident.
    Hare,
}

impl Mode {
    /// The mode of a name on the command line.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "restart" => Self::Restart,
            "pipelined" => Self::Pipelined,
            "hare" => Self::Hare,
            _ => return None,
        })
    }
}

/// A new process, its context and the first run of every kernel. The poster's default switching
/// takes 3.3 to 9.0 s, whatever the model's size; 3 s is the shortest of these times without its
/// copy.
pub const RESTART_S: f64 = 3.0;
/// Seconds that each copy of a group costs besides its bytes: about a kernel launch and a
/// synchronisation of a stream.
pub const COPY_OVERHEAD_S: f64 = 30e-6;
/// Waking a parked process and changing its stream, which every switch between existing processes
/// takes; a switch to a model that is still in memory costs nothing else. Hare's least reported
/// switch is 0.96 ms, for a model of two megabytes.
pub const HIT_S: f64 = 0.9e-3;
/// Freeing the previous job's memory on the GPU, if early cleaning has not done it: PipeSwitch's
/// least reported switch is 2.42 ms, for the same model.
pub const CLEAN_S: f64 = 1.5e-3;

/// Properties of a job that switching depends on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Footprint {
    /// Bytes and forward seconds of each group of layers.
    pub layers: Vec<(f64, f64)>,
    /// Memory of a running task in bytes; at least its layers.
    pub memory: f64,
}

impl Footprint {
    /// Bytes of the model.
    pub fn bytes(&self) -> f64 {
        self.layers.iter().map(|l| l.0).sum()
    }

    /// `F_last - sum c` when the first `preloaded` bytes are there already.
    pub fn pipelined(&self, bus: f64, preloaded: f64) -> f64 {
        let mut copied = 0.0;
        let mut done = 0.0_f64;
        let mut compute = 0.0;
        let mut there = preloaded;
        for &(bytes, seconds) in &self.layers {
            let missing = (bytes - there).max(0.0);
            there = (there - bytes).max(0.0);
            if missing > 0.0 {
                copied += missing / bus + COPY_OVERHEAD_S;
            }
            done = done.max(copied) + seconds;
            compute += seconds;
        }
        done - compute
    }

    /// Bytes of the next model that early cleaning can copy while this job ends: at most what its
    /// backward pass (twice the forward pass) frees, and what the bus carries meanwhile.
    pub fn freed(&self, bus: f64) -> f64 {
        let backward: f64 = 2.0 * self.layers.iter().map(|l| l.1).sum::<f64>();
        self.bytes().min(bus * backward)
    }
}

/// Effect of switching on a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Switched {
    /// The same order on every GPU, with switching in its times.
    pub schedule: Schedule,
    /// Switches to another job.
    pub switches: usize,
    /// Switches to a model that is still in memory, as charged.
    pub hits: usize,
    /// Hits if the most recently used models stay.
    pub hits_newest: usize,
    /// Hits if the model with the farthest next use is evicted.
    pub hits_belady: usize,
    /// Sum of the switching times.
    pub total: f64,
}

/// Adds the cost of switching to a schedule: every GPU keeps its order, and starts are delayed as
/// necessary.
pub fn charge(
    problem: &Problem,
    footprints: &[Footprint],
    schedule: &Schedule,
    mode: Mode,
) -> Switched {
    let mut sequences: Vec<Vec<usize>> = vec![Vec::new(); problem.gpus.len()];
    for a in &schedule.assignments {
        sequences[a.gpu].push(a.job);
    }
    let mut cost: Vec<std::vec::IntoIter<f64>> = Vec::new();
    let mut switches = 0;
    let mut hits = 0;
    let mut hits_newest = 0;
    let mut hits_belady = 0;
    for (gpu, sequence) in sequences.iter().enumerate() {
        let class = problem.classes[problem.gpus[gpu]];
        let newest = resident(sequence, footprints, class.memory, Keep::Newest);
        let belady = resident(sequence, footprints, class.memory, Keep::NextUse);
        let mut seconds = Vec::with_capacity(sequence.len());
        for (i, &n) in sequence.iter().enumerate() {
            let before = i.checked_sub(1).map(|i| sequence[i]);
            if before == Some(n) {
                seconds.push(0.0);
                continue;
            }
            switches += 1;
            hits_newest += usize::from(newest[i]);
            hits_belady += usize::from(belady[i]);
            let own = &footprints[n];
            seconds.push(match mode {
                Mode::Restart => RESTART_S + own.bytes() / class.bus,
                Mode::Pipelined => HIT_S + CLEAN_S + own.pipelined(class.bus, 0.0),
                Mode::Hare if belady[i] => {
                    hits += 1;
                    HIT_S
                }
                Mode::Hare => {
                    let freed = before.map_or(0.0, |b| footprints[b].freed(class.bus));
                    HIT_S + own.pipelined(class.bus, freed)
                }
            });
        }
        cost.push(seconds.into_iter());
    }
    let schedule = retimed(problem, schedule, |gpu| cost[gpu].next().unwrap_or(0.0));
    Switched {
        total: schedule.assignments.iter().map(|a| a.switch).sum(),
        schedule,
        switches,
        hits,
        hits_newest,
        hits_belady,
    }
}

/// The same tasks in the same order on every GPU, each as early as that allows. `switch` gives the
/// switching time of the next task of a GPU.
pub fn retimed(
    problem: &Problem,
    schedule: &Schedule,
    mut switch: impl FnMut(usize) -> f64,
) -> Schedule {
    let mut free = vec![0.0_f64; problem.gpus.len()];
    let mut ready: Vec<f64> = problem.jobs.iter().map(|j| j.arrival).collect();
    let mut round = vec![(0, 0.0_f64); problem.jobs.len()];
    let mut out = Vec::with_capacity(schedule.assignments.len());
    // The tasks of a gang start at the same moment, so they are adjacent in the schedule; they are
    // moved together.
    let gang = |a: &Assignment| problem.jobs[a.job].gang.is_some();
    let one = |a: &Assignment, b: &Assignment| gang(a) && (a.job, a.round) == (b.job, b.round);
    for these in schedule.assignments.chunk_by(one) {
        let first = these[0];
        let (present, synced) = &mut round[first.job];
        if *present != first.round {
            ready[first.job] = ready[first.job].max(*synced);
            *present = first.round;
        }
        let gpus: Vec<usize> = these.iter().map(|a| a.gpu).collect();
        // The tasks of a gang start training together, after the slowest switch.
        let seconds = gpus.iter().map(|&m| switch(m)).fold(0.0, f64::max);
        let free_all = gpus.iter().map(|&m| free[m]).fold(0.0, f64::max);
        let start = free_all.max(ready[first.job]);
        let (train, sync) = problem.pace(first.job, &gpus);
        let trained = start + seconds + train;
        let done = trained + sync;
        *synced = synced.max(done);
        for a in these {
            free[a.gpu] = trained;
            out.push(Assignment {
                switch: seconds,
                start,
                trained,
                synced: done,
                ..*a
            });
        }
    }
    Schedule::new(problem.jobs.len(), out)
}

/// Which models stay in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// The most recently used models, Hare's rule.
    Newest,
    /// Models that are used next (Belady 1966: evict the farthest next use).
    NextUse,
}

/// For each task of a GPU's sequence, whether its job's model is still in memory when it starts.
///
/// A running task needs its memory; the models of other jobs stay while there is room.
fn resident(sequence: &[usize], footprints: &[Footprint], memory: f64, keep: Keep) -> Vec<bool> {
    // When each place's job is used next.
    let mut next = vec![usize::MAX; sequence.len()];
    let mut seen = vec![usize::MAX; footprints.len()];
    for (i, &n) in sequence.iter().enumerate().rev() {
        next[i] = seen[n];
        seen[n] = i;
    }
    let mut kept: Vec<(usize, usize)> = Vec::new();
    let mut out = Vec::with_capacity(sequence.len());
    for (i, &n) in sequence.iter().enumerate() {
        let hit = kept.iter().any(|k| k.0 == n);
        out.push(hit);
        kept.retain(|k| k.0 != n);
        let mut room = memory - footprints[n].memory.max(footprints[n].bytes());
        if keep == Keep::NextUse {
            kept.sort_by_key(|k| k.1);
        }
        kept.retain(|&(job, _)| {
            room -= footprints[job].bytes();
            // A model that does not fit is evicted; a smaller one after it may still stay.
            let stays = room >= 0.0;
            if !stays {
                room += footprints[job].bytes();
            }
            stays
        });
        kept.insert(0, (n, next[i]));
    }
    out
}
