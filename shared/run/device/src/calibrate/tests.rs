use doc::{DesignKind, Documents, Frames, Header, Measured, Sample};
use units::corun::Setting;
use units::{Batch, Share};

use super::*;

const WORKLOAD: &str = r#"{"schema":"mt.workload/1","device":{"kind":"sim","gpu_description":
    {"name":"real","sms":82,"fp32_tflops":20,"memory_gb_per_s":700,
     "host":{"us_per_step":3000,"us_per_sample":90,"contention":0.3,"launch_us":6}}},
    "tasks":[{"id":"a","model":"resnet18","batch_sizes":[32,128]},
             {"id":"b","model":"vgg16","batch_sizes":[64]}]}"#;

fn profile() -> Profile {
    let workload = Documents::<_, Workload>::new(Frames::new(WORKLOAD.as_bytes(), "test"))
        .next()
        .unwrap()
        .unwrap();
    let mut sim = Sim::open(&workload, &Options::default()).unwrap();
    let run = |task, batch, percent| Setting {
        task,
        batch: Batch::new(batch).unwrap(),
        share: Share::from_percent(percent).unwrap(),
    };
    let configurations = [
        vec![run(0, 32, 100.0)],
        vec![run(0, 128, 100.0)],
        vec![run(1, 64, 100.0)],
        vec![run(0, 32, 50.0), run(1, 64, 50.0)],
        vec![run(0, 128, 30.0), run(1, 64, 90.0)],
    ];
    let samples = configurations.iter().enumerate().map(|(config, runs)| {
        let measured = sim.measure(runs, &SHORT).unwrap();
        let tasks = runs
            .iter()
            .zip(&measured.rates)
            .map(|(run, rate)| Measured {
                id: workload.tasks[run.task].id.clone(),
                batch: run.batch,
                share: run.share,
                throughput: rate.throughput,
                stderr: None,
                gradient: None,
                launch: doc::Launch::default(),
            });
        Sample {
            config: config as u64,
            tasks: tasks.collect(),
            window: measured.window,
            repeats: 1,
            gpu: None,
        }
    });
    let samples = samples.collect();
    Profile {
        samples,
        ..Profile::empty(Header {
            device: sim.fingerprint(),
            workload,
            design: DesignKind::Given,
            seed: 1,
            window: None,
            aim: None,
            provenance: Vec::new(),
        })
    }
}

#[test]
fn finds_figures_that_explain_a_profile() {
    let start = GpuSpec::Named("rtx-3090".to_owned());
    let found = calibrate(&profile(), &start, &Options::default()).unwrap();
    assert!(found.error_before > 0.1, "{}", found.error_before);
    assert!(found.error_after < 0.05, "{}", found.error_after);
    assert_eq!(found.samples, 5);
    assert_eq!(found.gpu.sms, 82);
    assert_eq!(found.gpu.memory_bytes, Some(24 << 30));
}

#[test]
fn the_true_figures_leave_no_error() {
    let profile = profile();
    let start = profile.header.workload.device.gpu.clone().unwrap();
    let found = calibrate(&profile, &start, &Options::default()).unwrap();
    assert_eq!((found.error_before, found.error_after), (0.0, 0.0));
}

#[test]
fn a_profile_without_samples_is_refused() {
    let empty = Profile::empty(profile().header);
    let start = GpuSpec::Named("rtx-3090".to_owned());
    assert!(calibrate(&empty, &start, &Options::default()).is_err());
}
