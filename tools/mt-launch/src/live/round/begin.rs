//! Starting the process of a phase.

use std::time::Instant;

use doc::{EventPayload, PhaseKind};
use jobs::{Assignment, JobSpec};

use super::Round;
use crate::live::log_name;
use crate::live::turns::Stage;

impl Round<'_, '_> {
    /// Begins a phase: starts its program, or ends it at once if it has none.
    pub(super) fn begin_phase(&mut self, i: usize, stage: Stage) {
        let task = &mut self.tasks[i];
        task.stage = stage;
        task.phase_began = Some(Instant::now());
        task.restarts_of_phase = 0;
        if self.argv(i).is_empty() {
            // Nothing to tell of a phase that takes no time.
            let task = &mut self.tasks[i];
            task.phase_began = None;
            task.stage = match stage {
                Stage::Downloading => Stage::WaitCompute,
                _ => Stage::Done,
            };
            return;
        }
        self.spawn(i);
    }

    /// The program of the phase under way; after a fault, the one that continues.
    fn argv(&self, i: usize) -> Vec<String> {
        let assignments: Vec<_> = self.live.launch.assignments().collect();
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

    /// Starts the program of the phase under way. Failing to start is a failure like any other.
    pub(super) fn spawn(&mut self, i: usize) {
        let argv = self.argv(i);
        let begun = self.specification(i, &argv).and_then(|spec| {
            self.live
                .supervisor
                .spawn(&spec)
                .map_err(|error| error.to_string())
        });
        let job = match begun {
            Ok(job) => job,
            Err(reason) => return self.failed(i, reason),
        };
        let resumed = self.continues(i);
        let task = &mut self.tasks[i];
        task.begin(job, Instant::now());
        if task.stage != Stage::Computing {
            return;
        }
        if !resumed {
            task.samples = 0;
        }
        task.reported.samples = task.samples;
        let pid = self.live.supervisor.pid(job);
        let assignment = self.live.launch.assignments().nth(i);
        let (batch, predicted) = (
            assignment.map(|a| a.batch),
            assignment.and_then(|a| a.predicted),
        );
        self.live.journal.write(EventPayload::Start {
            round: self.number,
            task: self.id(i),
            batch,
            share: Some(self.tasks[i].share),
            // A process id is never negative.
            pid: pid.and_then(|p| u32::try_from(p).ok()),
            predicted,
        });
    }

    /// Whether the process under way goes on from a checkpoint of the one before.
    fn continues(&self, i: usize) -> bool {
        let job = self
            .live
            .launch
            .assignments()
            .nth(i)
            .and_then(|a| a.task.job.as_ref());
        self.tasks[i].restarts_of_phase > 0 && job.is_some_and(|j| !j.resume.is_empty())
    }

    fn specification(&self, i: usize, argv: &[String]) -> Result<JobSpec, String> {
        let live = &*self.live;
        let Some(planned) = live.launch.assignments().nth(i) else {
            return Err("the plan has no such task".to_owned());
        };
        let task = &self.tasks[i];
        let compute = task.phase() == Some(PhaseKind::Compute);
        let assignment = Assignment {
            batch: Some(planned.batch),
            share: Some(task.share),
            device: live.enforcer.word(),
            round: self.number,
            samples: planned.samples().filter(|_| compute),
            orders: false,
        };
        let log = live.logs.join(log_name(&planned.planned.id));
        let mut spec = JobSpec::for_task(planned.task, argv, &assignment, log)
            .map_err(|error| error.to_string())?;
        spec.log_limits = live.settings.log_limits;
        if compute {
            let pool = planned.job().is_some_and(|job| job.pool);
            live.enforcer
                .prepare(&mut spec, (i, planned.gpu()), task.share, pool)?;
        }
        Ok(spec)
    }
}
