//! The event loop. Tasks alternate between host phase, launch wait and kernels; SMs are assigned in order of arrival,
//! and memory bandwidth by max-min fairness. Times are in microseconds.

use crate::program::Segment;
use crate::ready::{Ready, least, smaller};
use crate::tuning::Tuning;

/// One task as the engine sees it.
pub(crate) struct SimulatedTask {
    /// Segments of one step; never empty.
    pub(crate) segments: Vec<Segment>,
    /// Mean duration of the host phase, including contention.
    pub(crate) host_us: f64,
}

/// Parameters of the machine and the run for the engine.
pub(crate) struct Machine<'a> {
    pub(crate) sms: f64,
    pub(crate) bytes_per_us: f64,
    pub(crate) tuning: &'a Tuning,
    pub(crate) seed: u64,
    /// Number of steps that every task must finish in the window.
    pub(crate) min_steps: u32,
    /// Shortest window, in seconds. If `min_steps` take less time, the number of steps is increased to fill the window,
    /// up to `most_steps`.
    pub(crate) least_s: f64,
    pub(crate) most_steps: f64,
}

/// State of a task that waits for its timer; a ready task has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Host phase.
    Host,
    /// Waits for a launch or the gap between kernels.
    Wait,
}

/// State of one task. Once its segment is ready, the state of the segment is in [`Ready`].
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    phase: Phase,
    /// Index of the current segment.
    pub(crate) segment: usize,
    launch_base: f64,
    step: u32,
    /// Number and end time of the step at which its own window starts.
    first: Option<(u32, f64)>,
    /// Last completed step and its time.
    last: (u32, f64),
}

/// Steps per microsecond of every task, and statistics of the run.
pub(crate) struct Measured {
    pub(crate) steps_per_us: Vec<f64>,
    pub(crate) steps: Vec<u32>,
    pub(crate) window_us: f64,
    pub(crate) events: u64,
    /// Whether every task made its steps within [`MOST_EVENTS`].
    pub(crate) finished: bool,
}

/// Observes every interval between events.
pub(crate) trait Observer {
    /// Called before the state advances from `start` to `end`; nothing changes between these times.
    fn interval(&mut self, start: f64, end: f64, slots: &[Slot], ready: &Ready);
}

/// Observes nothing and costs nothing.
pub(crate) struct Blind;

impl Observer for Blind {
    #[inline]
    fn interval(&mut self, _: f64, _: f64, _: &[Slot], _: &Ready) {}
}

/// Maximum number of events of one run. A window of 4,096 steps of the slowest of eight tasks of the catalogue has
/// about 10^7 events. Only tasks whose steps differ by many orders of magnitude need more than this maximum: two tasks
/// with steps of 1 ms and 1 year would keep the simulator busy for a year.
const MOST_EVENTS: u64 = 50_000_000;

/// Runs all tasks together until each has made its steps in the window, which starts after its first step.
pub(crate) fn run<O: Observer>(
    jobs: &[SimulatedTask],
    machine: &Machine<'_>,
    observer: &mut O,
) -> Measured {
    let mut engine = Engine::new(jobs, machine);
    let mut events = 0;
    while (!engine.finished() || engine.goes_on()) && events < MOST_EVENTS {
        if engine.changed {
            engine.allocate();
        }
        let next = engine.next_event();
        observer.interval(engine.now, next, &engine.slots, &engine.ready);
        engine.advance(next);
        events += 1;
    }
    engine.measured(events)
}

struct Engine<'a> {
    jobs: &'a [SimulatedTask],
    machine: &'a Machine<'a>,
    slots: Vec<Slot>,
    /// End time of the host phase or wait of each task; infinite while it is ready.
    timers: Vec<f64>,
    /// The earliest of the timers.
    first_timer: f64,
    ready: Ready,
    now: f64,
    /// Whether a task has become ready or ended its segment since the last allocation.
    changed: bool,
    /// Number of steps that every task must finish.
    min_steps: u32,
    /// Number of tasks that have not finished their steps yet.
    unfinished: usize,
}

impl<'a> Engine<'a> {
    fn new(jobs: &'a [SimulatedTask], machine: &'a Machine<'a>) -> Self {
        let n = jobs.len();
        let timer = |(i, job): (usize, &SimulatedTask)| {
            let kernels: f64 = job
                .segments
                .iter()
                .map(|s| s.work / s.parallelism + s.gap_us)
                .sum();
            let offset = (job.host_us + kernels) * i as f64 / n as f64;
            offset + job.host_us * jitter(machine, i, 0)
        };
        let timers: Vec<f64> = jobs.iter().enumerate().map(timer).collect();
        let slot = Slot {
            phase: Phase::Host,
            segment: 0,
            launch_base: 0.0,
            step: 0,
            first: None,
            last: (0, 0.0),
        };
        Self {
            jobs,
            machine,
            slots: vec![slot; n],
            first_timer: first(&timers),
            timers,
            ready: Ready::default(),
            now: 0.0,
            changed: false,
            min_steps: machine.min_steps,
            unfinished: n,
        }
    }

    fn finished(&self) -> bool {
        self.unfinished == 0
    }

    /// Assigns SMs and bandwidth to the ready tasks.
    fn allocate(&mut self) {
        let (sms, tuning) = (self.machine.sms, self.machine.tuning);
        self.ready.allocate(sms, tuning);
        self.ready
            .share_bandwidth(self.machine.bytes_per_us, tuning.interference / sms);
        self.changed = false;
    }

    fn next_event(&self) -> f64 {
        let next = self.ready.first_end(self.now);
        smaller(next, self.first_timer).max(self.now)
    }

    fn advance(&mut self, to: f64) {
        let elapsed = to - self.now;
        self.now = to;
        // Tasks that become ready below have not run yet.
        let running = self.ready.task.len();
        let expired = self.first_timer <= to;
        if expired {
            self.expire();
        }
        self.ready.run(elapsed, running);
        for k in 0..self.ready.completed.len() {
            self.complete(self.ready.completed[k]);
        }
        if expired || !self.ready.completed.is_empty() {
            self.first_timer = first(&self.timers);
        }
    }

    /// Handles all timers that have expired.
    fn expire(&mut self) {
        for i in 0..self.slots.len() {
            if self.timers[i] > self.now {
                continue;
            }
            let slot = &mut self.slots[i];
            if slot.phase == Phase::Host {
                slot.launch_base = self.now;
                slot.segment = 0;
                self.wait_for_segment(i);
            } else {
                self.arrive(i);
            }
        }
    }

    /// Waits until the next segment has been launched and its predecessor is done.
    fn wait_for_segment(&mut self, i: usize) {
        let slot = &mut self.slots[i];
        let segment = &self.jobs[i].segments[slot.segment];
        self.timers[i] = (slot.launch_base + segment.issue_us).max(self.now + segment.gap_us);
        slot.phase = Phase::Wait;
    }

    fn arrive(&mut self, i: usize) {
        self.timers[i] = f64::INFINITY;
        let segment = &self.jobs[i].segments[self.slots[i].segment];
        self.ready.push(i, segment);
        self.changed = true;
    }

    fn complete(&mut self, i: usize) {
        self.changed = true;
        let slot = &mut self.slots[i];
        slot.segment += 1;
        if slot.segment < self.jobs[i].segments.len() {
            self.wait_for_segment(i);
        } else {
            self.end_step(i);
        }
    }

    fn end_step(&mut self, i: usize) {
        let host = self.jobs[i].host_us;
        let slot = &mut self.slots[i];
        slot.step += 1;
        slot.last = (slot.step, self.now);
        slot.phase = Phase::Host;
        slot.segment = 0;
        self.timers[i] = self.now + host * jitter(self.machine, i, slot.step);
        match slot.first {
            // The window opens only once every task is past its first step.
            None => self.open_windows(),
            Some((first, _)) if slot.step == first + self.min_steps => {
                self.unfinished -= 1;
            }
            Some(_) => {}
        }
    }

    /// A task's own window starts with its first completed step after all have completed one.
    fn open_windows(&mut self) {
        if self.slots.iter().all(|s| s.step >= 1) {
            for slot in &mut self.slots {
                if slot.first.is_none() && slot.last.1 >= self.now {
                    slot.first = Some(slot.last);
                }
            }
        }
    }

    /// Extends a window that is too short, at most once; the steps simulated so far still count.
    fn goes_on(&mut self) -> bool {
        let least_s = self.machine.least_s;
        let window_s = self.measured(0).window_us * 1e-6;
        let lengthened = self.min_steps != self.machine.min_steps;
        if lengthened || window_s >= least_s || window_s <= 0.0 {
            return false;
        }
        let steps = f64::from(self.min_steps) * least_s / window_s;
        self.min_steps = steps.ceil().min(self.machine.most_steps) as u32;
        let short = |s: &&Slot| {
            s.first
                .is_none_or(|(first, _)| s.step < first + self.min_steps)
        };
        self.unfinished = self.slots.iter().filter(short).count();
        !self.finished()
    }

    fn measured(&self, events: u64) -> Measured {
        let spans = self.slots.iter().map(|s| {
            let (first, start) = s.first.unwrap_or_default();
            (s.last.0 - first, s.last.1 - start)
        });
        Measured {
            steps_per_us: spans.clone().map(|(n, t)| f64::from(n) / t).collect(),
            steps: spans.clone().map(|(n, _)| n).collect(),
            window_us: spans.map(|(_, t)| t).fold(0.0, f64::max),
            events,
            finished: self.finished(),
        }
    }
}

/// The earliest of all timers.
fn first(timers: &[f64]) -> f64 {
    least(timers.len(), |i| timers[i])
}

/// Factor on the host phase of one step: uniform around 1.
///
/// Steps come in antithetic pairs (`u` and `1 - u`), so that the mean over a short window equals that over a long one.
/// Pairs are independent of each other: with a regular sequence, tasks would stay for minutes in their initial rhythm.
fn jitter(machine: &Machine<'_>, task: usize, step: u32) -> f64 {
    // Windows open after step 0, so pairs begin at odd steps.
    let pair = u64::from(step.div_ceil(2)) << 32 | task as u64;
    let first = (hash(machine.seed ^ hash(pair)) >> 11) as f64 / (1u64 << 53) as f64;
    let u = if step.is_multiple_of(2) {
        first
    } else {
        1.0 - first
    };
    // Half width of a uniform distribution is sqrt(3) standard deviations.
    1.0 + machine.tuning.jitter * 3f64.sqrt() * (2.0 * u - 1.0)
}

/// SplitMix64 finaliser.
fn hash(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
