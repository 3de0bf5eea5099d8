//! Reports: events of the run, events for the controller, and the state for users.

use doc::{EventPayload, TaskProgress, TrainingEvent, TrainingNews};
use jobs::as_seconds;
use runner::Row;
use units::Batch;

use super::member::{Member, Stage};
use super::session::{ElasticLaunch, Run};
use crate::task::rate;

impl ElasticLaunch<'_> {
    pub(super) fn tell_controller(&mut self, run: &mut Run<'_>, what: TrainingNews) {
        let event = TrainingEvent::new(run.elapsed(), what);
        if let Some(warning) = self.controller.tell(&event) {
            run.warn(&warning);
        }
    }

    /// Reports the progress of trainings since the last report; `all`: even if it is not time yet.
    pub(super) fn report_progress(&mut self, run: &mut Run<'_>, all: bool) {
        for i in 0..self.members.len() {
            self.report_one(run, i, all);
        }
    }

    pub(super) fn report_one(&mut self, run: &mut Run<'_>, i: usize, all: bool) {
        let every = self.settings.progress_every;
        let now = run.now();
        let member = &mut self.members[i];
        let (gpus, batch) = (member.gpus.len(), member.batch);
        let p = &mut member.progress;
        let due = p.tried_at.is_none_or(|at| now.duration_since(at) >= every);
        let Some(last_step) = p.last_step.filter(|_| p.samples != p.reported_samples) else {
            return;
        };
        if !(all || due) {
            return;
        }
        let new = p.samples.saturating_sub(p.reported_samples);
        let seconds = p
            .reported_at
            .map(|at| last_step.saturating_duration_since(at));
        let measured = seconds.and_then(|s| rate(new, s.as_secs_f64()));
        p.rate = measured.map(units::SamplesPerSec::get).or(p.rate);
        p.tried_at = Some(last_step);
        let gpus = u32::try_from(gpus).ok().filter(|g| *g > 0);
        let progress = TaskProgress {
            samples: p.samples,
            rate: measured,
            loss: p.loss,
            step: Some(p.step),
            trained: Some(as_seconds(p.trained)),
            gpus,
            batch: Batch::new(batch).ok(),
            gradient: p.gradient.to_document(),
            dropped: p.dropped.0,
        };
        let news = gpus.map(|gpus| TrainingNews::Progress {
            task: self.members[i].arrival.task.clone(),
            step: self.members[i].progress.step,
            gpus,
            loss: progress.loss,
            batch: progress.batch,
            gradient: progress.gradient,
        });
        let payload = EventPayload::Progress {
            round: 0,
            task: self.id(i),
            progress,
        };
        // A report at the end must be delivered, because no later report would cover it.
        let told = if all {
            run.tell(payload);
            true
        } else {
            run.tell_progress(payload)
        };
        self.members[i].progress.was_told(last_step, told);
        if let Some(news) = news {
            self.tell_controller(run, news);
        }
    }

    /// The state for the terminal and the file of metrics.
    pub(super) fn rows(&self) -> Vec<Row> {
        let all = f64::from(self.count());
        let row = |m: &Member| Row {
            task: m.arrival.task.to_string(),
            state: m.state(),
            share: 100.0 * m.gpus.len() as f64 / all,
            batch: u32::try_from(m.batch).unwrap_or(u32::MAX),
            samples: Some(m.progress.samples),
            wanted: m.samples(m.batch),
            rate: m.progress.rate.filter(|_| m.stage == Stage::Training),
            predicted: None,
            loss: m.progress.loss,
            restarts: m.progress.restarts,
        };
        self.members.iter().map(row).collect()
    }
}
