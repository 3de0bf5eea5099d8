//! A federation of devices with the bandwidths of real clients, through the real tools.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::rows::BenchError;

/// Bandwidths of federated clients, in a folder beside the workspace that is not part of it.
const CLIENTS: &str = "../shared/data/fl_device/client_capacity.csv";

const WORKLOAD: &str = r#"{"schema":"mt.workload/1","id":"client","device":{"kind":"sim","gpu":"rtx-3090"},
"link":{"down_bps":4e8,"up_bps":4e8},"tasks":[
{"id":"d121","model":"densenet121","batch_sizes":[64,128],"samples":18000,"update_bytes":{"down":30000000,"up":30000000}},
{"id":"r18","model":"resnet18","batch_sizes":[64,128],"samples":27000,"update_bytes":{"down":45000000,"up":45000000}},
{"id":"m3","model":"mobilenet_v3_large","batch_sizes":[64,128],"samples":9000,"update_bytes":{"down":15000000,"up":15000000}}]}"#;

/// How a stream of devices went through `mt-solve | mt-overlap`.
pub struct Streamed {
    pub seconds: f64,
    pub timelines: usize,
    /// Most memory that each of the two tools held, MiB.
    pub peak_mib: [f64; 2],
    /// What `mt-overlap` said of the federation.
    pub said: String,
}

/// Where `make bench` has built the tools.
fn tools() -> Result<PathBuf, BenchError> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/release");
    match tools.join("mt-solve").exists() {
        true => Ok(tools),
        false => Err(format!("{}: no tools; run `make build`", tools.display()).into()),
    }
}

fn filter(program: &Path, args: &[&str], input: &str) -> Result<String, BenchError> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let input = input.to_owned();
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| "the writer failed")??;
    if !output.status.success() {
        return Err(format!("{}: {}", program.display(), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// A model of three tasks by `mt-profile | mt-fit`, and the bandwidths of the clients in bits per
/// second; `None` where the measurements are absent.
pub struct Devices {
    tools: PathBuf,
    model: String,
    links: Vec<(f64, f64)>,
}

impl Devices {
    pub fn new(method: &str) -> Result<Option<Self>, BenchError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let Ok(text) = fs::read_to_string(root.join(CLIENTS)) else {
            return Ok(None);
        };
        // client,computation,communication,dl_kbps,ul_kbps
        let links = text.lines().skip(1).filter_map(|line| {
            let fields: Vec<f64> = line.split(',').filter_map(|f| f.parse().ok()).collect();
            (fields.len() == 5 && fields[3] > 0.0 && fields[4] > 0.0)
                .then(|| (fields[3] * 1e3, fields[4] * 1e3))
        });
        let tools = tools()?;
        let profile = filter(
            &tools.join("mt-profile"),
            &["--design", "random", "--budget", "125"],
            &WORKLOAD.replace('\n', ""),
        )?;
        let model = filter(&tools.join("mt-fit"), &["--method", method], &profile)?;
        Ok(Some(Self {
            model: model.trim_end().to_owned(),
            links: links.collect(),
            tools,
        }))
    }

    /// The model of one client.
    fn model_of(&self, client: usize) -> String {
        let (down, up) = self.links[client % self.links.len()];
        self.model
            .replacen(
                "\"link\":{\"down_bps\":400000000.0,\"up_bps\":400000000.0}",
                &format!("\"link\":{{\"down_bps\":{down},\"up_bps\":{up}}}"),
                1,
            )
            .replacen(
                "\"id\":\"client\"",
                &format!("\"id\":\"client-{client}\""),
                1,
            )
    }

    /// Streams some clients.
    pub fn stream(self: &Arc<Self>, mut clients: Range<usize>) -> Result<Streamed, BenchError> {
        if self.model_of(0) == self.model {
            return Err("the model does not hold the link as expected".into());
        }
        let table = self.tools.join("bench-federation.csv");
        // A verdict on each device.
        let notes = self.tools.join("bench-federation.log");
        let started = Instant::now();
        let mut solve = Command::new(self.tools.join("mt-solve"))
            .args(["--rv", "200", "--floor", "0.2", "--batch", "free"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&notes)?)
            .spawn()?;
        let mut order = Command::new(self.tools.join("mt-overlap"))
            .arg("--federation")
            .arg(&table)
            .stdin(solve.stdout.take().ok_or("no output")?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = solve.stdin.take().ok_or("no input")?;
        let devices = Arc::clone(self);
        let writer = thread::spawn(move || {
            clients.try_for_each(|k| writeln!(stdin, "{}", devices.model_of(k)))
        });
        let stdout = order.stdout.take().ok_or("no output")?;
        // The reader takes the time, so that the sleep below is not in it.
        let reader = thread::spawn(move || {
            let timelines = BufReader::new(stdout).lines().count();
            (timelines, started.elapsed().as_secs_f64())
        });
        let mut peak_mib = [0.0_f64; 2];
        while !reader.is_finished() {
            for (peak, child) in peak_mib.iter_mut().zip([&solve, &order]) {
                *peak = peak.max(high_water_mib(child));
            }
            thread::sleep(Duration::from_millis(5));
        }
        let (timelines, seconds) = reader.join().map_err(|_| "the reader failed")?;
        writer.join().map_err(|_| "the writer failed")??;
        let mut said = String::new();
        order
            .stderr
            .take()
            .ok_or("no messages")?
            .read_to_string(&mut said)?;
        if !(solve.wait()?.success() && order.wait()?.success()) {
            return Err(format!("a tool failed: {said}, or see {}", notes.display()).into());
        }
        fs::remove_file(table)?;
        fs::remove_file(notes)?;
        Ok(Streamed {
            seconds,
            timelines,
            peak_mib,
            said: said.trim().to_owned(),
        })
    }
}

/// Most memory that a process has held, MiB; 0 once it has ended.
fn high_water_mib(child: &Child) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
