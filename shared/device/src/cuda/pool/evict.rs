//! Ending workers: to make room, because they are stuck, or at the end.

use std::time::{Duration, Instant};

use jobs::{JobId, Order};
use units::Batch;

use super::{Pool, Worker};
use crate::Run;
use jobs::mps::Mps;

impl Pool {
    /// Ends every worker.
    pub(in crate::cuda) fn end_all(&mut self, mps: &Mps) {
        while let Some(worker) = self.workers.last() {
            self.end(worker.job, mps);
        }
    }

    /// Evicts the least recently used workers that this configuration does not need until one
    /// more fits.
    pub(super) fn make_room(&mut self, run: &Run, configuration: &[Run], mps: &Mps) {
        while self.workers.len() >= self.limits.clients || !self.fits(run) {
            let victim = self
                .workers
                .iter()
                .filter(|w| w.parked && !needed(w, configuration))
                .min_by_key(|w| w.used)
                .map(|w| w.job);
            let Some(job) = victim else {
                return;
            };
            self.end(job, mps);
        }
    }

    /// After a worker found no memory: remembers that no more than these fit, and evicts one that
    /// the configuration does not need. False if there is none, so that no more room can be made.
    pub(in crate::cuda) fn shrink(&mut self, configuration: &[Run], mps: &Mps) -> bool {
        self.tidy(mps);
        let idle = self.workers.iter().filter(|w| !needed(w, configuration));
        let Some(job) = idle.min_by_key(|w| w.used).map(|w| w.job) else {
            return false;
        };
        self.limits.clients = self.workers.len().max(configuration.len());
        self.end(job, mps);
        true
    }

    fn fits(&self, run: &Run) -> bool {
        let Some(capacity) = self.limits.memory else {
            return true;
        };
        let need = |task: usize, batch: Batch| {
            let memory = self.tasks[task].memory.as_ref();
            memory.map_or(0.0, |m| m.at(batch))
        };
        let used: f64 = self
            .workers
            .iter()
            .map(|w| need(w.run.task, w.run.batch))
            .sum();
        used + need(run.task, run.batch) <= capacity
    }

    /// Forgets workers that have ended while others looked at the events, and ends those that
    /// did not become ready.
    pub(in crate::cuda) fn tidy(&mut self, mps: &Mps) {
        let supervisor = &self.supervisor;
        self.workers.retain(|w| supervisor.is_running(w.job));
        let stuck = |w: &&Worker| w.ready.is_none();
        let stuck: Vec<JobId> = self.workers.iter().filter(stuck).map(|w| w.job).collect();
        for job in stuck {
            self.end(job, mps);
        }
    }

    /// Ends the worker of a run, for one that is in the way.
    pub(in crate::cuda) fn end_run(&mut self, run: &Run, mps: &Mps) {
        if let Some(index) = self.position(run) {
            self.end(self.workers[index].job, mps);
        }
    }

    /// Ends a worker: a parked one is asked to, then its work on the GPU is ended by MPS before
    /// any signal that it could not refuse.
    pub(super) fn end(&mut self, job: JobId, mps: &Mps) {
        let Some(index) = self.workers.iter().position(|w| w.job == job) else {
            return;
        };
        let worker = self.workers.remove(index);
        let asked = worker.pool && self.supervisor.order(job, Order::Quit).is_ok();
        if asked && worker.parked && self.gone(job, self.limits.grace) {
            return;
        }
        if let Some(group) = self.supervisor.pid(job) {
            // Refused (it may not be a client): then the signals below are all there is.
            mps.terminate_group(group).ok();
        }
        self.supervisor.stop(job, self.limits.grace);
        self.gone(job, self.limits.grace + Duration::from_secs(5));
    }

    fn gone(&mut self, job: JobId, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while self.supervisor.is_running(job) && Instant::now() < deadline {
            for event in self.supervisor.poll(Duration::from_millis(20)) {
                self.note(&event);
            }
        }
        !self.supervisor.is_running(job)
    }
}

fn needed(worker: &Worker, configuration: &[Run]) -> bool {
    configuration
        .iter()
        .any(|run| (run.task, run.share) == (worker.run.task, worker.run.share))
}
