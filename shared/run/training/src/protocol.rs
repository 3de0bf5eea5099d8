//! The job's side of the worker protocol: lines on standard output, orders on standard input.

use std::time::{Duration, Instant};

use cli::{Failure, Output};
use units::Batch;

use crate::cpu::Norms;
use crate::trainer::Step;

/// The lines that a job writes.
pub struct Reporter {
    output: Output,
    /// Steps that were made but not reported.
    pending: Option<Pending>,
    /// Time of the last report of steps; `None` if there was none since the start or since it was parked.
    told: Option<Instant>,
}

/// Steps that are reported in one line.
#[derive(Default)]
struct Pending {
    steps: u64,
    samples: u64,
    /// Loss of the last step.
    loss: f64,
    norms: Option<Norms>,
}

/// Minimum time between two lines about steps: the reader uses the same processors as the job, and 20 lines a second
/// are enough to time a window of 2 s with a precision of 2.5 %.
const BETWEEN: Duration = Duration::from_millis(50);

impl Reporter {
    /// Writes to standard output.
    pub fn open() -> Result<Self, Failure> {
        Ok(Self {
            output: Output::open(None, false)?,
            pending: None,
            told: None,
        })
    }

    /// Reports the merged steps.
    fn flush(&mut self) -> Result<(), Failure> {
        match self.pending.take() {
            Some(told) => {
                let steps = match told.steps {
                    1 => String::new(),
                    steps => format!("\"steps\":{steps},"),
                };
                let norms = Norms::member(told.norms);
                self.told_step(&steps, told.samples, told.loss, &norms)
            }
            None => Ok(()),
        }
    }

    /// Reports that it is on standby: all start-up work that does not depend on the checkpoint is done, and it waits
    /// for `run`.
    pub fn loaded(&mut self) -> Result<(), Failure> {
        self.output.text("{\"mt\":\"loaded\"}\n")
    }

    /// Reports that it is warm: `{"mt":"ready"}` with further members, whose values are already JSON.
    pub fn ready(&mut self, members: &[(&'static str, String)]) -> Result<(), Failure> {
        let mut line = r#"{"mt":"ready""#.to_owned();
        for (name, value) in members {
            line.push_str(&format!(",\"{name}\":{value}"));
        }
        line.push_str("}\n");
        self.output.text(&line)
    }

    /// Reports a finished step. Quick steps are merged, with [`BETWEEN`] between two lines; the first step is reported
    /// at once, to show that the training runs.
    pub fn step(&mut self, samples: Batch, step: Step) -> Result<(), Failure> {
        let before = self.pending.take().unwrap_or_default();
        self.pending = Some(Pending {
            steps: before.steps + 1,
            samples: before.samples + u64::from(samples.get()),
            loss: step.loss,
            // If several of the steps have norms, the last ones are reported, which are a fair sample.
            norms: step.norms.or(before.norms),
        });
        if self.told.is_some_and(|told| told.elapsed() < BETWEEN) {
            return Ok(());
        }
        self.told = Some(Instant::now());
        self.flush()
    }

    /// Reports a finished step with number `step`, counted over all restarts; `accuracy` is the fraction of its samples
    /// that were classified correctly before the step.
    pub fn step_at(
        &mut self,
        step: u64,
        samples: u64,
        told: Step,
        accuracy: f64,
    ) -> Result<(), Failure> {
        let norms = Norms::member(told.norms);
        let more = format!(",\"accuracy\":{accuracy}{norms}");
        self.told_step(&format!("\"step\":{step},"), samples, told.loss, &more)
    }

    fn told_step(
        &mut self,
        number: &str,
        samples: u64,
        loss: f64,
        more: &str,
    ) -> Result<(), Failure> {
        // JSON has no NaN, so a diverged loss is omitted.
        let loss = match loss.is_finite() {
            true => format!(",\"loss\":{loss}"),
            false => String::new(),
        };
        let line = format!("{{\"mt\":\"step\",{number}\"samples\":{samples}{loss}{more}}}\n");
        self.output.text(&line)
    }

    /// Reports that it stopped for good after `step` and saved a checkpoint.
    pub fn parked_at(&mut self, step: u64) -> Result<(), Failure> {
        self.output
            .text(&format!("{{\"mt\":\"parked\",\"step\":{step}}}\n"))
    }

    /// Reports that it is parked: no step is in progress.
    pub fn parked(&mut self) -> Result<(), Failure> {
        self.flush()?;
        self.told = None;
        self.output.text("{\"mt\":\"parked\"}\n")
    }

    /// Reports that it is done after `samples` samples.
    pub fn done(&mut self, samples: u64) -> Result<(), Failure> {
        self.flush()?;
        self.output
            .text(&format!("{{\"mt\":\"done\",\"samples\":{samples}}}\n"))
    }
}

/// An order on standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The next `run` trains on the samples of one task of a schedule, and the worker stays. The values are the task's
    /// round, and its index in the round.
    Task(u32, u32),
    /// Train.
    Run,
    /// Stop training after the current step, and wait.
    Park,
    /// Use another batch size from the next step on.
    Batch(Batch),
    /// End.
    Quit,
}

impl Order {
    /// Parses a line; `None` if it is not an order.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let order = match (words.next()?, words.next()) {
            ("run", None) => Order::Run,
            ("park", None) => Order::Park,
            ("quit", None) => Order::Quit,
            ("task", Some(round)) => Order::Task(round.parse().ok()?, words.next()?.parse().ok()?),
            ("batch", Some(n)) => Order::Batch(Batch::new(n.parse().ok()?).ok()?),
            _ => return None,
        };
        words.next().is_none().then_some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        assert_eq!(Order::parse(" run "), Some(Order::Run));
        assert_eq!(
            Order::parse("batch 32"),
            Some(Order::Batch(Batch::new(32).unwrap()))
        );
        assert_eq!(Order::parse("task 3 1"), Some(Order::Task(3, 1)));
        for bad in [
            "",
            "task",
            "task 1",
            "task 1 2 3",
            "task -1 0",
            "batch",
            "batch 0",
            "batch 1 2",
            "run now",
            "RUN",
        ] {
            assert_eq!(Order::parse(bad), None, "{bad:?}");
        }
    }
}
