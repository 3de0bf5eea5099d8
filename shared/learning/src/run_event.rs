use doc::{Arrival, EventPayload, Planned, RunEvent, TrainingBatch, TrainingEvent, TrainingNews};

/// What an event of a launched run says about its trainings: the launch names them, progress with
/// a step and GPUs is progress, a round's end is the end of those that have finished. Nothing where
/// an event says nothing about learning.
#[must_use]
pub fn events_of_run(event: &RunEvent) -> Vec<TrainingEvent> {
    let news = match &event.payload {
        EventPayload::Launch { planned, .. } => arrivals(planned.as_ref()),
        EventPayload::Progress { task, progress, .. } => {
            let told = progress.step.zip(progress.gpus.filter(|g| *g > 0));
            let news = told.map(|(step, gpus)| TrainingNews::Progress {
                task: task.clone(),
                step,
                gpus,
                loss: progress.loss,
                batch: progress.batch,
            });
            news.into_iter().collect()
        }
        EventPayload::Summary { tasks, .. } => tasks
            .iter()
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

fn arrivals(planned: Option<&Planned>) -> Vec<TrainingNews> {
    let plan = match planned {
        Some(Planned::Plan(plan)) => plan.as_ref(),
        Some(Planned::Timeline(timeline)) => &timeline.plan,
        None => return Vec::new(),
    };
    let arrival = |(i, task): (usize, &doc::PlanTask)| {
        TrainingNews::Arrive(Box::new(Arrival {
            task: task.id.clone(),
            min_gpus: None,
            max_gpus: None,
            target_loss: None,
            total_steps: None,
            total_samples: task.samples,
            plateau: None,
            weight: None,
            batch: plan.given(i).batch.map(TrainingBatch::Global),
        }))
    };
    plan.tasks.iter().enumerate().map(arrival).collect()
}
