//! State of a launched run, from its events.

use doc::{
    DeviceFingerprint, EventPayload, PhaseKind, Planned, ProcessEnd, RunEvent, TaskProgress,
    TaskSummary,
};
use units::{SamplesPerSec, Share, TaskId};

use super::screen::{Row, Screen};

/// State of a run, from its events so far.
#[derive(Debug, Default)]
pub struct Launched {
    /// Source of the events.
    name: String,
    /// Device of the run, known after the launch event.
    pub device: Option<DeviceFingerprint>,
    tasks: Vec<Task>,
    time_s: f64,
    round: u32,
    /// Whether every task finished, once the run has ended.
    ok: Option<bool>,
    planned_makespan_s: Option<f64>,
    /// Makespan of the previous round.
    last_makespan_s: Option<f64>,
    /// The last problem or change.
    news: Option<String>,
}

#[derive(Debug)]
struct Task {
    id: TaskId,
    state: TaskState,
    round: Option<u32>,
    started_s: Option<f64>,
    ended_s: Option<f64>,
    share: Option<Share>,
    /// Number of samples per round.
    samples: Option<f64>,
    done: f64,
    rate: Option<SamplesPerSec>,
    predicted: Option<SamplesPerSec>,
    loss: Option<f64>,
    restarts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskState {
    Waits,
    Starts,
    Trains,
    Trained,
    Uploaded,
    Failed,
    Stopped,
}

impl Task {
    const fn new(id: TaskId) -> Self {
        Self {
            id,
            state: TaskState::Waits,
            round: None,
            started_s: None,
            ended_s: None,
            share: None,
            samples: None,
            done: 0.0,
            rate: None,
            predicted: None,
            loss: None,
            restarts: 0,
        }
    }

    fn row(&self, now_s: f64, over: bool) -> Row {
        let state = match self.state {
            TaskState::Waits => "waiting",
            TaskState::Starts => "starting",
            TaskState::Trains => "training",
            TaskState::Trained => "trained",
            TaskState::Uploaded => "uploaded",
            TaskState::Failed => "failed",
            TaskState::Stopped => "stopped",
        };
        let running = self.state == TaskState::Trains && !over;
        // A task without progress counts as nothing done until it has ended.
        let trained = matches!(self.state, TaskState::Trained | TaskState::Uploaded);
        let left = self.samples.zip(self.rate).filter(|_| running);
        let speed = self.rate.zip(self.predicted).filter(|_| running);
        let mut what = Vec::new();
        if let Some(rate) = self.rate {
            what.push(format!("{:.1} samples/s", rate.get()));
        }
        if let Some(loss) = self.loss {
            what.push(format!("loss {loss:.4}"));
        }
        if self.restarts > 0 {
            what.push(format!("{} restarts", self.restarts));
        }
        Row {
            id: self.id.to_string(),
            state: state.to_owned(),
            running,
            // Ended tasks are hidden by default, but a run has few tasks: list all of them.
            ended: false,
            time_s: self
                .started_s
                .map(|from| self.ended_s.unwrap_or(now_s) - from),
            share_percent: self.share.map(Share::percent),
            part: match trained {
                true => Some(1.0),
                false => self.samples.map(|samples| self.done / samples),
            },
            done: format!("{:.0}", self.done),
            left_s: left.map(|(samples, rate)| (samples - self.done).max(0.0) / rate.get()),
            of_predicted_percent: speed
                .map(|(rate, predicted)| 100.0 * rate.get() / predicted.get()),
            what: what.join(", "),
        }
    }
}

impl Launched {
    /// Makes a run without events; `name` is the source of its events.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the run has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.ok.is_some()
    }

    fn task(&mut self, id: &TaskId) -> &mut Task {
        let found = self.tasks.iter().position(|task| task.id == *id);
        let at = found.unwrap_or_else(|| {
            self.tasks.push(Task::new(id.clone()));
            self.tasks.len() - 1
        });
        &mut self.tasks[at]
    }

    /// Applies the next event.
    pub fn take(&mut self, event: &RunEvent) {
        let now = event.time.get();
        self.time_s = now;
        match &event.payload {
            EventPayload::Launch {
                device, planned, ..
            } => {
                self.device = Some(device.clone());
                self.follow(planned.as_ref());
            }
            EventPayload::Start {
                round,
                task,
                share,
                predicted,
                ..
            } => {
                self.round = *round;
                let task = self.task(task);
                if task.round != Some(*round) {
                    (task.round, task.done, task.started_s) = (Some(*round), 0.0, Some(now));
                }
                (task.state, task.ended_s) = (TaskState::Starts, None);
                task.share = share.or(task.share);
                task.predicted = predicted.or(task.predicted);
            }
            EventPayload::Ready { task, .. } => self.task(task).state = TaskState::Trains,
            EventPayload::Progress { task, progress, .. } => self.task(task).learn(progress),
            EventPayload::Phase {
                task,
                phase,
                reason,
                ..
            } => {
                let task = self.task(task);
                task.state = match (reason, phase) {
                    (Some(_), _) => TaskState::Failed,
                    (None, PhaseKind::Download) => task.state,
                    (None, PhaseKind::Compute) => TaskState::Trained,
                    (None, PhaseKind::Upload) => TaskState::Uploaded,
                };
                if *phase == PhaseKind::Compute {
                    task.ended_s = Some(now);
                }
            }
            EventPayload::Exit {
                task, end, reason, ..
            } => {
                if let Some(reason) = reason {
                    let how = match end {
                        ProcessEnd::Code(code) => format!("exit status {code}"),
                        ProcessEnd::Signal(signal) => format!("signal {signal}"),
                    };
                    self.news = Some(format!("{task}: {how}: {reason}"));
                }
            }
            EventPayload::Restart { task, reason, .. } => {
                self.news = Some(format!("{task} is started again: {reason}"));
                let task = self.task(task);
                task.restarts += 1;
                task.state = TaskState::Starts;
            }
            EventPayload::Reshare {
                task,
                share,
                reason,
                ..
            } => {
                self.news = Some(format!("{task}: {reason}"));
                let task = self.task(task);
                task.share = share.or(task.share);
            }
            EventPayload::Replan {
                reason, planned, ..
            } => {
                self.news = Some(format!("planned anew: {reason}"));
                self.follow(planned.as_ref());
            }
            EventPayload::Stop { task, reason, .. } => {
                let name = task.as_ref().map_or("the run", TaskId::as_str);
                self.news = Some(format!("{name} was stopped: {reason}"));
                if let Some(task) = task {
                    self.task(task).state = TaskState::Stopped;
                }
            }
            EventPayload::Fault { reason, .. } => self.news = Some(reason.clone()),
            EventPayload::Round {
                round,
                makespan,
                tasks,
                ..
            } => {
                self.round = *round;
                self.last_makespan_s = Some(makespan.get());
                self.end(tasks, now);
            }
            EventPayload::Summary { ok, tasks, .. } => {
                self.ok = Some(*ok);
                self.end(tasks, now);
            }
        }
    }

    fn follow(&mut self, planned: Option<&Planned>) {
        let Some(planned) = planned else { return };
        if let Planned::Timeline(timeline) = planned {
            self.planned_makespan_s = Some(timeline.makespan.get());
        }
        let plan = planned.plan();
        for (i, declared) in plan.tasks.iter().enumerate() {
            let given = plan.given(i);
            let task = self.task(&declared.id);
            task.samples = declared.samples.map(|samples| samples.get() as f64);
            task.share = given.share.or(task.share);
            task.predicted = given.throughput.map(|t| t.mean).or(task.predicted);
        }
    }

    fn end(&mut self, summaries: &[TaskSummary], now: f64) {
        for summary in summaries {
            let task = self.task(&summary.id);
            task.state = if summary.finished {
                TaskState::Trained
            } else if summary.interrupted {
                TaskState::Stopped
            } else {
                TaskState::Failed
            };
            task.done = summary.samples as f64;
            task.rate = summary.rate.or(task.rate);
            task.ended_s = task.ended_s.or(Some(now));
        }
    }

    /// The screen after the latest event.
    #[must_use]
    pub fn screen(&self) -> Screen {
        let now = self.time_s;
        let mut title = format!(
            "{}: round {}, {}",
            self.name,
            self.round + 1,
            queue::show::clock(now)
        );
        match self.ok {
            None if self.device.is_none() => title = format!("{}: no event yet", self.name),
            None => {}
            Some(true) => title += ", finished",
            Some(false) => title += ", ended, not every task finished",
        }
        let mut notes = Vec::new();
        if let Some(device) = &self.device {
            notes.push(device.name.clone());
        }
        let makespans = [
            (self.planned_makespan_s, "planned"),
            (self.last_makespan_s, "last"),
        ];
        let told: Vec<String> = makespans
            .iter()
            .filter_map(|(s, which)| s.map(|s| format!("{which} {s:.1} s")))
            .collect();
        if !told.is_empty() {
            notes.push(format!("round: {}", told.join(", ")));
        }
        notes.extend(self.news.clone());
        let rows = self.tasks.iter().map(|task| task.row(now, self.is_over()));
        Screen {
            title,
            notes,
            rows: rows.collect(),
        }
    }
}

impl Task {
    fn learn(&mut self, progress: &TaskProgress) {
        self.state = TaskState::Trains;
        self.done = progress.samples as f64;
        self.rate = progress.rate.or(self.rate);
        self.loss = progress.loss.or(self.loss);
    }
}

#[cfg(test)]
mod tests {
    use doc::{Documents, Frames};

    use super::super::screen;
    use super::*;

    const RUN: &str = r#"{"schema":"mt.run/1","event":"launch","time_s":0,"device":{"kind":"cpu","name":"two cores","simulated":false,"units":2}}
{"schema":"mt.run/1","event":"start","time_s":0.1,"round":0,"task":"a","batch":8,"share_percent":60,"pid":7,"predicted_samples_per_s":50}
{"schema":"mt.run/1","event":"start","time_s":0.1,"round":0,"task":"b","batch":8,"share_percent":70,"pid":8}
{"schema":"mt.run/1","event":"ready","time_s":1,"round":0,"task":"a"}
{"schema":"mt.run/1","event":"progress","time_s":11,"round":0,"task":"a","samples":400,"samples_per_s":40,"loss":0.25}
{"schema":"mt.run/1","event":"restart","time_s":12,"round":0,"task":"b","reason":"exit code 1"}
"#;

    fn read(text: &str) -> Launched {
        let mut run = Launched::new("run");
        for event in Documents::<_, RunEvent>::new(Frames::new(text.as_bytes(), "run")) {
            run.take(&event.unwrap());
        }
        run
    }

    #[test]
    fn a_run_is_told_task_by_task_with_its_speed_beside_the_prediction() {
        let text = screen::text(&read(RUN).screen(), 90);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "run: round 1, 12s");
        assert_eq!(lines[1], "two cores");
        assert_eq!(lines[2], "b is started again: exit code 1");
        assert!(lines[4].starts_with("a     training"), "{text}");
        assert!(
            lines[4].contains("60 %") && lines[4].contains("80 %"),
            "{text}"
        );
        assert!(lines[4].ends_with("40.0 samples/s, loss 0.2500"), "{text}");
        assert!(
            lines[5].contains("starting") && lines[5].ends_with("1 restarts"),
            "{text}"
        );
    }

    #[test]
    fn what_has_trained_without_progress_is_done() {
        let end = r#"{"schema":"mt.run/1","event":"phase","time_s":20,"round":0,"task":"b","phase":"compute","start_s":0.1,"end_s":20}"#;
        let rows = read(&format!("{RUN}{end}\n")).screen().rows;
        assert_eq!(rows[1].state, "trained");
        assert_eq!(rows[1].part, Some(1.0));
    }
}
