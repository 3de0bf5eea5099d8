//! Starting the process of a phase.

use doc::{DeviceKind, EventPayload, PhaseKind};
use host::{Gpus, Grant, Work};
use runner::{Limits, Policy as _, Reports, Start};

use super::{RoundRun, Run};
use crate::session::log_name;
use crate::turns::Stage;

impl RoundRun<'_> {
    /// Begins a phase: starts its program, or ends it at once if there is none on this host.
    pub(super) fn begin_phase(&mut self, run: &mut Run<'_>, i: usize, stage: Stage) {
        let task = &mut self.tasks[i];
        task.stage = stage;
        task.phase_began = Some(run.now());
        task.restarts_of_phase = 0;
        self.start(run, i);
    }

    /// Ends a phase that takes no time, without an event.
    fn skip_phase(&mut self, i: usize) {
        let task = &mut self.tasks[i];
        task.phase_began = None;
        // Clears the time of a retry, which would otherwise stay due for ever.
        task.retry_at = None;
        task.stage = match task.stage {
            Stage::Downloading => Stage::WaitCompute,
            _ => Stage::Done,
        };
    }

    /// Arguments of the program of the current phase; after a fault, of the program that continues.
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

    /// Starts the program of the current phase. A failed start counts as a failure of the phase.
    pub(super) fn start(&mut self, run: &mut Run<'_>, i: usize) {
        let argv = self.argv(i);
        let resumed = self.continues(i);
        match self.admit(run, i, &argv) {
            Ok(true) => {}
            Ok(false) => return self.skip_phase(i),
            Err(reason) => return self.failed(run, i, reason),
        }
        let task = &mut self.tasks[i];
        task.begin();
        if task.stage != Stage::Computing {
            return;
        }
        if !resumed {
            task.samples = 0;
        }
        task.reported.samples = task.samples;
        task.starts += 1;
        let assignment = self.with.launch.assignments().nth(i);
        let (batch, predicted) = (
            assignment.map(|a| a.batch),
            assignment.and_then(|a| a.predicted),
        );
        run.tell(EventPayload::Start {
            round: self.number,
            task: self.id(i),
            batch,
            share: Some(self.tasks[i].share),
            gpu: None,
            beside: None,
            pid: run.pid(i),
            predicted,
        });
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

    fn admit(&self, run: &mut Run<'_>, i: usize, argv: &[String]) -> Result<bool, String> {
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
            batch: Some(planned.batch),
            env: &[],
            round: self.number,
            samples: planned.samples().filter(|_| compute),
            orders: false,
            log: self.with.logs.join(log_name(&planned.planned.id)),
            log_limits: self.with.settings.supervision.log_limits,
        };
        let grant = Grant {
            gpus: Gpus::one(planned.gpu()),
            processors: self.with.cpus[i].clone(),
            // Only MPS can enforce a limit; the other devices refuse one.
            memory: planned.memory().filter(|_| run.kind() == DeviceKind::Cuda),
            ..Grant::of(task.share)
        };
        let start = Start {
            work: &work,
            grant: &grant,
            limits: self.limits(i, phase),
        };
        run.start(i, &start).map_err(|error| error.to_string())
    }

    fn limits(&self, i: usize, phase: PhaseKind) -> Limits {
        let (task, settings) = (&self.tasks[i], self.with.settings);
        let until = task.due.zip(settings.total);
        if phase != PhaseKind::Compute {
            return Limits {
                until,
                ..Limits::default()
            };
        }
        Limits {
            ready: settings.ready,
            stall: settings.stall,
            until,
            grace: None,
            reports: match (task.silent, self.has_regex(i)) {
                (true, _) => Reports::Nothing,
                (false, true) => Reports::Matched,
                (false, false) => Reports::Lines,
            },
        }
    }
}
