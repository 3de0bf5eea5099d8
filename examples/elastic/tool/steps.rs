//! The value of a step, measured: logs of trainings by mt-worker, with every step.

use std::path::Path;

use serde_json::Value;

/// Loss and accuracy of every step.
type Log = Vec<(f64, f64)>;

/// Steps at which trainings are compared.
pub const AT: [usize; 4] = [50, 100, 200, 400];
/// Steps of the paper's window.
pub const WINDOW: usize = 100;

/// Trainings on 1 to 4 processes, by batch.
pub struct Steps {
    pub by_processes: Vec<Training>,
    pub deltas: Vec<Delta>,
}

/// One of them.
pub struct Training {
    /// `128 per process` or `512 per task`.
    pub batch: &'static str,
    pub processes: u32,
    /// Mean loss and accuracy of the ten steps up to each of [`AT`].
    pub means: Vec<(f64, f64)>,
}

/// Loss deltas of one window.
pub struct Delta {
    /// Last step of the window.
    pub step: usize,
    /// Decrease of the loss over the window.
    pub window: f64,
    /// Mean size of the delta of a single step.
    pub single: f64,
    /// Fraction of the single steps with a rising loss.
    pub rising: f64,
}

/// Reads `per-process-G.log` and `per-task-G.log` of a folder; `None` if one is missing or short.
pub fn read(folder: &Path) -> Option<Steps> {
    let mut by_processes = Vec::new();
    for (batch, name) in [
        ("128 per process", "per-process"),
        ("512 per task", "per-task"),
    ] {
        for processes in 1..=4 {
            let steps = log(&folder.join(format!("{name}-{processes}.log")))?;
            let means: Option<Vec<_>> = AT.iter().map(|&at| mean(&steps, at)).collect();
            by_processes.push(Training {
                batch,
                processes,
                means: means?,
            });
        }
    }
    let steps = log(&folder.join("per-task-1.log"))?;
    let deltas = (1..=steps.len() / WINDOW).map(|n| delta(&steps, n * WINDOW));
    Some(Steps {
        by_processes,
        deltas: deltas.collect::<Option<_>>()?,
    })
}

fn log(path: &Path) -> Option<Log> {
    let text = std::fs::read_to_string(path).ok()?;
    let step = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some((line["loss"].as_f64()?, line["accuracy"].as_f64()?))
    };
    Some(text.lines().filter_map(step).collect())
}

/// The mean loss and accuracy of the ten steps before step `at`.
fn mean(steps: &Log, at: usize) -> Option<(f64, f64)> {
    let ten = steps.get(at - 10..at)?;
    let of = |pick: fn(&(f64, f64)) -> f64| ten.iter().map(pick).sum::<f64>() / 10.0;
    Some((of(|s| s.0), of(|s| s.1)))
}

fn delta(steps: &Log, at: usize) -> Option<Delta> {
    let window = steps.get(at.checked_sub(WINDOW)?..at)?;
    let quarter = WINDOW / 4;
    let level = |part: &[(f64, f64)]| part.iter().map(|s| s.0).sum::<f64>() / part.len() as f64;
    let falls: Vec<f64> = window.windows(2).map(|w| w[0].0 - w[1].0).collect();
    let n = falls.len() as f64;
    Some(Delta {
        step: at,
        window: level(&window[..quarter]) - level(&window[WINDOW - quarter..]),
        single: falls.iter().map(|f| f.abs()).sum::<f64>() / n,
        rising: falls.iter().filter(|f| **f < 0.0).count() as f64 / n,
    })
}
