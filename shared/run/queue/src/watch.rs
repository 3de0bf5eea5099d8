//! Measures the processor use of jobs, from `/proc`.

use std::collections::BTreeMap;
use std::path::Path;

use jobs::process::{Wanted, machine, members, wanted};

use crate::book::Id;
use crate::processors::Look;

/// Seconds between two observations: one-second jobs are seen several times, and an observation of 64 jobs with a few
/// threads each takes 2 ms.
const PAUSE: f64 = 0.25;

/// The previous observation.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    at: f64,
    busy_s: f64,
    used_s: BTreeMap<Id, f64>,
}

impl Watch {
    /// Observes running jobs, each with its start, its first process, and the list of its processes if it has a
    /// control group; `None`: it is too early for another observation.
    pub(crate) fn look<'a>(
        &mut self,
        now: f64,
        jobs: impl Iterator<Item = (Id, f64, i32, Option<&'a Path>)>,
    ) -> Option<Look> {
        let seconds = now - self.at;
        if seconds < PAUSE {
            return None;
        }
        let machine = machine()?;
        let mut all = BTreeMap::new();
        let mut used_s = BTreeMap::new();
        let mut own = 0.0;
        for (id, started, pid, procs) in jobs {
            let sum = of_job(pid, procs);
            let before = self.used_s.get(&id).copied().unwrap_or(0.0);
            own += (sum.used_s - before).max(0.0);
            used_s.insert(id, sum.used_s);
            all.insert(id, (now - started, sum.used_s + sum.ready_s));
        }
        // `busy_s` excludes programs of low priority, and these jobs may have one.
        let busy = (machine.busy_s - self.busy_s).max(own) / seconds;
        let first = self.at == 0.0;
        (self.at, self.busy_s, self.used_s) = (now, machine.busy_s, used_s);
        (!first).then_some(Look {
            seconds,
            busy: busy.min(machine.processors as f64),
            wanted: all,
        })
    }
}

fn of_job(pid: i32, procs: Option<&Path>) -> Wanted {
    let all = members(pid, procs).into_iter().filter_map(wanted);
    all.fold(Wanted::default(), |sum, one| Wanted {
        used_s: sum.used_s + one.used_s,
        ready_s: sum.ready_s + one.ready_s,
    })
}
