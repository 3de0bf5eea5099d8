//! Timelines and events of a run.

use doc::wire::{self, Wire};
use doc::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A timeline of a plan; its phases overlap at random.
pub fn timeline() -> BoxedStrategy<wire::Timeline> {
    (
        plan(),
        vec(positive(), 8),
        finite(),
        search(),
        any::<bool>(),
    )
        .prop_map(|(plan, numbers, gap, search, proven)| {
            let names: Vec<String> = plan.tasks.iter().map(|t| t.id.clone()).collect();
            let phase = |(i, name): (usize, &String)| {
                let (a, b) = (numbers[i], numbers[i + 4]);
                wire::Phase {
                    task: name.clone(),
                    phase: PhaseKind::Compute,
                    start_s: a.min(b),
                    end_s: a.max(b),
                }
            };
            wire::Timeline {
                schema: wire::Timeline::SCHEMA.to_owned(),
                id: plan.id.clone(),
                rates: RatesKind::Fixed,
                upload_order: names.iter().rev().cloned().collect(),
                holds: names
                    .windows(2)
                    .map(|w| wire::Hold {
                        task: w[1].clone(),
                        phase: PhaseKind::Compute,
                        until_downloaded: (gap > 1.0).then(|| w[0].clone()),
                        until_computed: (gap <= 1.0).then(|| w[0].clone()),
                        until_uploaded: None,
                    })
                    .collect(),
                batches: vec![wire::TaskBatch {
                    id: names[0].clone(),
                    batch: 64,
                }],
                phases: names.iter().enumerate().map(phase).collect(),
                download_order: names,
                makespan_s: numbers[0],
                lower_bound_s: numbers[1],
                gap,
                single_order: gap > 0.0,
                proven,
                proven_among: proven.then_some(ScheduleClass::Waiting),
                overlap_off_s: numbers[2],
                search,
                plan,
                provenance: Vec::new(),
            }
        })
        .boxed()
}

/// An event of any kind with every field that its kind may have.
pub fn event() -> BoxedStrategy<wire::RunEvent> {
    let numbers = vec(positive(), 4);
    let counts = (any::<u32>(), any::<u64>(), any::<i32>());
    let kind = prop::sample::select(&EventKind::ALL[..]);
    (kind, numbers, counts, text(), finite(), carried())
        .prop_map(|(kind, n, (small, large, signed), text, loss, carried)| {
            let mut event = wire::RunEvent::new(kind, n[0]);
            let w = &mut event;
            match kind {
                EventKind::Launch => (w.timeline, w.plan, w.device) = carried,
                EventKind::Replan => (w.timeline, w.plan, _) = carried,
                EventKind::Start => {
                    w.batch = Some(64);
                    w.share_percent = Some(12.5);
                    w.gpu = Some(text.clone());
                    w.beside = (small % 2 == 0).then(|| "beside".to_owned());
                    w.pid = Some(small);
                    w.predicted_samples_per_s = Some(n[1]);
                }
                EventKind::Progress => {
                    (w.samples, w.samples_per_s) = (Some(large), Some(n[1]));
                    (w.step, w.seconds, w.gpus) = (Some(large), Some(n[2]), Some(small));
                    (w.loss, w.batch) = (Some(loss), Some(512));
                    w.gradient = Some(GradientNoise {
                        steps: 7,
                        squared_norm: loss,
                        variance: n[3],
                    });
                }
                EventKind::Phase => {
                    w.phase = Some(PhaseKind::Upload);
                    (w.start_s, w.end_s) = (Some(n[1]), Some(n[2]));
                }
                EventKind::Exit if small % 2 == 0 => w.code = Some(signed),
                EventKind::Exit => (w.signal, w.phase) = (Some(signed), Some(PhaseKind::Compute)),
                EventKind::Restart => w.restarts = Some(small),
                EventKind::Reshare => w.share_percent = Some(100.0),
                EventKind::Round | EventKind::Summary => {
                    (w.ok, w.makespan_s) = (Some(large % 2 == 0), Some(n[1]));
                    w.planned_makespan_s = Some(n[2]).filter(|_| kind == EventKind::Round);
                    w.learning = (kind == EventKind::Round).then(|| wire::Learning {
                        choice: ShareChoice::Trial,
                        earlier: large,
                        expected_s: Some(n[0]),
                        best_s: None,
                        first_s: Some(n[3]),
                        saved_s: loss,
                        noise: n[1],
                        drift: n[2],
                    });
                    w.tasks = vec![task_summary(&n, loss, small, large, signed)];
                }
                EventKind::Ready | EventKind::Stop | EventKind::Fault => {}
            }
            if !matches!(kind, EventKind::Launch | EventKind::Summary) {
                w.round = Some(small);
            }
            let whole = [EventKind::Launch, EventKind::Summary, EventKind::Round];
            if !whole.contains(&kind) && kind != EventKind::Replan {
                w.task = Some("a".to_owned());
            }
            let told = [EventKind::Start, EventKind::Ready, EventKind::Progress];
            if !whole.contains(&kind) && !told.contains(&kind) {
                w.reason = Some(text);
            }
            event
        })
        .boxed()
}

type Carried = (
    Option<Box<wire::Timeline>>,
    Option<Box<wire::Plan>>,
    Option<DeviceFingerprint>,
);

/// A timeline or a plan, and a device.
fn carried() -> BoxedStrategy<Carried> {
    (timeline(), plan(), fingerprint(), any::<bool>())
        .prop_map(|(timeline, plan, device, ordered)| {
            let timeline = ordered.then(|| Box::new(timeline));
            let plan = (!ordered).then(|| Box::new(plan));
            (timeline, plan, Some(device))
        })
        .boxed()
}

fn task_summary(
    n: &[f64],
    loss: f64,
    restarts: u32,
    samples: u64,
    signal: i32,
) -> wire::TaskSummary {
    wire::TaskSummary {
        id: "a".to_owned(),
        finished: true,
        interrupted: restarts.is_multiple_of(2),
        samples,
        batch: Some(64),
        share_percent: Some(12.5),
        seconds: Some(n[1]),
        together_s: Some(n[0]),
        samples_per_s: Some(n[2]),
        predicted_samples_per_s: None,
        first_loss: Some(loss),
        last_loss: None,
        restarts,
        dropped: u64::from(restarts % 3),
        code: None,
        signal: Some(signal),
    }
}
