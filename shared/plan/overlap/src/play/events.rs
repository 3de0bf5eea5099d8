use doc::{Hold, PhaseKind};

use crate::RoundTask;
use crate::play::gpu::Gpu;
use crate::play::schedule::{Phase, Schedule};
use crate::rates::cache::RateCache;

/// The phases of a task in turn.
const PHASES: [PhaseKind; 3] = [PhaseKind::Download, PhaseKind::Compute, PhaseKind::Upload];

/// A full-duplex round in which any phase may be held, played from event to event.
///
/// If transfers wait for one another across the directions, the start of one is unknown until the compute of others
/// has been played. Rounds in which only compute is held do not need this, and are played faster.
pub(crate) struct Events<'a> {
    jobs: &'a [RoundTask],
    holds: &'a [Hold],
    /// Start and end of each phase of each task; infinite until known.
    spans: Vec<[(f64, f64); 3]>,
    gpu: Gpu,
}

impl<'a> Events<'a> {
    pub fn new(jobs: &'a [RoundTask], holds: &'a [Hold]) -> Self {
        Self {
            jobs,
            holds,
            spans: vec![[(f64::INFINITY, f64::INFINITY); 3]; jobs.len()],
            gpu: Gpu::new(),
        }
    }

    /// Plays the round in these orders, which must not block any phase for ever.
    pub fn play(
        mut self,
        downloads: &[usize],
        uploads: &[usize],
        rates: &mut RateCache<'_>,
    ) -> Schedule {
        let (mut down, mut up) = (0, 0);
        loop {
            while self.begin(downloads, &mut down, PhaseKind::Download)
                || self.begin_compute()
                || self.begin(uploads, &mut up, PhaseKind::Upload)
            {}
            let now = self.gpu.now;
            let transfers = self.spans.iter().flat_map(|s| [s[0].1, s[2].1]);
            let next = transfers
                .filter(|end| *end > now)
                .fold(self.next_computed(rates), f64::min);
            if next.is_infinite() {
                break;
            }
            let spans = &mut self.spans;
            self.gpu.advance(next, rates, |i, t| spans[i][1].1 = t);
        }
        Schedule::new(self.phases())
    }

    /// When the next compute ends; infinite if none runs, in which case rates need not be known.
    fn next_computed(&self, rates: &mut RateCache<'_>) -> f64 {
        if self.gpu.active == 0 {
            return f64::INFINITY;
        }
        self.gpu.next_end(rates)
    }

    /// Begins the next transfer in the order, if it may start now.
    fn begin(&mut self, order: &[usize], next: &mut usize, kind: PhaseKind) -> bool {
        let Some(&i) = order.get(*next) else {
            return false;
        };
        let free = *next == 0 || self.has_ended(order[*next - 1], kind);
        if !(free && self.may_start(i, kind)) {
            return false;
        }
        let job = self.jobs[i];
        let seconds = match kind {
            PhaseKind::Download => job.download_s,
            _ => job.upload_s,
        };
        let now = self.gpu.now;
        self.spans[i][kind as usize] = (now, now + seconds);
        *next += 1;
        true
    }

    /// Begins the compute of every task that may start; returns whether there was one.
    fn begin_compute(&mut self) -> bool {
        let mut begun = false;
        for i in 0..self.jobs.len() {
            let waits = self.spans[i][1].0.is_infinite();
            if waits && self.may_start(i, PhaseKind::Compute) {
                self.spans[i][1].0 = self.gpu.now;
                self.gpu.start(i, self.jobs[i].work);
                begun = true;
            }
        }
        begun
    }

    fn has_ended(&self, task: usize, kind: PhaseKind) -> bool {
        self.spans[task][kind as usize].1 <= self.gpu.now
    }

    /// Whether the task's previous phase has ended and, if this phase is held, the phase that it
    /// waits for.
    fn may_start(&self, task: usize, kind: PhaseKind) -> bool {
        let ready = match kind {
            PhaseKind::Download => true,
            PhaseKind::Compute => self.has_ended(task, PhaseKind::Download),
            PhaseKind::Upload => self.has_ended(task, PhaseKind::Compute),
        };
        let held =
            |h: &Hold| (h.task, h.phase) == (task, kind) && !self.has_ended(h.until, h.end_of);
        ready && !self.holds.iter().any(held)
    }

    fn phases(&self) -> Vec<Phase> {
        let of_task = |(task, spans): (usize, &[(f64, f64); 3])| {
            let spans = *spans;
            PHASES.map(|kind| Phase {
                task,
                kind,
                start_s: spans[kind as usize].0,
                end_s: spans[kind as usize].1,
            })
        };
        self.spans.iter().enumerate().flat_map(of_task).collect()
    }
}
