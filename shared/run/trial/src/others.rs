//! Processor use by other programs during a stage. A difference between stages changes the measured rates by as much,
//! without any other reason.

use jobs::process;

/// A stage in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    at: std::time::Instant,
    machine: process::Machine,
    ours_s: f64,
}

impl Watch {
    /// Starts the observation; `None` if `/proc` cannot be read.
    pub(crate) fn begin() -> Option<Self> {
        Some(Self {
            at: std::time::Instant::now(),
            machine: process::machine()?,
            ours_s: process::family_cpu_seconds()?,
        })
    }

    /// Fraction of all processors that other programs used. Call it while jobs still run or after they have ended by
    /// themselves: the processor time of killed processes is lost.
    pub(crate) fn end(self) -> Option<f64> {
        let now = process::machine()?;
        // Niced programs count as well: in a separate session (autogroup) they get as much time as these commands.
        let busy = now.busy_s + now.niced_s - self.machine.busy_s - self.machine.niced_s;
        let all = self.at.elapsed().as_secs_f64() * self.machine.processors as f64;
        let others = (busy - (process::family_cpu_seconds()? - self.ours_s)) / all;
        Some(others.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Fraction of the processors that others used during a second in which a grandchild of this process used one
    /// processor, and the fraction that was busy.
    fn watched() -> (f64, f64) {
        let watch = Watch::begin().unwrap();
        let script = "while :; do :; done & wait";
        let mut sh = Command::new("timeout")
            .args(["2", "sh", "-c", script])
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_secs(1));
        let (now, then) = (process::machine().unwrap(), watch.machine);
        let busy = now.busy_s + now.niced_s - then.busy_s - then.niced_s;
        let all = watch.at.elapsed().as_secs_f64() * watch.machine.processors as f64;
        let others = watch.end().unwrap();
        sh.wait().unwrap();
        (others, busy / all)
    }

    #[test]
    fn what_comes_from_this_process_is_not_of_others() {
        let (others, busy) = watched();
        // The difference may be less than a whole processor, because the machine may have been too busy to run the
        // grandchild all the time.
        let processors = process::machine().unwrap().processors as f64;
        assert!(others < busy - 0.1 / processors, "{others} of {busy}");
    }
}
