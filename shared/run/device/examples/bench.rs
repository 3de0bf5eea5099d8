//! Measures what a sample on a GPU costs with parked workers and with restarts, on a fake daemon and with jobs that
//! take 5 s to start (`--json`: in the form of [`testkit::bench`]).

use std::process::ExitCode;

use device::{Device as _, Window};
use device::{Options, Real, Setup, Way};
use host::discovery::{Gpu, MpsSupport};
use jobs::mps::MpsOptions;
use testkit::bench::Row;
use testkit::fakes::FakeMps;
use units::corun::Setting;
use units::{Batch, Bytes, Seconds, Share};

type BenchError = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    testkit::bench::run(|| Ok(vec![row()?]))
}

fn row() -> Result<Row, BenchError> {
    let fake = FakeMps::install();
    let value = seconds_per_sample(&fake, true, Way::Woken, 6)?;
    let baseline_value = seconds_per_sample(&fake, false, Way::Restarted, 2)?;
    Ok(Row::new(
        "gpu_sample_parked_workers",
        (value, "s"),
        ("restart for every configuration", baseline_value),
        "wall clock of one sample of two tasks with a window of 0.2 s, jobs that start in 5 s \
         (fake workers and daemon)",
    ))
}

fn seconds_per_sample(
    fake: &FakeMps,
    pool: bool,
    way: Way,
    samples: u32,
) -> Result<f64, BenchError> {
    let root = tempfile::tempdir()?;
    let mps = MpsOptions {
        program: fake.control(),
        root: root.path().join("mps"),
        gpus: Vec::new(),
        timeout: std::time::Duration::from_secs(5),
    };
    let mut setup = Setup::new(gpu()?, mps, 2);
    setup.runs = root.path().join("runs");
    setup.patience.warm_up = std::time::Duration::ZERO;
    let mut device = Real::cuda_with(&workload(fake, pool)?, setup, &Options::default())?;
    let run = |task| -> Result<Setting, BenchError> {
        Ok(Setting {
            task,
            batch: Batch::new(8)?,
            share: Share::from_percent(50.0)?,
        })
    };
    let window = Window {
        least: Seconds::new(0.2)?,
        most: Seconds::new(0.2)?,
        precision: 0.01,
        repeats: 1,
    };
    for _ in 0..samples {
        device.measure(&[run(0)?, run(1)?], &window)?;
    }
    let tally = device.costs().of(way);
    Ok(tally.total.as_secs_f64() / f64::from(tally.samples))
}

fn gpu() -> Result<Gpu, BenchError> {
    Ok(Gpu {
        uuid: "GPU-0".into(),
        name: "Fake GPU".into(),
        sms: 80,
        memory: Bytes::new(1 << 30)?,
        compute_capability: (7, 0),
        cuda_version: (12, 6),
        driver: None,
        mps: MpsSupport::Available { client_limit: 48 },
        unverified: None,
    })
}

fn workload(fake: &FakeMps, pool: bool) -> Result<doc::Workload, BenchError> {
    let worker = fake.worker();
    let task = |id: &str| {
        format!(
            r#"{{"id":"{id}","flops_per_sample":1e9,"bytes_per_sample":1e6,"batch_sizes":[8],
            "job":{{"argv":["{}"],"pool":{pool},"env":{{"FAKE_START_S":"5"}}}}}}"#,
            worker.display()
        )
    };
    let text = format!(
        r#"{{"schema":"mt.workload/1","tasks":[{},{}]}}"#,
        task("a"),
        task("b")
    );
    let frames = doc::Frames::new(text.as_bytes(), "bench");
    let mut documents = doc::Documents::<_, doc::Workload>::new(frames);
    Ok(documents.next().ok_or("no workload")??)
}
