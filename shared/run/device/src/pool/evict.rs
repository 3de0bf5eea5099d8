//! Ending workers: to make room, because they are stuck, or at the end.

use std::time::{Duration, Instant};

use jobs::{JobId, Order};
use units::corun::Setting;

use super::{Pool, Worker};

/// How long to wait for the end of a worker: a host gives up a process five seconds after SIGKILL, and this is a little
/// longer.
const GIVEN_UP: Duration = Duration::from_secs(6);

impl Pool {
    /// Ends every worker.
    pub(crate) fn end_all(&mut self) {
        while let Some(worker) = self.workers.last() {
            self.end(worker.job);
        }
    }

    /// Evicts the least recently used workers that this configuration does not need until there is room for a worker of
    /// `run`.
    pub(super) fn make_room(&mut self, run: &Setting, configuration: &[Setting]) {
        while self.workers.len() >= self.capacity.clients || !self.fits(run) {
            let victim = self
                .workers
                .iter()
                .filter(|w| w.parked && !self.is_needed(w, configuration))
                .min_by_key(|w| w.used)
                .map(|w| w.job);
            let Some(job) = victim else {
                return;
            };
            self.end(job);
        }
    }

    /// After a worker ran out of memory: limits the capacity to the current number of workers, and evicts one that the
    /// configuration does not need. Returns false if there is none, so that no room can be made.
    pub(crate) fn shrink(&mut self, configuration: &[Setting]) -> bool {
        self.tidy();
        let idle = self
            .workers
            .iter()
            .filter(|w| !self.is_needed(w, configuration));
        let Some(job) = idle.min_by_key(|w| w.used).map(|w| w.job) else {
            return false;
        };
        self.capacity.clients = self.workers.len().max(configuration.len());
        self.end(job);
        true
    }

    pub(super) fn is_needed(&self, worker: &Worker, configuration: &[Setting]) -> bool {
        configuration.iter().any(|run| self.serves(worker, run))
    }

    pub(super) fn fits(&self, run: &Setting) -> bool {
        let Some(capacity) = self.capacity.memory else {
            return true;
        };
        let used: f64 = self
            .workers
            .iter()
            .map(|w| self.need(w.run.task, w.run.batch))
            .sum();
        used + self.need(run.task, run.batch) <= capacity
    }

    /// Forgets workers that have ended unnoticed, and ends those that did not become ready.
    pub(crate) fn tidy(&mut self) {
        let host = &self.host;
        self.workers.retain(|w| host.is_running(w.job));
        let is_stuck = |w: &&Worker| !w.ready;
        let stuck: Vec<JobId> = self
            .workers
            .iter()
            .filter(is_stuck)
            .map(|w| w.job)
            .collect();
        for job in stuck {
            self.end(job);
        }
    }

    /// Ends a worker that trained while it should be parked. From now on, every worker of its task is ended after its
    /// sample.
    pub(crate) fn distrust(&mut self, job: JobId) {
        if let Some(worker) = self.workers.iter().find(|w| w.job == job) {
            self.restless.insert(worker.run.task);
        }
        self.end(job);
    }

    /// Ends a worker: a parked one is first asked to quit, any other is stopped by the host.
    pub(crate) fn end(&mut self, job: JobId) {
        let Some(index) = self.workers.iter().position(|w| w.job == job) else {
            return;
        };
        let worker = self.workers.remove(index);
        let asked = worker.pool && self.host.order(job, Order::Quit).is_ok();
        if asked && worker.parked && self.gone(&worker, self.patience.grace) {
            return;
        }
        self.host.stop(job, self.patience.grace);
        self.gone(&worker, self.patience.grace + GIVEN_UP);
    }

    fn gone(&mut self, worker: &Worker, patience: Duration) -> bool {
        let job = worker.job;
        let deadline = Instant::now() + patience;
        while self.host.is_running(job) && Instant::now() < deadline {
            for event in self
                .host
                .poll(Some(Instant::now() + Duration::from_millis(20)))
            {
                match event.job == job {
                    true => self.tell(worker.run.task, &event.what),
                    false => self.note(&event),
                }
            }
        }
        !self.host.is_running(job)
    }
}
