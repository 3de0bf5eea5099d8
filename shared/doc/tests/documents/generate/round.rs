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
                batches: vec![wire::TaskBatch {
                    id: names[0].clone(),
                    batch: 64,
                }],
                phases: names.iter().enumerate().map(phase).collect(),
                download_order: names,
                makespan_s: numbers[0],
                lower_bound_s: numbers[1],
                gap,
                proven,
                overlap_off_s: numbers[2],
                search,
                plan,
                provenance: Vec::new(),
            }
        })
        .boxed()
}

/// A launch event with everything an event may have.
pub fn event() -> BoxedStrategy<wire::RunEvent> {
    let numbers = vec(positive(), 8);
    let counts = (any::<u32>(), any::<u64>(), any::<i32>());
    (
        fingerprint(),
        numbers,
        counts,
        text(),
        timeline(),
        plan(),
        finite(),
    )
        .prop_map(
            |(device, n, (small, large, signed), text, timeline, plan, loss)| wire::RunEvent {
                schema: wire::RunEvent::SCHEMA.to_owned(),
                event: EventKind::Launch,
                time_s: n[0],
                round: Some(small),
                task: Some("a".to_owned()),
                batch: Some(large),
                share_percent: Some(n[1]),
                pid: Some(small),
                samples: Some(large),
                samples_per_s: Some(n[2]),
                predicted_samples_per_s: Some(n[3]),
                loss: Some(loss),
                phase: Some(PhaseKind::Upload),
                start_s: Some(n[4]),
                end_s: Some(n[5]),
                code: Some(signed),
                signal: Some(signed),
                restarts: Some(small),
                reason: Some(text),
                ok: Some(true),
                makespan_s: Some(n[6]),
                planned_makespan_s: Some(n[7]),
                tasks: vec![wire::TaskSummary {
                    id: "a".to_owned(),
                    finished: true,
                    samples: large,
                    samples_per_s: Some(n[2]),
                    predicted_samples_per_s: None,
                    first_loss: Some(loss),
                    last_loss: None,
                    restarts: small,
                    code: None,
                    signal: Some(signed),
                }],
                device: Some(device),
                timeline: Some(Box::new(timeline)),
                plan: Some(Box::new(plan)),
                provenance: Vec::new(),
            },
        )
        .boxed()
}
