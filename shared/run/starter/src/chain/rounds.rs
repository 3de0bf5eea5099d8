//! Launching at once: what is learnt is learnt from the rounds.

use std::path::{Path, PathBuf};

use cli::{Console, Failure};
use doc::{Any, DeviceKind, EventPayload};

use super::{Chain, names, read};
use crate::RunArgs;

/// Whether the rounds are learnt from, instead of measuring first. Options of measuring ask for it; so does a
/// simulated device, where nothing is trained and a plan is what one looks for, several GPUs, among which tasks are
/// only divided by a plan, and the folder of an earlier run that has measured.
pub(super) fn learns(args: &RunArgs, folder: &Path, console: &Console) -> bool {
    let measures = args.measure_first || args.no_launch || args.objective.is_some();
    let measures = measures || args.budget.is_some() || args.window.is_some();
    // A workload that can be read only once is left to mt-profile, which also says what is wrong with it.
    if measures || !args.workload.is_file() || folder.join("profile.ndjson").exists() {
        return false;
    }
    let Ok(Some(Any::Workload(mut workload))) = read(&args.workload, console) else {
        return false;
    };
    workload.device.kind = args.device.map_or(workload.device.kind, DeviceKind::from);
    let (kind, _) = host::resolve(&workload);
    matches!(kind, DeviceKind::Cpu | DeviceKind::Cuda) && workload.device.gpus == 1
}

impl Chain<'_> {
    /// Launches the rounds that earlier launches in the folder have left, with what those have taught.
    pub(super) fn learn(&mut self, shown: &mut Vec<String>) -> Result<(), Failure> {
        self.stages.begin("launch");
        let earlier: Vec<PathBuf> = names()
            .map(|name| self.folder.join(name))
            .take_while(|path| path.exists())
            .collect();
        let mut done = 0;
        for path in &earlier {
            if let Some(Any::Run(events)) = read(path, self.console)? {
                let whole =
                    |e: &&doc::RunEvent| matches!(e.payload, EventPayload::Round { ok: true, .. });
                done += u32::try_from(events.iter().filter(whole).count()).unwrap_or(u32::MAX);
            }
        }
        let earlier: Vec<String> = earlier.iter().map(|p| p.display().to_string()).collect();
        shown.extend(earlier.iter().cloned());
        let left = self.args.rounds.saturating_sub(done);
        if left == 0 {
            self.console
                .say(&format!("all {} rounds are done", self.args.rounds));
            return Ok(());
        }
        let (left, first) = (left.to_string(), done.to_string());
        let mut more = vec!["--learn", "--rounds", &left];
        if done > 0 {
            more.extend(["--round", &first]);
        }
        more.extend(earlier.iter().flat_map(|run| ["--known", run]));
        let events = names().find(|name| !self.folder.join(name).exists());
        let events = self.at(&events.unwrap_or_default());
        let workload = self.args.workload.display().to_string();
        self.launch_into(&workload, events, &more, shown)
    }
}
