//! A general optimiser with as many samples: it says what to measure next, and is told what that is worth.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use allocation::{Problem, Scheme};
use serde::{Deserialize, Serialize};
use units::corun::Setting;
use units::{Batch, Share};

use super::Failure;
use super::truth::Truth;

/// Samplers of Optuna: tree-structured Parzen estimators, and a Gaussian process with expected improvement.
pub(crate) const SAMPLERS: [&str; 2] = ["tpe", "gp"];

/// A sampler in its process, for one study after another.
pub(crate) struct Rival {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// What a study begins with.
#[derive(Serialize)]
struct Asked {
    /// Batch sizes of each task, ascending.
    batches: Vec<Vec<u32>>,
    /// Hundredths of a percent, as all shares here.
    step: u32,
    /// Shares that are tried first, with the largest batch sizes.
    first: Vec<Vec<u32>>,
    seed: u64,
    trials: u64,
}

/// What is to be measured.
#[derive(Deserialize)]
struct Trial {
    batches: Vec<u32>,
    shares: Vec<u32>,
}

impl Rival {
    pub fn start(python: &Path, sampler: &str) -> Result<Self, Failure> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/regret/rival.py");
        let mut process = Command::new(python)
            .args([script, sampler])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = process.stdin.take().ok_or("no standard input")?;
        let from = process.stdout.take().ok_or("no standard output")?;
        Ok(Self {
            process,
            to,
            from: BufReader::new(from),
        })
    }

    /// The best of the first trials, for each budget. What a configuration is worth is known as a profile of `seen`
    /// would know it; the rates of a task alone, and of tasks that remain as others end, cost no trial.
    pub fn best(
        &mut self,
        seen: &Truth,
        problem: &Problem,
        step: Share,
        seed: u64,
        budgets: &[u64],
    ) -> Result<Vec<Vec<Setting>>, Failure> {
        let trials = budgets.iter().copied().max().unwrap_or(0);
        self.send(&asked(problem, step, seed, trials))?;
        let mut tried: Vec<(f64, Vec<Setting>)> = Vec::new();
        for _ in 0..trials {
            let settings = self.receive()?;
            let worth = problem.worth(seen, &settings);
            self.send(&Some(worth).filter(|w| w.is_finite()))?;
            tried.push((worth, settings));
        }
        let best = |budget: &u64| {
            let first = tried.iter().take(*budget as usize);
            let best = first.max_by(|a, b| a.0.total_cmp(&b.0));
            Ok(best.ok_or("no trials")?.1.clone())
        };
        budgets.iter().map(best).collect()
    }

    fn send(&mut self, what: &impl Serialize) -> Result<(), Failure> {
        writeln!(self.to, "{}", serde_json::to_string(what)?)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Vec<Setting>, Failure> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let trial: Trial = serde_json::from_str(&line)?;
        let each = trial.batches.iter().zip(&trial.shares).enumerate();
        each.map(|(task, (batch, share))| {
            Ok(Setting {
                task,
                batch: Batch::new(u64::from(*batch))?,
                share: Share::from_hundredths(*share),
            })
        })
        .collect()
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // It has nothing to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The study of a problem, which begins with the schemes of equal shares.
fn asked(problem: &Problem, step: Share, seed: u64, trials: u64) -> Asked {
    let (tasks, step) = (problem.tasks.len(), step.hundredths());
    let mut first = Scheme::EQUAL
        .map(|scheme| scheme.share(tasks).hundredths() / step * step)
        .to_vec();
    first.sort_unstable();
    first.dedup();
    let batches = problem
        .tasks
        .iter()
        .map(|t| t.batches.iter().map(|b| b.get()).collect());
    Asked {
        batches: batches.collect(),
        step,
        first: first.iter().map(|share| vec![*share; tasks]).collect(),
        seed,
        trials,
    }
}
