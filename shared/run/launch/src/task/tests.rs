use doc::{PlanTask, Task};
use units::Batch;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A task whose process computes.
fn computing(begun: Instant) -> TaskRun {
    let mut task = TaskRun::new(begun, Share::FULL, None, false);
    task.stage = Stage::Computing;
    task.begin();
    task.starts = 1;
    task
}

fn summary(task: &TaskRun) -> TaskSummary {
    let text = r#"{"schema":"mt.workload/1","tasks":[{"id":"a","batch_sizes":[32],"job":{"argv":["true"]}}]}"#;
    let frames = doc::Frames::new(text.as_bytes(), "test");
    let workload = doc::Documents::<_, doc::Workload>::new(frames)
        .next()
        .unwrap()
        .unwrap();
    let known: &Task = &workload.tasks[0];
    let planned = PlanTask {
        id: known.id.clone(),
        gpu: None,
        samples: None,
        load: None,
        update_bytes: None,
    };
    task.summary(&Assignment {
        planned: &planned,
        task: known,
        batch: Batch::new(32).unwrap(),
        share: Share::FULL,
        predicted: None,
    })
}

fn get(rate: Option<SamplesPerSec>) -> Option<f64> {
    rate.map(SamplesPerSec::get)
}

/// The duration of steps that are read together with the first one is unknown.
#[test]
fn steps_that_are_read_with_the_first_have_no_rate() {
    let begun = Instant::now();
    let mut task = computing(begun);
    task.warm(begun, begun);
    let opened = Some(begun);
    task.step(begun, 960, None);
    assert_eq!(task.tell(begun, opened).unwrap().rate, None);
    task.step(begun + SECOND, 320, None);
    let progress = task.tell(begun + SECOND, opened).unwrap();
    assert_eq!(get(progress.rate), Some(320.0));
    assert_eq!(progress.trained.unwrap().get(), 1.0);
    assert!(task.tell(begun + SECOND, opened).is_none(), "told twice");
    let summary = summary(&task);
    assert_eq!((summary.samples, get(summary.rate)), (1280, Some(320.0)));
    assert_eq!(summary.together.unwrap().get(), 1.0);
}

#[test]
fn only_intervals_in_which_all_tasks_train_count_for_all() {
    let begun = Instant::now();
    let mut task = computing(begun);
    task.warm(begun, begun);
    task.step(begun + SECOND, 1000, None);
    task.tell(begun + SECOND, None).unwrap();
    assert_eq!(summary(&task).together, None);
    assert_eq!(get(summary(&task).rate), Some(1000.0));
    // The others become ready in the middle of an interval.
    let opened = Some(begun + SECOND + SECOND / 2);
    assert!(task.is_untold(opened));
    for (at, samples) in [(2, 500), (3, 100), (4, 100)] {
        task.step(begun + at * SECOND, samples, None);
        task.tell(begun + at * SECOND, opened).unwrap();
    }
    let summary = summary(&task);
    assert_eq!(get(summary.rate), Some(100.0));
    assert_eq!(summary.together.unwrap().get(), 2.0);
    assert_eq!(summary.trained.unwrap().get(), 4.0);
}

#[test]
fn a_process_that_was_started_again_counts_for_all_from_its_first_progress() {
    let begun = Instant::now();
    let mut task = computing(begun);
    task.starts = 2;
    task.warm(begun, begun);
    for at in 1..=3 {
        task.step(begun + at * SECOND, 100, None);
        let progress = task.tell(begun + at * SECOND, Some(begun)).unwrap();
        assert_eq!(get(progress.rate), Some(100.0));
    }
    assert_eq!(summary(&task).together.unwrap().get(), 2.0);
}

/// Progress that does not fit into the reader's queue is included in the next report, and nothing counts twice.
#[test]
fn what_was_not_told_is_told_later() {
    let begun = Instant::now();
    let (mut one, mut other) = (computing(begun), computing(begun));
    for task in [&mut one, &mut other] {
        task.warm(begun, begun);
    }
    let opened = Some(begun);
    let mut told = Moments::default();
    let norms = efficiency::GradientNorms::new(8, 12.0, 32, 4.5).unwrap();
    for at in 1..=4 {
        for task in [&mut one, &mut other] {
            let mut gradient = Moments::default();
            gradient.add(&norms);
            task.gradients(&gradient);
            task.step(
                begun + at * SECOND,
                u64::from(100 * at),
                Some(f64::from(at)),
            );
        }
        let before = one.reported;
        let progress = one.tell(begun + at * SECOND, opened).unwrap();
        if at == 2 || at == 3 {
            one.not_told(before);
            assert_eq!(one.reported.at, Some(begun + at * SECOND));
        } else {
            told.merge(&Moments::from(&progress.gradient.unwrap()));
        }
    }
    // Norms of the two dropped reports came with the last one.
    assert_eq!(told.to_document().unwrap().steps, 4);
    let late = other.tell(begun + 4 * SECOND, opened).unwrap();
    assert_eq!((late.dropped, late.gradient.unwrap().steps), (0, 4));
    let (one, other) = (summary(&one), summary(&other));
    assert_eq!((one.dropped, other.dropped), (2, 0));
    assert_eq!((one.rate, one.together), (other.rate, other.together));
    assert_eq!((one.trained, one.samples), (other.trained, other.samples));
    assert_eq!((one.first_loss, one.last_loss), (Some(1.0), Some(4.0)));
}
