//! Timeline of the kernels on the simulated GPU.

use crate::engine::{Observer, SimulatedTask, Slot};
use crate::kernel::KernelKind;
use crate::ready::Ready;

/// One kernel, or a sequence of short kernels, of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelSpan {
    /// Index of the task.
    pub task: usize,
    /// Its kind; for a sequence, the kind of the longest kernel.
    pub kind: KernelKind,
    /// Time at which it got its first SM, microseconds.
    pub start_us: f64,
    /// Time at which it was done, microseconds.
    pub end_us: f64,
    /// SMs occupied, mean over the span.
    pub held_sms: f64,
    /// SMs doing work, mean over the span.
    pub active_sms: f64,
}

/// SMs in use from `start_us` until the next point.
#[derive(Debug, Clone, PartialEq)]
pub struct OccupancyPoint {
    /// Start of the interval, microseconds.
    pub start_us: f64,
    /// SMs occupied by each task.
    pub held_sms: Vec<f64>,
    /// SMs doing work for each task.
    pub active_sms: Vec<f64>,
}

/// Everything that ran from the start of the simulation. Simulated, not measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// SMs of the GPU.
    pub sms: u32,
    /// Kernels in order of their end.
    pub kernels: Vec<KernelSpan>,
    /// SM occupancy over time; equal successive points are merged.
    pub occupancy: Vec<OccupancyPoint>,
    /// End of the simulation, microseconds.
    pub end_us: f64,
}

/// Records a [`Trace`].
pub(crate) struct Tracer<'a> {
    jobs: &'a [SimulatedTask],
    open: Vec<Option<Open>>,
    trace: Trace,
}

/// A span that is still running.
struct Open {
    segment: usize,
    start: f64,
    end: f64,
    held: f64,
    active: f64,
}

impl<'a> Tracer<'a> {
    pub(crate) fn new(jobs: &'a [SimulatedTask]) -> Self {
        Self {
            jobs,
            open: jobs.iter().map(|_| None).collect(),
            trace: Trace::default(),
        }
    }

    fn close(&mut self, task: usize) {
        if let Some(open) = self.open[task].take() {
            let length = open.end - open.start;
            self.trace.kernels.push(KernelSpan {
                task,
                kind: self.jobs[task].segments[open.segment].kind,
                start_us: open.start,
                end_us: open.end,
                held_sms: open.held / length,
                active_sms: open.active / length,
            });
        }
    }

    pub(crate) fn finish(mut self, sms: u32) -> Trace {
        for task in 0..self.jobs.len() {
            self.close(task);
        }
        self.trace.sms = sms;
        self.trace
    }
}

impl Observer for Tracer<'_> {
    fn interval(&mut self, start: f64, end: f64, slots: &[Slot], ready: &Ready) {
        if end <= start {
            return;
        }
        let [held, active] = ready.sms_by_task(slots.len());
        for (task, slot) in slots.iter().enumerate() {
            let running = held[task] > 0.0;
            let same = self.open[task]
                .as_ref()
                .is_some_and(|o| o.segment == slot.segment && o.end >= start);
            if !(running && same) {
                self.close(task);
            }
            if running {
                let open = self.open[task].get_or_insert(Open {
                    segment: slot.segment,
                    start,
                    end,
                    held: 0.0,
                    active: 0.0,
                });
                open.end = end;
                open.held += held[task] * (end - start);
                open.active += active[task] * (end - start);
            }
        }
        let changed = self
            .trace
            .occupancy
            .last()
            .is_none_or(|p| p.held_sms != held || p.active_sms != active);
        if changed {
            self.trace.occupancy.push(OccupancyPoint {
                start_us: start,
                held_sms: held,
                active_sms: active,
            });
        }
        self.trace.end_us = end;
    }
}
