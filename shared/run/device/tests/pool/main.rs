//! The cuda device with fake workers and a fake daemon: every way a sample can go.

mod ends;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use device::{Device as _, MeasureError, Measurement, Window};
use device::{Options, Real, Setup, Way};
use host::discovery::{Gpu, MpsSupport};
use jobs::mps::MpsOptions;
use testkit::fakes::FakeMps;
use units::corun::Setting;
use units::{Batch, Bytes, Seconds, Share};

struct Bench {
    fake: FakeMps,
    root: tempfile::TempDir,
    interrupted: Arc<AtomicBool>,
}

impl Bench {
    fn new() -> Self {
        Self {
            fake: FakeMps::install(),
            root: tempfile::tempdir().expect("a temporary folder"),
            interrupted: Arc::default(),
        }
    }

    fn setup(&self, tasks: usize) -> Setup {
        let gpu = Gpu {
            uuid: "GPU-0".into(),
            name: "Fake GPU".into(),
            sms: 80,
            memory: Bytes::new(1 << 30).expect("bytes"),
            compute_capability: (7, 0),
            cuda_version: (12, 6),
            driver: None,
            mps: MpsSupport::Available { client_limit: 48 },
            unverified: None,
        };
        let mps = MpsOptions {
            program: self.fake.control(),
            root: self.root.path().join("mps"),
            gpus: Vec::new(),
            timeout: Duration::from_secs(2),
        };
        let mut setup = Setup::new(gpu, mps, tasks);
        setup.runs = self.root.path().join("runs");
        setup.patience.warm_up = Duration::ZERO;
        setup.patience.stall = Duration::from_secs(2);
        setup.host.recovery = Duration::from_secs(2);
        setup.patience.ready = Duration::from_secs(15);
        setup.patience.park = Duration::from_secs(5);
        setup.patience.grace = Duration::from_millis(500);
        setup
    }

    /// A workload with one task for each mode; each records its starts in the file `starts`.
    fn workload(&self, pool: bool, modes: &[&str], more: &str) -> doc::Workload {
        let tasks: Vec<String> = modes
            .iter()
            .enumerate()
            .map(|(i, mode)| {
                format!(
                    r#"{{"id":"t{i}","flops_per_sample":1e9,"bytes_per_sample":1e6,
                    "batch_sizes":[8,16],"memory":{{"fixed_bytes":100000000,"bytes_per_sample":0}},
                    "job":{{"argv":["{}"],"pool":{pool},
                    "env":{{"FAKE_MODE":"{mode}","FAKE_STARTS":"{}"{more}}}}}}}"#,
                    self.fake.worker().display(),
                    self.root.path().join("starts").display(),
                )
            })
            .collect();
        read(&tasks.join(","))
    }

    fn open(&self, workload: &doc::Workload, setup: Setup) -> Real {
        let options = Options {
            interrupted: self.interrupted.clone(),
            ..Options::default()
        };
        Real::cuda_with(workload, setup, &options).expect("the device opens")
    }

    fn starts(&self) -> Vec<String> {
        fs::read_to_string(self.root.path().join("starts"))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn nothing_left(&self) {
        assert_eq!(FakeMps::processes_below(self.root.path()), [] as [i32; 0]);
    }
}

/// A workload of tasks, as JSON.
fn read(tasks: &str) -> doc::Workload {
    let text =
        format!(r#"{{"schema":"mt.workload/1","device":{{"kind":"cuda"}},"tasks":[{tasks}]}}"#);
    let frames = doc::Frames::new(text.as_bytes(), "test");
    doc::Documents::<_, doc::Workload>::new(frames)
        .next()
        .expect("one document")
        .expect("a workload")
}

fn run(task: usize, batch: u64, share: f64) -> Setting {
    Setting {
        task,
        batch: Batch::new(batch).expect("a batch size"),
        share: Share::from_percent(share).expect("a share"),
    }
}

fn window(least: f64) -> Window {
    Window {
        least: Seconds::new(least).expect("seconds"),
        most: Seconds::new(least).expect("seconds"),
        precision: 0.01,
        repeats: 1,
    }
}

fn throughputs(m: &Measurement) -> Vec<f64> {
    m.rates.iter().map(|r| r.throughput.get()).collect()
}

fn failure(result: Result<Measurement, MeasureError>) -> String {
    match result {
        Err(MeasureError::Failed(failed)) => failed.reason,
        other => panic!("expected a failed configuration, got {other:?}"),
    }
}

#[test]
fn parked_workers_are_woken_and_not_started_again() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", "unaware"], "");
    let mut device = bench.open(&workload, bench.setup(2));
    let both = [run(0, 8, 50.0), run(1, 8, 25.0)];
    let m = device.measure(&both, &window(0.3)).unwrap();
    assert_eq!(m.rates.len(), 2);
    assert!(throughputs(&m).iter().all(|&t| t > 50.0), "{m:?}");
    // Another batch size is an order to the same worker and shows in the samples.
    let larger = device.measure(&[run(0, 16, 50.0)], &window(0.3)).unwrap();
    let ratio = throughputs(&larger)[0] / throughputs(&m)[0];
    assert!((1.2..3.5).contains(&ratio), "{ratio}");
    // The two start at once, in any order.
    let mut first = bench.starts();
    first.sort();
    assert_eq!(first, ["t0 50", "t1 25"]);
    // Another share needs another worker: the percentage is read once, at the start.
    device.measure(&[run(0, 8, 75.0)], &window(0.2)).unwrap();
    assert_eq!(bench.starts()[2..], ["t0 75"]);
    assert_eq!(device.workers(), 3);
    assert_eq!(device.costs().of(Way::Woken).samples, 1);
    assert_eq!(device.costs().of(Way::Started).samples, 2);
    let summary = device.summary().unwrap();
    assert!(summary.contains("50 %: 40, 75 %: 60"), "{summary}");
    drop(device);
    bench.nothing_left();
}

#[test]
fn what_coming_configurations_need_starts_along() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", "hangs deaf", ""], "");
    let mut setup = bench.setup(3);
    // A sound client must be ready in time even on a busy machine.
    setup.patience.ready = Duration::from_secs(5);
    let mut device = bench.open(&workload, setup);
    // Two processors suffice for the sound task and the broken one.
    let ahead = std::thread::available_parallelism().map_or(1, usize::from) > 1;
    device.expect(vec![vec![run(1, 8, 100.0)], vec![run(2, 8, 100.0)]]);
    device
        .measure(&[run(0, 8, 100.0)], &window(0.1))
        .expect("a broken worker that nothing needs yet breaks nothing");
    assert_eq!(bench.starts().len(), if ahead { 2 } else { 1 });
    let alone = failure(device.measure(&[run(1, 8, 100.0)], &window(0.1)));
    assert!(alone.contains("task t1: reported no progress"), "{alone}");
    let starts = bench.starts().len();
    device.expect(vec![vec![run(2, 16, 100.0)]]);
    device
        .measure(&[run(0, 8, 50.0)], &window(0.1))
        .expect("a sample");
    let more = bench.starts().len() - starts;
    assert_eq!(more, 1, "once one has failed, none starts along");
}

#[test]
fn a_parked_worker_trains_nothing() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", ""], "");
    let mut device = bench.open(&workload, bench.setup(2));
    device
        .measure(&[run(0, 8, 50.0), run(1, 8, 50.0)], &window(0.2))
        .unwrap();
    let logs = || -> u64 {
        let mut all = Vec::new();
        let mut folders = vec![bench.root.path().join("runs")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else if entry.path().extension().is_some_and(|e| e == "log") {
                    all.push(entry.metadata().unwrap().len());
                }
            }
        }
        assert_eq!(all.len(), 2);
        all.iter().sum()
    };
    let before = logs();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(logs(), before);
}

#[test]
fn the_client_limit_evicts_the_least_recently_used() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", ""], "");
    let mut setup = bench.setup(2);
    setup.capacity.clients = 3;
    bench.fake.set("limit", "3");
    let mut device = bench.open(&workload, setup);
    for share in [10.0, 20.0, 30.0] {
        device.measure(&[run(0, 8, share)], &window(0.1)).unwrap();
    }
    device.measure(&[run(0, 8, 10.0)], &window(0.1)).unwrap();
    // 20 % was used longest ago; 10 % stays although it was started first.
    device
        .measure(&[run(0, 8, 10.0), run(1, 8, 40.0)], &window(0.1))
        .unwrap();
    assert_eq!(device.workers(), 3);
    device.measure(&[run(0, 8, 30.0)], &window(0.1)).unwrap();
    assert_eq!(bench.starts(), ["t0 10", "t0 20", "t0 30", "t1 40"]);
    device.measure(&[run(0, 8, 20.0)], &window(0.1)).unwrap();
    assert_eq!(bench.starts().len(), 5);
}

#[test]
fn memory_evicts_too() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", ""], "");
    let mut setup = bench.setup(2);
    setup.capacity.memory = Some(250e6);
    let mut device = bench.open(&workload, setup);
    for share in [10.0, 20.0, 30.0] {
        device.measure(&[run(0, 8, share)], &window(0.1)).unwrap();
        assert!(device.workers() <= 2);
    }
}

#[test]
fn a_start_without_room_is_tried_again_with_fewer_parked() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", ""], r#","FAKE_FITS":"2""#);
    let mut device = bench.open(&workload, bench.setup(2));
    for share in [10.0, 20.0, 30.0, 40.0] {
        device.measure(&[run(0, 8, share)], &window(0.1)).unwrap();
    }
    assert_eq!(device.workers(), 2);
    // The third was started twice; from then on the capacity is known.
    assert_eq!(
        bench.starts(),
        ["t0 10", "t0 20", "t0 30", "t0 30", "t0 40"]
    );
    // Three at once never fit, even if none is parked.
    let workload = bench.workload(true, &["", "", ""], r#","FAKE_FITS":"2""#);
    let mut device = bench.open(&workload, bench.setup(3));
    let three = [run(0, 8, 10.0), run(1, 8, 10.0), run(2, 8, 10.0)];
    let reason = failure(device.measure(&three, &window(0.1)));
    assert!(reason.contains("CUDA out of memory"), "{reason}");
}

#[test]
fn jobs_without_the_protocol_are_restarted() {
    let bench = Bench::new();
    let workload = bench.workload(false, &["", ""], "");
    let mut device = bench.open(&workload, bench.setup(2));
    let both = [run(0, 8, 50.0), run(1, 8, 50.0)];
    for _ in 0..2 {
        device.measure(&both, &window(0.2)).unwrap();
        assert_eq!(device.workers(), 0);
    }
    assert_eq!(bench.starts().len(), 4);
    assert_eq!(device.costs().of(Way::Restarted).samples, 2);
    assert!(bench.fake.commands().contains("terminate_client"));
}

#[test]
fn a_client_that_misses_the_daemon_is_started_once_more() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["late"], "");
    let mut device = bench.open(&workload, bench.setup(1));
    device.measure(&[run(0, 8, 50.0)], &window(0.1)).unwrap();
    assert_eq!(bench.starts().len(), 2);
    drop(device);
    let workload = bench.workload(true, &["misses"], "");
    let mut device = bench.open(&workload, bench.setup(1));
    let error = device
        .measure(&[run(0, 8, 50.0)], &window(0.1))
        .unwrap_err();
    assert!(matches!(error, MeasureError::Unusable(_)), "{error}");
    assert!(error.to_string().contains("MPS is off"), "{error}");
    drop(device);
    bench.nothing_left();
}

#[test]
fn a_share_that_did_not_take_effect_is_refused() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["whole"], "");
    let mut device = bench.open(&workload, bench.setup(1));
    let error = device
        .measure(&[run(0, 8, 50.0)], &window(0.1))
        .unwrap_err();
    assert!(
        error.to_string().contains("share was not applied"),
        "{error}"
    );
    // With 100 %, all of the GPU is correct.
    device.measure(&[run(0, 8, 100.0)], &window(0.1)).unwrap();
}

#[test]
fn a_fault_costs_one_configuration() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", "faults"], "");
    let mut device = bench.open(&workload, bench.setup(2));
    device.measure(&[run(0, 8, 50.0)], &window(0.1)).unwrap();
    let reason = failure(device.measure(&[run(0, 8, 50.0), run(1, 8, 50.0)], &window(0.3)));
    assert!(reason.contains("faulted and recovered"), "{reason}");
    assert!(reason.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{reason}");
    device.measure(&[run(0, 8, 50.0)], &window(0.1)).unwrap();
}

#[test]
fn a_server_that_stays_faulted_is_replaced() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", "faults"], "");
    let mut device = bench.open(&workload, bench.setup(2));
    bench.fake.set("stays_faulted", "");
    let reason = failure(device.measure(&[run(0, 8, 50.0), run(1, 8, 50.0)], &window(0.3)));
    assert!(reason.contains("had to be replaced"), "{reason}");
    device.measure(&[run(0, 8, 50.0)], &window(0.1)).unwrap();
    drop(device);
    bench.nothing_left();
}

#[test]
fn a_hanging_or_stalling_client_fails_its_configuration_alone() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", "hangs deaf", "stalls"], "");
    let mut setup = bench.setup(3);
    // A sound client must be ready in time even on a busy machine.
    setup.patience.ready = Duration::from_secs(5);
    setup.patience.stall = Duration::from_millis(700);
    let mut device = bench.open(&workload, setup);
    let reason = failure(device.measure(&[run(0, 8, 50.0), run(1, 8, 50.0)], &window(0.1)));
    assert!(
        reason.contains("task t1: reported no progress within 5 s"),
        "{reason}"
    );
    let reason = failure(device.measure(&[run(0, 8, 50.0), run(2, 8, 50.0)], &window(0.1)));
    assert!(reason.contains("task t2: made no step"), "{reason}");
    device.measure(&[run(0, 8, 50.0)], &window(0.1)).unwrap();
    drop(device);
    bench.nothing_left();
}

#[test]
fn a_worker_that_says_it_is_parked_and_trains_on_spoils_no_sample() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", "restless"], "");
    let mut device = bench.open(&workload, bench.setup(2));
    let both = [run(0, 8, 50.0), run(1, 8, 50.0)];
    device.measure(&both, &window(0.1)).unwrap();
    // It trains during this sample until that is noticed, and is ended.
    device.measure(&both[..1], &window(0.3)).unwrap();
    assert_eq!(device.workers(), 1);
    let summary = device.summary().unwrap();
    assert!(summary.contains("anew for every sample"), "{summary}");
    assert!(summary.contains("is parked: t1"), "{summary}");
    // From now on no worker of its task is kept.
    device.measure(&both, &window(0.1)).unwrap();
    assert_eq!(device.workers(), 1);
    device.measure(&both, &window(0.1)).unwrap();
    let starts = bench.starts();
    assert_eq!(starts.iter().filter(|s| *s == "t0 50").count(), 1);
    assert_eq!(starts.iter().filter(|s| *s == "t1 50").count(), 3);
    drop(device);
    bench.nothing_left();
}

#[test]
fn a_refused_terminate_does_not_keep_a_worker_alive() {
    let bench = Bench::new();
    let workload = bench.workload(false, &["deaf"], "");
    bench.fake.set("terminate_fails", "");
    let mut device = bench.open(&workload, bench.setup(1));
    device.measure(&[run(0, 8, 50.0)], &window(0.1)).unwrap();
    assert_eq!(device.workers(), 0);
    drop(device);
    bench.nothing_left();
}

#[test]
fn an_interrupt_ends_everything_soon() {
    let bench = Bench::new();
    let workload = bench.workload(true, &["", ""], "");
    let mut device = bench.open(&workload, bench.setup(2));
    let flag = bench.interrupted.clone();
    let setter = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        flag.store(true, Ordering::Relaxed);
    });
    let begun = Instant::now();
    let both = [run(0, 8, 50.0), run(1, 8, 50.0)];
    let error = device.measure(&both, &window(60.0)).unwrap_err();
    assert_eq!(error, MeasureError::Interrupted);
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_eq!(device.workers(), 0);
    setter.join().unwrap();
    drop(device);
    bench.nothing_left();
}

#[test]
fn jobs_are_pinned_to_their_processors() {
    let bench = Bench::new();
    let workload = bench.workload(true, &[""], "");
    let mut setup = bench.setup(1);
    setup.cpus = vec![vec![0]];
    let mut device = bench.open(&workload, setup);
    device.measure(&[run(0, 8, 50.0)], &window(0.1)).unwrap();
    let allowed = FakeMps::processes_below(bench.root.path())
        .into_iter()
        .filter_map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status
                .lines()
                .find(|l| l.starts_with("Cpus_allowed_list:"))?;
            (name.trim() == "fake-worker")
                .then(|| line.split_whitespace().last().map(str::to_owned))?
        })
        .collect::<Vec<_>>();
    assert!(
        !allowed.is_empty() && allowed.iter().all(|a| a == "0"),
        "{allowed:?}"
    );
}

#[test]
fn a_task_without_a_job_is_a_fault_of_the_workload() {
    let bench = Bench::new();
    let mut workload = bench.workload(true, &["", ""], "");
    workload.tasks[1].job = None;
    let error = Real::cuda_with(&workload, bench.setup(2), &Options::default())
        .err()
        .unwrap();
    assert!(error.to_string().contains("$.tasks[1].job"), "{error}");
}
