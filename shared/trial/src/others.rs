//! How much of the processors other programs took while a stage ran: what they took then they may leave to
//! the next one, so that rates of two stages differ by as much without any reason of their own.

use jobs::process;

/// A stage under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    at: std::time::Instant,
    machine: process::Machine,
    ours_s: f64,
}

/// Processor time of this process and of all it has waited for.
fn ours() -> Option<f64> {
    let own = std::process::id().cast_signed();
    Some(process::cpu_seconds(own)? + process::children_cpu_seconds(own)?)
}

impl Watch {
    /// Begins; no job may be running.
    pub(crate) fn begin() -> Option<Self> {
        Some(Self {
            at: std::time::Instant::now(),
            machine: process::machine()?,
            ours_s: ours()?,
        })
    }

    /// Part of all processors that others took; all jobs must have ended.
    pub(crate) fn end(self) -> Option<f64> {
        let busy = process::machine()?.busy_s - self.machine.busy_s;
        let all = self.at.elapsed().as_secs_f64() * self.machine.processors as f64;
        let others = (busy - (ours()? - self.ours_s)) / all;
        Some(others.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Burns a processor for a second.
    fn burn() -> Command {
        let mut sh = Command::new("timeout");
        sh.args(["1", "sh", "-c", "while :; do :; done"]);
        sh
    }

    #[test]
    fn what_runs_beside_counts_and_what_was_waited_for_does_not() {
        let processors = process::machine().unwrap().processors as f64;
        let mut other = burn().spawn().unwrap();
        let watch = Watch::begin().unwrap();
        while watch.at.elapsed().as_secs_f64() < 0.7 {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let with = watch.end().unwrap();
        other.wait().unwrap();
        // Two thirds, not all: the machine may have been too busy to run it all the time.
        assert!(with > 0.2 / processors, "{with} of {processors}");

        let watch = Watch::begin().unwrap();
        burn().status().unwrap();
        let busy = process::machine().unwrap().busy_s - watch.machine.busy_s;
        let all = watch.at.elapsed().as_secs_f64() * processors;
        assert!(watch.end().unwrap() < busy / all - 0.1 / processors);
    }
}
