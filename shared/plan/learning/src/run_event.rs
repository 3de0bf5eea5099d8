use std::collections::BTreeSet;

use doc::{Arrival, EventPayload, Planned, RunEvent, TrainingEvent, TrainingNews};
use units::{Batch, Samples, TaskId};

/// Converts the events of a launched run to events of its trainings.
#[derive(Debug, Clone, Default)]
pub struct RunReader {
    /// Trainings that have arrived.
    known: BTreeSet<TaskId>,
}

impl RunReader {
    /// The training events of a run event. The launch announces all trainings of its plan; without
    /// a plan, a training arrives with its first start. Progress with a step and GPUs becomes a
    /// progress report; the end of a process, a pause until it is restarted; the summary, the end
    /// of all trainings. Events that are irrelevant to learning give none.
    #[must_use]
    pub fn events(&mut self, event: &RunEvent) -> Vec<TrainingEvent> {
        let news = match &event.payload {
            EventPayload::Launch { planned, .. } => self.planned(planned.as_ref()),
            EventPayload::Start { task, batch, .. } => {
                self.arrival(task, *batch, None).into_iter().collect()
            }
            EventPayload::Progress { task, progress, .. } => {
                let told = progress.step.zip(progress.gpus.filter(|g| *g > 0));
                let news = told.map(|(step, gpus)| TrainingNews::Progress {
                    task: task.clone(),
                    step,
                    gpus,
                    loss: progress.loss,
                    batch: progress.batch,
                    gradient: progress.gradient,
                });
                news.into_iter().collect()
            }
            EventPayload::Exit { task, .. } if self.known.contains(task) => {
                let (task, step) = (task.clone(), None);
                vec![TrainingNews::Parked { task, step }]
            }
            EventPayload::Summary { tasks, .. } => tasks
                .iter()
                .filter(|task| self.known.contains(&task.id))
                .map(|task| match task.finished {
                    true => TrainingNews::Done {
                        task: task.id.clone(),
                    },
                    false => TrainingNews::Failed {
                        task: task.id.clone(),
                        reason: None,
                    },
                })
                .collect(),
            _ => Vec::new(),
        };
        let at = |what| TrainingEvent::new(event.time, what);
        news.into_iter().map(at).collect()
    }

    fn planned(&mut self, planned: Option<&Planned>) -> Vec<TrainingNews> {
        let Some(plan) = planned.map(Planned::plan) else {
            return Vec::new();
        };
        let tasks = plan.tasks.iter().enumerate();
        tasks
            .filter_map(|(i, task)| self.arrival(&task.id, plan.given(i).batch, task.samples))
            .collect()
    }

    /// The arrival of a training; `None` if it has arrived before.
    fn arrival(
        &mut self,
        task: &TaskId,
        batch: Option<Batch>,
        samples: Option<Samples>,
    ) -> Option<TrainingNews> {
        self.known.insert(task.clone()).then(|| {
            TrainingNews::Arrive(Box::new(Arrival {
                total_samples: samples,
                batch,
                ..Arrival::new(task.clone())
            }))
        })
    }
}
