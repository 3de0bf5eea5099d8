//! Training over processes that can be stopped, moved to another number of processes, and continued.
//!
//! Every process holds all weights. In a step each process computes the gradient over its part of the batch. The
//! gradients are summed, not averaged, over all processes and divided by the whole batch size, so that unequal parts
//! cause no bias: the losses equal, up to rounding, those of one process with the whole batch. A stop request is part
//! of the same sum, so all processes stop after the same step, whichever process received it.

mod checkpoint;
mod period;
mod team;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use cli::{Console, Exit, Failure};
use signal_hook::consts::{SIGINT, SIGTERM};
use units::Batch;

use crate::config::{Config, Elastic, GroupRole, split};
use crate::cpu::{CpuTrainer, MEASURE_EVERY, Norms, mean_square};
use crate::protocol::{Order, Reporter};
use crate::trainer::{Step, Trainer as _};
use checkpoint::TrainingState;
use period::Period;
use team::{Tally, Team};

/// Trains to the end, or until SIGTERM or SIGINT.
///
/// # Errors
/// [`Failure`] if a process has gone, or a checkpoint cannot be read or written.
pub fn run(config: &Config, elastic: &Elastic, console: &Console) -> Result<Exit, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::Environment(error.to_string()))?;
    }
    let Some(team) = Team::form(&elastic.place, elastic.batches.len(), &stop)? else {
        // Nothing has been trained since the checkpoint.
        if leads(elastic) {
            Reporter::open()?.parked()?;
        }
        return Ok(Exit::Done);
    };
    let reporter = team.leads().then(Reporter::open).transpose()?;
    let mut training = Training {
        trainer: CpuTrainer::new(&config.network),
        config,
        elastic,
        team,
        reporter,
        console,
        state: TrainingState::default(),
        period: Period::new(elastic.checkpoint_every),
        sum: Vec::new(),
    };
    training.warm_up()?;
    if elastic.standby && !training.stand_by(&stop)? {
        // Nothing has been trained since the checkpoint.
        training.tell(|reporter, _| reporter.parked())?;
        return Ok(Exit::Done);
    }
    training.load()?;
    training.ready()?;
    training.train(&stop)
}

/// Interval at which a standby training checks whether it was asked to stop: short compared with the time in which
/// users expect a reaction.
const LOOK: Duration = Duration::from_millis(20);

/// Whether this process will lead; known before the processes are connected.
fn leads(elastic: &Elastic) -> bool {
    match elastic.place {
        GroupRole::Parent => true,
        GroupRole::Rank { rank, .. } => rank == 0,
    }
}

struct Training<'a> {
    config: &'a Config,
    elastic: &'a Elastic,
    trainer: CpuTrainer,
    team: Team,
    /// Present in the leading process only.
    reporter: Option<Reporter>,
    console: &'a Console,
    state: TrainingState,
    /// When checkpoints are written during training.
    period: Period,
    sum: Vec<f32>,
}

impl Training<'_> {
    /// Continues from the checkpoint, which the leading process reads for all.
    fn load(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.elastic.checkpoint else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        if self.team.leads() {
            bytes = checkpoint::read(path)?;
        }
        self.team.share(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let (weights, velocity) = self.trainer.parameters();
        let decoded = checkpoint::decode(&bytes, &self.config.network, weights, velocity);
        self.state = decoded
            .map_err(|why| Failure::Input(format!("the checkpoint {}: {why}", path.display())))?;
        Ok(())
    }

    fn warm_up(&mut self) -> Result<(), Failure> {
        self.trainer.warm_up(self.own_batch())?;
        // This sum is a barrier: it returns when the slowest process has arrived.
        self.team.sum(&mut [], &mut Tally::default())
    }

    /// Waits until the leading process gets the order to run, on behalf of all; false if it is asked to stop, or its
    /// input has ended.
    fn stand_by(&mut self, stop: &AtomicBool) -> Result<bool, Failure> {
        let mut tally = Tally::default();
        if self.team.leads() {
            self.tell(|reporter, _| reporter.loaded())?;
            tally.stop = !self.is_told_to_run(stop)?;
        }
        self.team.sum(&mut [], &mut tally)?;
        Ok(!tally.stop)
    }

    fn is_told_to_run(&self, stop: &AtomicBool) -> Result<bool, Failure> {
        let orders = cli::control_lines()?;
        while !stop.load(Ordering::Relaxed) {
            let line = match orders.recv_timeout(LOOK) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
            };
            match Order::parse(&line) {
                Some(Order::Run) => return Ok(true),
                Some(Order::Quit) => return Ok(false),
                _ => self.console.warn(&format!(
                    "unknown order {line:?}: a training that stands by takes run and quit"
                )),
            }
        }
        Ok(false)
    }

    fn ready(&mut self) -> Result<(), Failure> {
        let members = [
            ("threads", self.trainer.threads().to_string()),
            ("processes", self.elastic.batches.len().to_string()),
            ("step", self.state.step.to_string()),
        ];
        self.tell(|reporter, _| reporter.ready(&members))
    }

    fn own_batch(&self) -> Batch {
        let own = self.elastic.batches[self.team.rank()] as u64;
        Batch::new(own).unwrap_or(self.config.batch)
    }

    fn tell(
        &mut self,
        tell: impl FnOnce(&mut Reporter, &TrainingState) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match &mut self.reporter {
            Some(reporter) => tell(reporter, &self.state),
            None => Ok(()),
        }
    }

    fn train(&mut self, stop: &AtomicBool) -> Result<Exit, Failure> {
        loop {
            if self.is_done() {
                self.save()?;
                self.tell(|reporter, state| reporter.done(state.samples))?;
                return Ok(Exit::Done);
            }
            let stopped = self.step(stop.load(Ordering::Relaxed))?;
            if stopped && !self.is_done() {
                self.save()?;
                self.tell(|reporter, state| reporter.parked_at(state.step))?;
                return Ok(Exit::Done);
            }
            if self.period.is_due(self.state.step) {
                let before = Instant::now();
                if let Err(failure) = self.save() {
                    // The training continues, because the next checkpoint may succeed.
                    self.console.warn(&failure.to_string());
                }
                self.period.wrote(before.elapsed());
            }
        }
    }

    fn is_done(&self) -> bool {
        let samples = self.config.samples.map(units::Samples::get);
        let steps = self.config.steps;
        let target = self.elastic.target_loss;
        samples.is_some_and(|n| self.state.samples >= n)
            || steps.is_some_and(|n| self.state.step >= n)
            || target.is_some_and(|target| self.state.has_reached(target))
    }

    /// One step of all processes; returns whether any of them was asked to stop.
    fn step(&mut self, stop: bool) -> Result<bool, Failure> {
        let whole = u64::from(self.config.batch.get());
        let left = self
            .config
            .samples
            .map_or(u64::MAX, |n| n.get() - self.state.samples);
        // The last step may be shorter, so that the count is met exactly.
        let size = left.min(whole) as usize;
        let parts = match left < whole {
            true => split(size, self.elastic.batches.len()),
            false => self.elastic.batches.clone(),
        };
        let rank = self.team.rank();
        let before: usize = parts[..rank].iter().sum();
        let first = self.state.samples + before as u64;
        // Every process counts the same steps, and so measures in the same steps.
        let alone = parts.len() == 1;
        let measured = match alone {
            true => self.trainer.is_measured(self.state.step),
            false => self.state.step.is_multiple_of(MEASURE_EVERY),
        };
        let (outcome, own) =
            self.trainer
                .summed_gradient(first, parts[rank], &mut self.sum, measured && alone);
        let compared = measured && !alone && parts[rank] == parts[0] && parts[0] > 0;
        let square = match compared {
            true => mean_square(&self.sum, parts[rank]),
            false => 0.0,
        };
        let mut tally = Tally {
            outcome,
            stop,
            square,
        };
        self.team.sum(&mut self.sum, &mut tally)?;
        let norms = match measured && !alone && self.team.leads() {
            true => self.norms_of_ranks(&parts, tally.square),
            false => own,
        };
        self.trainer.descend(&self.sum, size);
        let step = Step {
            loss: tally.outcome.loss / size as f64,
            norms,
        };
        let accuracy = tally.outcome.correct as f64 / size as f64;
        self.state.step(size as u64, step.loss);
        self.tell(|reporter, state| reporter.step_at(state.step, size as u64, step, accuracy))?;
        Ok(tally.stop)
    }

    /// Gradient norms of this step. `squares` is the sum of the squared norms over the processes with the same number
    /// of samples as the first; the norm of the total gradient comes from `sum`.
    fn norms_of_ranks(&self, parts: &[usize], squares: f64) -> Option<Norms> {
        let (small, large) = (parts[0], parts.iter().sum());
        let equal = parts.iter().filter(|part| **part == small).count();
        (small > 0 && small < large).then(|| Norms {
            small,
            small_sq: squares / equal as f64,
            large,
            large_sq: mean_square(&self.sum, large),
        })
    }

    fn save(&mut self) -> Result<(), Failure> {
        let Some(path) = self.elastic.checkpoint.as_deref() else {
            return Ok(());
        };
        if !self.team.leads() {
            return Ok(());
        }
        self.write(path)
    }

    fn write(&mut self, path: &Path) -> Result<(), Failure> {
        let (weights, velocity) = self.trainer.parameters();
        let bytes = checkpoint::encode(&self.config.network, &self.state, weights, velocity);
        checkpoint::write(path, &bytes)
    }
}
