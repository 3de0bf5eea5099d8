//! Carries out the policy's decisions.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use host::{Gpus, Grant, HostError};
use jobs::{JobSpec, LogLimits, ProgressSource};
use runner::{Limits, Reports};
use trial::detect::Detector;
use units::{Share, TaskId};

use super::{Keeper, Live, Run};
use crate::after;
use crate::book::{Entry, Id, JobEnd, Placed, Record};
use crate::devices::Spot;
use crate::message::START;
use crate::others;
use crate::policy::Decision;

/// Pause after a start that failed for lack of processes, descriptors, memory or disk space. Other jobs may end in this
/// time, and an overloaded machine is not tried fifty times a second.
const SHORTAGE: Duration = Duration::from_secs(1);

impl Keeper {
    pub(super) fn start_what_may(&mut self, run: &mut Run<'_>) {
        self.lend_again(run);
        // No decision could be carried out now, so none is made.
        if Instant::now() < self.again {
            return;
        }
        for decision in self.policy.decide(&self.book, self.now()) {
            match decision {
                // Programs that others started are ended in `look_at_others`.
                Decision::Stop(id) => run.stop_within(id, self.grace(id), "cancelled".to_owned()),
                Decision::Skip(id, why) => self.owed.push(Record::Ended {
                    id,
                    at_s: self.now(),
                    outcome: JobEnd::Skipped(why),
                }),
                Decision::Start(id, spot) => self.start(run, id, &spot),
            }
        }
        self.pay();
    }

    fn start(&mut self, run: &mut Run<'_>, id: Id, spot: &Spot) {
        let at_s = self.now();
        let placed = Some(Placed::of(spot, &self.place.devices));
        // Writing to the disk failed: the job waits, and the next decision tries again.
        if self.write(&[Record::Started { id, at_s, placed }]).is_err() {
            return;
        }
        let Some(entry) = self.book.entries.get(&id).cloned() else {
            return;
        };
        self.policy.started(&entry, spot, at_s);
        let grant = self.grant(&entry, spot);
        let started = match entry.job.process {
            // The program polls the server until it finds itself running.
            Some(_) => self.lend(run, &entry, &grant),
            None => self.launch(run, &entry, grant),
        };
        match started {
            Ok(()) => {}
            Err(HostError::Spawn(error)) if !error.is_shortage() => {
                self.over(&entry, JobEnd::Skipped(error.to_string()));
            }
            Err(error) => self.wait_for_room(&entry, &error.to_string()),
        }
    }

    /// A program that another one starts gets variables instead of a process.
    fn lend(&mut self, run: &mut Run<'_>, entry: &Entry, grant: &Grant) -> Result<(), HostError> {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let lent = run.lend(grant)?.into_iter().filter_map(text).collect();
        self.lent.insert(entry.job.id, lent);
        Ok(())
    }

    /// Lends the variables again: a program that the last server admitted may not have asked for them yet.
    fn lend_again(&mut self, run: &mut Run<'_>) {
        for id in std::mem::take(&mut self.unlent) {
            if let Some(entry) = self.book.entries.get(&id).cloned() {
                let grant = self.grant(&entry, &self.spot(&entry));
                // On failure it runs without the variables: nothing else would end its wait.
                self.lend(run, &entry, &grant).ok();
            }
        }
    }

    fn grant(&self, entry: &Entry, spot: &Spot) -> Grant {
        let whole = self.book.asked(entry).is_some_and(|d| d.gpus.is_some());
        let one = Grant::of(spot.share);
        Grant {
            // Devices have the same numbers in the host as in the queue.
            gpus: Gpus::of(&spot.devices).unwrap_or_else(|| one.gpus.clone()),
            whole,
            start: u32::try_from(self.slot()).unwrap_or(u32::MAX),
            ..one
        }
    }

    fn launch(
        &mut self,
        run: &mut Run<'_>,
        entry: &Entry,
        mut grant: Grant,
    ) -> Result<(), HostError> {
        let id = entry.job.id;
        let spec = match self.spec(entry) {
            Ok(spec) => spec,
            Err(why) => {
                self.over(entry, JobEnd::Skipped(why));
                return Ok(());
            }
        };
        self.mark_start(entry, &spec.log);
        let timeout = self
            .book
            .asked(entry)
            .and_then(|demand| demand.timeout_ms)
            .map(Duration::from_millis);
        let until = timeout.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        let limits = Limits {
            until,
            grace: Some(self.grace(id)),
            reports: Reports::Nothing,
            ..Limits::default()
        };
        let mut entered = run.enter(id, spec.clone(), &grant, limits);
        if let Err(HostError::NoGroups(why)) = &entered {
            self.trouble = Some(format!("jobs run without shares: {why}"));
            grant.share = Share::FULL;
            entered = run.enter(id, spec, &grant, limits);
        }
        entered?;
        let live = Live {
            slot: grant.start as usize,
            detector: Detector::default(),
            told: 0.0,
        };
        self.live.insert(id, live);
        Ok(())
    }

    /// Separates the output of this start from that of the previous one in the log.
    fn mark_start(&self, entry: &Entry, log: &Path) {
        if entry.starts > 1
            && let Ok(mut log) = fs::OpenOptions::new().append(true).open(log)
        {
            // Fails on a full disk; then the job's own output is missing as well, and its supervisor reports it.
            writeln!(log, "{START}{}", entry.starts).ok();
        }
    }

    /// A job for which the machine has no room at present keeps waiting, and the queue reports why.
    fn wait_for_room(&mut self, entry: &Entry, why: &str) {
        self.policy.unstarted(entry, self.now());
        self.owed.push(Record::Unstarted(entry.job.id));
        self.pay();
        self.trouble = Some(format!("job {} waits: {why}", entry.job.id));
        self.again = Instant::now() + SHORTAGE;
    }

    fn spec(&self, entry: &Entry) -> Result<JobSpec, String> {
        let group = self
            .book
            .groups
            .get(&entry.group)
            .ok_or("its group is not there")?;
        let own = group.env.iter().chain(&entry.job.set);
        let mut env: BTreeMap<OsString, OsString> = own
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        if group.demand.after_any {
            env.extend(after::counts(&self.book, &group.demand));
        }
        let mark = others::mark(&self.folder, entry.job.id);
        env.insert(others::JOB.into(), mark.into());
        Ok(JobSpec {
            task: TaskId::new(&entry.job.id.to_string()).map_err(|e| e.to_string())?,
            argv: entry.job.argv.iter().map(OsString::from).collect(),
            env,
            cwd: Some(PathBuf::from(&group.cwd)),
            orders: false,
            progress: ProgressSource::Protocol,
            cgroup_procs: None,
            cpus: Vec::new(),
            origin: group.origin.as_deref().cloned(),
            log: self.log(entry.job.id),
            log_limits: LogLimits::default(),
        })
    }
}
