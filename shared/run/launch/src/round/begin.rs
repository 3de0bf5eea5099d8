//! Starting the process of a phase.

use doc::{DeviceKind, EventPayload, PhaseKind};
use host::{Gpus, Grant, Regrants, Work};
use jobs::JobId;

use super::RoundRun;
use crate::session::log_name;
use crate::turns::Stage;

impl RoundRun<'_> {
    /// Begins a phase: starts its program, or ends it at once if there is none on this host.
    pub(super) fn begin_phase(&mut self, i: usize, stage: Stage) {
        let task = &mut self.tasks[i];
        task.stage = stage;
        task.phase_began = Some(self.with.host.now());
        task.restarts_of_phase = 0;
        self.start(i);
    }

    /// A phase that takes no time is not reported.
    fn skip_phase(&mut self, i: usize) {
        let task = &mut self.tasks[i];
        task.phase_began = None;
        // Deadline of a failed first try; otherwise it would stay due for ever.
        task.retry_at = None;
        task.stage = match task.stage {
            Stage::Downloading => Stage::WaitCompute,
            _ => Stage::Done,
        };
    }

    /// The program of the current phase; after a fault, the one that continues.
    fn argv(&self, i: usize) -> Vec<String> {
        let assignments: Vec<_> = self.with.launch.assignments().collect();
        let Some(job) = assignments[i].job() else {
            return Vec::new();
        };
        let task = &self.tasks[i];
        match task.stage {
            Stage::Downloading => job.download.clone(),
            Stage::Uploading => job.upload.clone(),
            _ if task.restarts_of_phase > 0 && !job.resume.is_empty() => job.resume.clone(),
            _ => job.argv.clone(),
        }
    }

    /// Starts the program of the current phase. If the start fails, it is a failure like any other.
    pub(super) fn start(&mut self, i: usize) {
        let argv = self.argv(i);
        let job = match self.admit(i, &argv) {
            Ok(Some(job)) => job,
            Ok(None) => return self.skip_phase(i),
            Err(reason) => return self.failed(i, reason),
        };
        let resumed = self.continues(i);
        let task = &mut self.tasks[i];
        task.begin(job, self.with.host.now());
        if task.stage != Stage::Computing {
            return;
        }
        if !resumed {
            task.samples = 0;
        }
        task.reported.samples = task.samples;
        task.starts += 1;
        let pid = self.with.host.pid(job);
        let assignment = self.with.launch.assignments().nth(i);
        let (batch, predicted) = (
            assignment.map(|a| a.batch),
            assignment.and_then(|a| a.predicted),
        );
        self.tell(EventPayload::Start {
            round: self.number,
            task: self.id(i),
            batch,
            share: Some(self.tasks[i].share),
            gpu: None,
            beside: None,
            // A process id is never negative.
            pid: pid.and_then(|p| u32::try_from(p).ok()),
            predicted,
        });
        // It will never report that it is ready. A quota can be set at once; a client of MPS cannot be verified
        // before it connects, and the time of that is unknown.
        if self.tasks[i].silent && self.with.host.regrants() == Regrants::Now {
            self.settle(i, job);
        }
    }

    /// Whether the current process continues from a checkpoint of its predecessor.
    fn continues(&self, i: usize) -> bool {
        let job = self
            .with
            .launch
            .assignments()
            .nth(i)
            .and_then(|a| a.task.job.as_ref());
        self.tasks[i].restarts_of_phase > 0 && job.is_some_and(|j| !j.resume.is_empty())
    }

    fn admit(&mut self, i: usize, argv: &[String]) -> Result<Option<JobId>, String> {
        let launch = self.with.launch;
        let Some(planned) = launch.assignments().nth(i) else {
            return Err("the plan has no such task".to_owned());
        };
        let task = &self.tasks[i];
        let Some(phase) = task.phase() else {
            return Err("no phase of it is under way".to_owned());
        };
        let compute = phase == PhaseKind::Compute;
        let work = Work {
            task: planned.task,
            phase,
            argv,
            batch: planned.batch,
            round: self.number,
            samples: planned.samples().filter(|_| compute),
            orders: false,
            log: self.with.logs.join(log_name(&planned.planned.id)),
            log_limits: self.with.settings.supervision.log_limits,
        };
        let grant = Grant {
            gpus: Gpus::one(planned.gpu()),
            share: task.share,
            processors: self.with.cpus[i].clone(),
            // Only MPS can enforce a limit; the other devices refuse one.
            memory: planned
                .memory()
                .filter(|_| self.with.host.fingerprint().kind == DeviceKind::Cuda),
            start: 0,
        };
        let admitted = self.with.host.admit(&work, &grant);
        admitted.map_err(|error| error.to_string())
    }
}
