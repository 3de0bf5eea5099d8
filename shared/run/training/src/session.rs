use std::sync::mpsc::{Receiver, TryRecvError};

use cli::{Console, Exit, Failure};
use units::Batch;

use crate::config::{Config, Device};
use crate::cpu::CpuTrainer;
use crate::cuda::{CudaTrainer, Training};
use crate::elastic;
use crate::protocol::{Order, Reporter};
use crate::trainer::Trainer;

/// Trains to the end, and reports the progress on standard output.
///
/// # Errors
/// [`Failure`] if the device failed, another process of the training has gone, or a checkpoint cannot be read or
/// written.
pub fn run(config: &Config, console: &Console) -> Result<Exit, Failure> {
    if let Some(elastic) = &config.elastic {
        return elastic::run(config, elastic, console);
    }
    let mut trainer: Box<dyn Trainer> = match config.device {
        Device::Cpu => Box::new(CpuTrainer::new(&config.network)),
        Device::Cuda => Box::new(CudaTrainer::new(Training {
            network: config.model.clone(),
            rate: config.network.learning_rate,
            momentum: config.network.momentum,
            seed: config.network.seed,
            round: config.network.round,
        })?),
    };
    let mut reporter = Reporter::open()?;
    let members = trainer.warm_up(config.batch)?;
    reporter.ready(&members)?;
    let mut session = StepLoop {
        trainer: trainer.as_mut(),
        reporter,
        batch: config.batch,
        samples: 0,
        steps: 0,
        most_steps: config.steps.unwrap_or(u64::MAX),
        limit: config.samples.map(units::Samples::get),
        console,
    };
    session.train(config)?;
    session.reporter.done(session.samples)?;
    Ok(Exit::Done)
}

struct StepLoop<'a> {
    trainer: &'a mut dyn Trainer,
    reporter: Reporter,
    batch: Batch,
    samples: u64,
    steps: u64,
    most_steps: u64,
    limit: Option<u64>,
    console: &'a Console,
}

impl StepLoop<'_> {
    fn train(&mut self, config: &Config) -> Result<(), Failure> {
        if config.pool {
            return self.obey(&cli::control_lines()?);
        }
        while self.step()? {}
        Ok(())
    }

    /// Trains one step; false when all steps or samples are done. The last step may be shorter, so that the number of
    /// samples is exact.
    fn step(&mut self) -> Result<bool, Failure> {
        let left = self.limit.map_or(u64::MAX, |n| n - self.samples);
        let size = left.min(u64::from(self.batch.get()));
        let Ok(size) = Batch::new(size) else {
            return Ok(false);
        };
        if self.steps >= self.most_steps {
            return Ok(false);
        }
        let step = self.trainer.step(size)?;
        self.steps += 1;
        self.samples += u64::from(size.get());
        self.reporter.step(size, step)?;
        Ok(left > u64::from(size.get()) && self.steps < self.most_steps)
    }

    /// Trains according to orders; the end of the orders means `quit`, because the sender has gone.
    fn obey(&mut self, orders: &Receiver<String>) -> Result<(), Failure> {
        let mut running = false;
        // In a schedule, the samples belong to one task, and more tasks may follow.
        let mut one_task = false;
        loop {
            let line = if running {
                match orders.try_recv() {
                    Ok(line) => Some(line),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            } else {
                match orders.recv() {
                    Ok(line) => Some(line),
                    Err(_) => return Ok(()),
                }
            };
            match line.as_deref().map(Order::parse) {
                None => {
                    if self.step()? {
                        continue;
                    }
                    if !one_task {
                        return Ok(());
                    }
                    self.reporter.done(self.samples)?;
                    // A single process has no others to synchronise with.
                    running = false;
                    self.reporter.parked()?;
                }
                Some(Some(Order::Task(..))) => {
                    one_task = true;
                    (self.samples, self.steps) = (0, 0);
                }
                Some(Some(Order::Run)) => running = true,
                Some(Some(Order::Park)) => {
                    running = false;
                    self.reporter.parked()?;
                }
                Some(Some(Order::Batch(batch))) => self.batch = batch,
                Some(Some(Order::Quit)) => return Ok(()),
                Some(None) => self.console.warn(&format!(
                    "unknown order {:?}; say task ROUND RANK, run, park, batch N or quit",
                    line.unwrap_or_default()
                )),
            }
        }
    }
}
