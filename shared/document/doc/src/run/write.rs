//! Converts a typed event to its flat form in a file.

use units::{SamplesPerSec, Seconds, Share};

use super::{EventPayload, Learning, Planned, ProcessEnd, RunEvent, TaskProgress, TaskSummary};
use crate::Document;
use crate::wire;

pub(super) fn to_wire(event: &RunEvent) -> wire::RunEvent {
    let mut w = wire::RunEvent::new(event.kind(), event.time.get());
    w.round = event.round();
    w.task = event.task().map(|id| id.as_str().to_owned());
    w.reason = event.reason().map(str::to_owned);
    match event.planned() {
        Some(Planned::Timeline(timeline)) => w.timeline = Some(Box::new(timeline.to_wire())),
        Some(Planned::Plan(plan)) => w.plan = Some(Box::new(plan.to_wire())),
        None => {}
    }
    match &event.payload {
        EventPayload::Launch {
            device, provenance, ..
        } => {
            w.device = Some(device.clone());
            w.provenance.clone_from(provenance);
        }
        EventPayload::Start {
            batch,
            share,
            gpu,
            beside,
            pid,
            predicted,
            ..
        } => {
            w.gpu.clone_from(gpu);
            w.beside = beside.as_ref().map(ToString::to_string);
            w.batch = batch.map(|b| u64::from(b.get()));
            w.share_percent = share.map(Share::percent);
            w.pid = *pid;
            w.predicted_samples_per_s = predicted.map(SamplesPerSec::get);
        }
        EventPayload::Progress { progress, .. } => write_progress(progress, &mut w),
        EventPayload::Phase {
            phase, start, end, ..
        } => {
            w.phase = Some(*phase);
            w.start_s = Some(start.get());
            w.end_s = Some(end.get());
        }
        EventPayload::Exit { phase, end, .. } => {
            w.phase = *phase;
            (w.code, w.signal) = code_and_signal(Some(*end));
        }
        EventPayload::Restart { restarts, .. } => w.restarts = *restarts,
        EventPayload::Reshare {
            share,
            gpus,
            expected_end,
            ..
        } => {
            w.share_percent = share.map(Share::percent);
            w.gpus = *gpus;
            w.expected_end_s = expected_end.map(Seconds::get);
        }
        EventPayload::Round {
            ok,
            makespan,
            planned_makespan,
            tasks,
            learning,
            ..
        } => {
            w.learning = learning.as_ref().map(learning_of);
            w.planned_makespan_s = planned_makespan.map(Seconds::get);
            write_ending(*ok, *makespan, tasks, &mut w);
        }
        EventPayload::Summary {
            ok,
            makespan,
            tasks,
        } => write_ending(*ok, *makespan, tasks, &mut w),
        EventPayload::Ready { .. }
        | EventPayload::Replan { .. }
        | EventPayload::Stop { .. }
        | EventPayload::Fault { .. } => {}
    }
    w
}

fn write_progress(progress: &TaskProgress, w: &mut wire::RunEvent) {
    w.samples = Some(progress.samples);
    w.samples_per_s = progress.rate.map(SamplesPerSec::get);
    w.loss = progress.loss;
    w.step = progress.step;
    w.seconds = progress.trained.map(Seconds::get);
    w.gradient = progress.gradient;
    w.gpus = progress.gpus;
    w.batch = progress.batch.map(|b| u64::from(b.get()));
    w.dropped = Some(progress.dropped).filter(|dropped| *dropped > 0);
}

fn write_ending(ok: bool, makespan: Seconds, tasks: &[TaskSummary], w: &mut wire::RunEvent) {
    w.ok = Some(ok);
    w.makespan_s = Some(makespan.get());
    w.tasks = tasks.iter().map(summary).collect();
}

fn learning_of(learning: &Learning) -> wire::Learning {
    wire::Learning {
        choice: learning.choice,
        earlier: learning.earlier,
        expected_s: learning.expected.map(Seconds::get),
        best_s: learning.best.map(Seconds::get),
        first_s: learning.first.map(Seconds::get),
        saved_s: learning.saved_s,
        noise: learning.noise,
        drift: learning.drift,
    }
}

fn code_and_signal(end: Option<ProcessEnd>) -> (Option<i32>, Option<i32>) {
    match end {
        None => (None, None),
        Some(ProcessEnd::Code(code)) => (Some(code), None),
        Some(ProcessEnd::Signal(signal)) => (None, Some(signal)),
    }
}

fn summary(task: &TaskSummary) -> wire::TaskSummary {
    let (code, signal) = code_and_signal(task.end);
    wire::TaskSummary {
        id: task.id.as_str().to_owned(),
        finished: task.finished,
        interrupted: task.interrupted,
        samples: task.samples,
        batch: task.batch.map(|b| u64::from(b.get())),
        share_percent: task.share.map(Share::percent),
        seconds: task.trained.map(Seconds::get),
        together_s: task.together.map(Seconds::get),
        samples_per_s: task.rate.map(SamplesPerSec::get),
        predicted_samples_per_s: task.predicted.map(SamplesPerSec::get),
        first_loss: task.first_loss,
        last_loss: task.last_loss,
        restarts: task.restarts,
        dropped: task.dropped,
        code,
        signal,
    }
}
