//! Processes on the GPUs that the controller does not manage. A controller allocates GPUs as if nothing else used them,
//! and attributes all measured speeds to its allocations, so the paper requires that there are no other processes.

use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

use cli::{Console, Failure};
use doc::Workload;
use host::discovery::{self, Computing, Gpu};
use runner::opening::environment;

/// Policy for processes that the controller does not manage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// Refuse to launch.
    Refuse,
    /// Launch once they have ended.
    Wait,
    /// Launch anyway, and report them.
    Allow,
}

impl FromStr for Others {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "refuse" => Ok(Self::Refuse),
            "wait" => Ok(Self::Wait),
            "allow" => Ok(Self::Allow),
            _ => Err("give refuse, wait or allow"),
        }
    }
}

/// How often to check whether they have ended: short compared with a training.
const EVERY: Duration = Duration::from_secs(1);

impl Others {
    /// Searches for processes on the GPUs of a workload, before anything is started on them.
    ///
    /// # Errors
    /// [`Failure::Environment`] if there are some and the policy is to refuse.
    pub(super) fn look(
        self,
        workload: &Workload,
        one: bool,
        console: &Console,
    ) -> Result<(), Failure> {
        let device = &workload.device;
        let count = if one { 1 } else { device.gpus as usize };
        let mut gpus = discovery::shareable(&device.gpu_names, count).map_err(environment)?;
        gpus.truncate(count);
        let mut told = false;
        loop {
            let others = self.others(&gpus, console)?;
            if others.is_empty() {
                return Ok(());
            }
            let shown: Vec<String> = others
                .iter()
                .map(|other| format!("{} on {}", other.pid, other.gpu))
                .collect();
            let shown = format!(
                "processes that are not under the controller: {}",
                shown.join(", ")
            );
            match self {
                Others::Refuse => {
                    return Err(Failure::Environment(format!(
                        "{shown}; end them, or give --others wait or allow"
                    )));
                }
                Others::Allow => {
                    console.warn(&shown);
                    return Ok(());
                }
                Others::Wait if told => {}
                Others::Wait => console.note(&format!("waiting for {shown}")),
            }
            told = true;
            // Ctrl-C ends the wait: nothing has been started yet.
            sleep(EVERY);
        }
    }

    fn others(self, gpus: &[Gpu], console: &Console) -> Result<Vec<Computing>, Failure> {
        match discovery::computing(gpus) {
            Ok(others) => Ok(others),
            Err(why) if self == Others::Wait => Err(environment(format!(
                "NVML does not tell which processes use the GPUs, so they cannot be waited for: {why}"
            ))),
            Err(why) => {
                console.note(&format!(
                    "NVML does not tell whether others use the GPUs: {why}"
                ));
                Ok(Vec::new())
            }
        }
    }
}
