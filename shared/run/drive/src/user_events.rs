//! Reactions to events from the user, and reports about the state of the jobs.

use std::time::Duration;

use cluster::{Names, document};
use doc::{ClusterStatus, QueueNews};
use units::{Seconds, TaskId};

use crate::driver::{Driver, Run, Running, look_at_journal, now};

/// Minimum time between two writes of the status, which is only for readers; nothing waits for it.
const STATUS: Duration = Duration::from_secs(2);

impl Driver<'_> {
    /// Handles the events that are due.
    pub fn heed_orders(&mut self, run: &mut Run<'_>) {
        if self.orders.is_over() {
            return;
        }
        let (due, wrong) = self.orders.due(now(run));
        if let Some(problem) = wrong {
            run.warn(&format!("--events: {problem}; the run goes on"));
        }
        for event in due {
            if let Err(problem) = self.heed(run, &event.what) {
                run.warn(&format!("--events: ignored: {problem}"));
            }
        }
        if self.orders.is_over() {
            // As long as events can come, a lost GPU may be found again, so jobs are given up only after that.
            self.give_up_stuck(run);
        }
    }

    fn heed(&mut self, run: &mut Run<'_>, what: &QueueNews) -> Result<(), String> {
        match what {
            QueueNews::Weight { job, weight } => {
                let n = self.open_job(job)?;
                self.agenda.reweigh(n, weight.get());
                self.replan(run, &format!("{job} has weight {}", weight.get()));
            }
            QueueNews::Estimate { job, estimate } => {
                let n = self.open_job(job)?;
                if estimate.rounds_left.is_some() {
                    return Err(format!(
                        "{job} has the rounds of its schedule; give train_s, or cancel it and plan anew"
                    ));
                }
                let (_, _, representatives) = document::fleet(self.cluster);
                let times =
                    document::times_by_class(self.cluster, &representatives, &estimate.train);
                let times = times.map_err(|kind| format!("no GPU is of type {kind:?}"))?;
                self.agenda.estimate(n, None, &times);
                self.replan(run, &format!("new estimate of how long {job} takes"));
            }
            QueueNews::Deadline { job, at } => {
                let n = self.open_job(job)?;
                self.agenda.due(n, at.map_or(f64::INFINITY, Seconds::get));
                let told = match at {
                    Some(at) => format!("{job} should be complete at {} s", at.get()),
                    None => format!("{job} no longer has a deadline"),
                };
                self.replan(run, &told);
            }
            QueueNews::Cancelled { job } => {
                let n = self.open_job(job)?;
                self.give_up(run, n, "it was cancelled");
            }
            QueueNews::Lost { gpu } => {
                let m = self.gpu(gpu)?;
                self.lose_now(run, m);
            }
            QueueNews::Found { gpu } => {
                let m = self.gpu(gpu)?;
                self.agenda.use_gpu(m, true);
                self.lost.remove(&m);
                self.failures[m].clear();
                self.replan(run, &format!("{gpu} is found"));
            }
            QueueNews::Status if self.settings.status.is_some() => self.write_status_now(run),
            QueueNews::Status => {
                return Err("say with --status FILE where it is to be written".to_owned());
            }
            QueueNews::Time => {}
            QueueNews::Arrival(_) => {
                let text = "a run has only the jobs of its schedule; give new ones to `mt-cluster online --events`";
                return Err(text.to_owned());
            }
            QueueNews::Started { .. }
            | QueueNews::Trained(_)
            | QueueNews::Finished(_)
            | QueueNews::Failed(_) => {
                return Err("a run tracks its own tasks".to_owned());
            }
        }
        Ok(())
    }

    fn open_job(&self, job: &TaskId) -> Result<usize, String> {
        let at = self.cluster.jobs.iter().position(|j| j.id == *job);
        let n = at.ok_or_else(|| format!("the schedule has no job {:?}", job.as_str()))?;
        match self.agenda.is_open(n) {
            true => Ok(n),
            false => Err(format!("{job} has ended")),
        }
    }

    fn gpu(&self, name: &str) -> Result<usize, String> {
        let at = self.seats.all.iter().position(|s| s.name == name);
        at.ok_or_else(|| format!("the cluster has no GPU {name:?}"))
    }

    /// A GPU is lost: tasks on it are ended and started again on other GPUs. A job that no other GPU can run waits
    /// until a suitable one is found.
    fn lose_now(&mut self, run: &mut Run<'_>, gpu: usize) {
        self.agenda.use_gpu(gpu, false);
        self.lost.insert(gpu);
        let here = self
            .running
            .iter_mut()
            .filter(|(_, r)| r.gpu == gpu && r.ended.is_none());
        let mut gone = Vec::new();
        for (&id, running) in here.filter(|(_, r)| r.trained.is_none()) {
            running.ended = Some("its GPU is lost");
            gone.push((id, *running));
        }
        let at = now(run);
        for (id, Running { place, .. }) in gone {
            // Processes on a lost node save no checkpoint, and one that only seems lost must not
            // continue beside its successor.
            run.stop_within(id, Duration::ZERO, "its GPU is lost".to_owned());
            self.agenda.failed(place, at);
            if self.agenda.is_gang(place.job) {
                self.end_gang(run, place.job);
                let written = self.kept.undone(self.cluster, place.job);
                look_at_journal(run, written);
            }
        }
        self.leave(run, gpu, "it was said to be lost");
        if self.orders.is_over() {
            self.give_up_stuck(run);
        }
    }

    /// Gives up jobs that no remaining GPU can run.
    pub fn give_up_stuck(&mut self, run: &mut Run<'_>) {
        for job in self.agenda.stuck() {
            self.give_up(run, job, "no GPU is left that can run it");
        }
    }

    /// Writes the status of the jobs if it is due.
    pub fn keep_status(&mut self, run: &mut Run<'_>) {
        let at = run.now();
        if self.told_status.is_none_or(|t| at >= t + STATUS) {
            self.told_status = Some(at);
            self.write_status_now(run);
        }
    }

    fn write_status_now(&mut self, run: &mut Run<'_>) {
        if let Some(problem) = self.write_status(now(run)) {
            run.warn(&problem);
        }
    }

    /// Writes the status of the jobs, if a file for it was named. The file is replaced atomically, so that a reader
    /// never sees an incomplete one. Returns the error of the first failure.
    pub fn write_status(&mut self, at: f64) -> Option<String> {
        let file = self.settings.status.as_ref()?;
        let jobs: Vec<TaskId> = self.cluster.jobs.iter().map(|j| j.id.clone()).collect();
        let gpus: Vec<String> = self.seats.all.iter().map(|s| s.name.clone()).collect();
        let names = Names {
            jobs: &jobs,
            gpus: &gpus,
        };
        let status = self.agenda.outlook(at, &names).and_then(|jobs| {
            Ok(ClusterStatus {
                time: Seconds::new(at)?,
                lost: self.lost.iter().map(|&m| gpus[m].clone()).collect(),
                jobs,
            })
        });
        let written = status
            .map_err(|error| error.to_string())
            .and_then(|status| {
                let mut line = Vec::new();
                doc::write_line(&mut line, &status).map_err(|error| error.to_string())?;
                file.write(&line).map_err(|error| error.to_string())
            });
        // Only the first failure is reported, since a disk that is full for hours would otherwise fill the log.
        let problem = written.err()?;
        let told = std::mem::replace(&mut self.told_unwritten, true);
        (!told).then(|| format!("--status: {problem}"))
    }
}
