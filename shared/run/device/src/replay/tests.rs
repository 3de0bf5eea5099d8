use doc::{Frames, Profiles};
use units::corun::Setting;
use units::{Batch, Share};

use super::*;

const PROFILE: &str = r#"
{"schema":"mt.profile/1","record":"header","workload":{"schema":"mt.workload/1","tasks":[
  {"id":"a","job":{"argv":["a"]},"batch_sizes":[32]},{"id":"b","job":{"argv":["b"]},"batch_sizes":[64]}]},
 "device":{"kind":"cuda","name":"X","simulated":false},"design":"given","seed":1}
{"schema":"mt.profile/1","record":"sample","config":0,"window_s":1,"repeats":1,"tasks":[
  {"id":"b","batch":64,"share_percent":50,"samples_per_s":10,"stderr_samples_per_s":3},
  {"id":"a","batch":32,"share_percent":40,"samples_per_s":100}]}
{"schema":"mt.profile/1","record":"sample","config":1,"window_s":2,"repeats":3,"tasks":[
  {"id":"a","batch":32,"share_percent":40,"samples_per_s":200},
  {"id":"b","batch":64,"share_percent":50,"samples_per_s":30,"stderr_samples_per_s":3}]}
{"schema":"mt.profile/1","record":"failure","config":2,"reason":"out of memory","tasks":[
  {"id":"a","batch":32,"share_percent":100}]}
"#;

fn run(task: usize, batch: u64, percent: f64) -> Setting {
    Setting {
        task,
        batch: Batch::new(batch).unwrap(),
        share: Share::from_percent(percent).unwrap(),
    }
}

#[test]
fn answers_with_what_was_recorded_and_with_nothing_else() {
    let recording = Profiles::new(Frames::new(PROFILE.as_bytes(), "p"))
        .next()
        .unwrap()
        .unwrap();
    let mut replay = Replay::open(&recording.header.workload, &recording).unwrap();
    assert_eq!(replay.fingerprint().kind, DeviceKind::Replay);
    let window = Window {
        least: Seconds::new(1.0).unwrap(),
        most: Seconds::new(1.0).unwrap(),
        precision: 0.01,
        repeats: 1,
    };
    let got = replay
        .measure(&[run(0, 32, 40.0), run(1, 64, 50.0)], &window)
        .unwrap();
    assert_eq!((got.repeats, got.window.get()), (4, 1.75));
    assert_eq!(got.rates[0].throughput.get(), 175.0);
    assert_eq!(got.rates[0].stderr, None);
    assert_eq!(got.rates[1].throughput.get(), 25.0);
    let want = (0.75_f64.powi(2) * 9.0 + 0.25_f64.powi(2) * 9.0).sqrt();
    assert!((got.rates[1].stderr.unwrap().get() - want).abs() < 1e-12);
    assert_eq!(
        replay.measure(&[run(0, 32, 100.0)], &window),
        Err(MeasureError::Failed(Box::new(Failed {
            reason: "out of memory".to_owned(),
            cause: None,
            task: None,
            output: String::new(),
        })))
    );
    assert_eq!(
        replay.measure(&[run(0, 32, 41.0)], &window),
        Err(MeasureError::Unrecorded)
    );
    assert_eq!(replay.only().unwrap().len(), 2);
}

#[test]
fn a_recording_of_other_tasks_is_refused() {
    let recording = Profiles::new(Frames::new(PROFILE.as_bytes(), "p"))
        .next()
        .unwrap()
        .unwrap();
    let mut workload = recording.header.workload.clone();
    for task in &mut workload.tasks {
        task.id = TaskId::new(&format!("{}x", task.id)).unwrap();
    }
    assert!(Replay::open(&workload, &recording).is_err());
}
