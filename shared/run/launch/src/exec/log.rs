//! Log of predicted and measured throughput, one line for each program.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use cli::Failure;
use jobs::{LineCutter, Message, ProgressSource};
use serde::{Deserialize, Serialize};

use super::Placement;

/// One line of the log.
#[derive(Debug, Serialize)]
struct Line<'a> {
    /// Seconds since 1970 at the start.
    started_s: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    program: String,
    device: &'a str,
    share_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<u32>,
    round: u32,
    /// Predicted throughput while all tasks of the plan run.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted_samples_per_s: Option<f64>,
    /// Samples that the program has reported.
    samples: u64,
    /// Throughput from the first reported step to the last, which excludes the start-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    samples_per_s: Option<f64>,
    /// Duration from start to end.
    seconds: f64,
    /// Present only if it trained under MPS without being a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    attached: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
}

/// Data about the program so far.
pub(super) struct Record<'a> {
    path: PathBuf,
    placement: &'a Placement,
    program: String,
    progress: ProgressSource,
    lines: LineCutter,
    started: (Instant, u64),
    /// Samples so far and time of the first step; the same for the last step.
    steps: Option<[(u64, Instant); 2]>,
    samples: u64,
    status: Option<ExitStatus>,
    /// Whether it was seen among the clients of the daemon.
    pub(super) attached: Option<bool>,
}

impl<'a> Record<'a> {
    /// Checks that the log can be written, is not an input, and contains nothing else.
    pub(super) fn open(
        path: &Path,
        placement: &'a Placement,
        argv: &[OsString],
    ) -> Result<Self, Failure> {
        cli::may_append(path)?;
        append(path, &[])?;
        holds_a_log(path)?;
        let units = jobs::Units {
            step: placement.batch.map(|batch| u64::from(batch.get())),
            epoch: placement.samples,
        };
        let progress = ProgressSource::from_document(&placement.progress, units);
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Self {
            path: path.to_owned(),
            placement,
            program: argv[0].to_string_lossy().into_owned(),
            progress: progress.map_err(|error| Failure::Input(error.to_string()))?,
            lines: LineCutter::default(),
            started: (Instant::now(), epoch.map_or(0, |d| d.as_secs())),
            steps: None,
            samples: 0,
            status: None,
            attached: None,
        })
    }

    /// Reads the program's output; returns whether it contains the first step.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        let before = self.steps.is_none();
        let now = Instant::now();
        let progress = &mut self.progress;
        let steps = &mut self.steps;
        let samples = &mut self.samples;
        self.lines
            .push(bytes, |line, _| match progress.parse(line) {
                Some(Message::Step { samples: more, .. }) => {
                    *samples = samples.saturating_add(more);
                    let last = (*samples, now);
                    *steps = Some([steps.map_or(last, |[first, _]| first), last]);
                }
                Some(Message::Done { samples: Some(all) }) => *samples = (*samples).max(all),
                _ => {}
            });
        before && self.steps.is_some()
    }

    pub(super) fn ended(&mut self, status: ExitStatus) {
        self.status = Some(status);
    }

    /// Appends the line in one write, so that programs that end together do not mix their lines.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let rate = self.steps.and_then(|[(first, begun), (last, ended)]| {
            let seconds = ended.duration_since(begun).as_secs_f64();
            (seconds > 0.0).then(|| (last - first) as f64 / seconds)
        });
        let placement = self.placement;
        let line = Line {
            started_s: self.started.1,
            task: placement.name(),
            program: self.program.clone(),
            device: host::word(placement.device),
            share_percent: placement.share.percent(),
            batch: placement.batch.map(units::Batch::get),
            round: placement.round,
            predicted_samples_per_s: placement.predicted.map(units::SamplesPerSec::get),
            samples: self.samples,
            samples_per_s: rate,
            seconds: self.started.0.elapsed().as_secs_f64(),
            attached: self.attached,
            status: self.status.and_then(|s| s.code()),
            signal: self.status.and_then(|s| s.signal()),
        };
        let mut text =
            serde_json::to_vec(&line).map_err(|e| Failure::Environment(e.to_string()))?;
        text.push(b'\n');
        append(&self.path, &text)
    }
}

/// Fields that every line of such a log has.
#[derive(Deserialize)]
#[expect(dead_code, reason = "that they are there is what matters")]
struct LogLine {
    started_s: u64,
    program: String,
    share_percent: f64,
}

/// Number of bytes of the first line that are checked: the longest line has a path (4096) and some figures.
const LONGEST_LINE: u64 = 1 << 16;

/// Refuses a file whose first line is not from such a log: appending would damage a plan, or add an invalid event to a
/// run.
fn holds_a_log(path: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::file(path, &error);
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(());
    }
    let mut first = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let read = BufReader::new(file.take(LONGEST_LINE)).read_until(b'\n', &mut first);
    read.map_err(failed)?;
    match serde_json::from_slice::<LogLine>(&first) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::Usage(format!(
            "--log {}: the file contains something other than lines of such a log; name another",
            path.display()
        ))),
    }
}

fn append(path: &Path, text: &[u8]) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    // Opening a pipe without a reader then fails, instead of waiting for a reader.
    options.custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits());
    let file = options.append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(text))
        .map_err(|error| Failure::file(path, &error))
}
