//! The server: one process for each queue, the only one that writes the journal and starts jobs.
//!
//! `Keeper` is a policy of the runner, which supervises the processes; it carries out the decisions of the queue's own
//! [`crate::policy::Policy`]. A start is in the journal before the process exists, so a started job is known whatever
//! happens next. If an end cannot be written to disk, the server keeps the record and retries, and starts nothing new
//! until then.
//!
//! | what | where |
//! |---|---|
//! | what happens to jobs, the end of the queue | `events.rs` |
//! | starts | `starts.rs` |
//! | periodic observations | `looks.rs`, devices and memory `sights.rs` |
//! | the journal | `writing.rs` |

mod events;
mod looks;
mod sights;
mod starts;
mod writing;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use host::{Host as _, WholeMachine};
use jobs::{Journal, Records, RunDir, Signals, Supervision};
use runner::{Quiet, Runner};
use trial::detect::Detector;
use units::TaskId;

use crate::book::{Book, Entry, Id, On, Record};
use crate::devices::{Sight, Spot};
use crate::journal;
use crate::last;
use crate::learnt::Learnt;
use crate::memory::Peaks;
use crate::message::{self, DEVICE, LOCK, LOGS};
use crate::others::{self, Others};
use crate::place::ServerDevices;
use crate::policy::Policy;
use crate::safe;
use crate::socket::{Call, listen};
use crate::store;
use crate::watch::Watch;

/// Why a server cannot run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ServerError(String);

fn failed(error: impl ToString) -> ServerError {
    ServerError(error.to_string())
}

/// Maximum time between two looks at state that nothing reports: the load of the processors, processes of others. Each
/// look interrupts the jobs.
const LOOK: Duration = Duration::from_millis(200);
/// Minimum time between two reads of output, because each read interrupts the jobs: 60 trainings whose threads wait for
/// each other took 1.5 % longer with 10 ms.
const COALESCE: Duration = Duration::from_millis(50);
/// Default time from SIGTERM to SIGKILL: a script that saves a checkpoint at SIGTERM takes a second or two.
const GRACE: Duration = Duration::from_secs(10);

/// Printed lines, each with its task and time.
type Lines = Rc<RefCell<Vec<(TaskId, f64, Vec<u8>)>>>;

/// The runner of a queue.
type Run<'a> = Runner<'a, Id>;

/// A running job.
#[derive(Debug)]
struct Live {
    /// Number of its control group, unique among running jobs.
    slot: usize,
    detector: Detector,
    /// Work that was last reported to the policy.
    told: f64,
}

/// The server of a queue.
#[derive(Debug)]
pub struct Server {
    // Dropped first: no job outlives the lock of the folder.
    host: WholeMachine,
    keeper: Keeper,
}

/// The runner's policy for a queue: writes requests of clients and events of jobs to the journal, and starts the jobs
/// that the queue's policy chooses.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    pub(crate) place: ServerDevices,
    lock: fs::File,
    journal: Records,
    pub(crate) book: Book,
    pub(crate) policy: Policy,
    live: BTreeMap<Id, Live>,
    /// Variables lent to admitted programs that run.
    pub(crate) lent: BTreeMap<Id, BTreeMap<String, String>>,
    /// Programs that the last server admitted and that still run; they have no entry in `lent` yet.
    unlent: Vec<Id>,
    lines: Lines,
    calls: Receiver<Call>,
    clock: Clock,
    /// Changes that have happened but are not on disk yet.
    owed: Vec<Record>,
    pub(crate) trouble: Option<String>,
    /// A message that could not be written to a job's log.
    pub(crate) unlogged: Option<String>,
    /// What was learnt about templates, by kind of device, as last written to disk.
    kept: BTreeMap<String, BTreeMap<String, Learnt>>,
    stopping: bool,
    has_answered: bool,
    handing_over: bool,
    busy: Instant,
    looked: Instant,
    others: Others,
    watch: Watch,
    /// Absent if the library cannot be loaded.
    nvml: Option<host::Sight>,
    /// Last observation of each device.
    sights: Vec<Option<Sight>>,
    sighted: Option<Instant>,
    /// Devices on which nothing may be started at the moment.
    faulted: BTreeSet<usize>,
    /// Devices that are lost for good, and why.
    gone: BTreeMap<usize, String>,
    peaks: Peaks,
    /// Time from SIGTERM to SIGKILL for jobs that were cancelled with an explicit time.
    pub(crate) graces: BTreeMap<Id, Duration>,
    /// Nothing is started before this time, after a start that failed for lack of resources.
    again: Instant,
    /// Placeholder name for unknown jobs.
    unnamed: TaskId,
}

/// Seconds since 1970, without jumps.
#[derive(Debug, Clone, Copy)]
struct Clock {
    began: Instant,
    at_s: f64,
}

impl Clock {
    fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            began: Instant::now(),
            at_s: since.map_or(0.0, |d| d.as_secs_f64()),
        }
    }

    fn now(&self) -> f64 {
        self.at_s + self.began.elapsed().as_secs_f64()
    }
}

impl Server {
    /// Opens the queue of a folder; `None` if another server holds its lock.
    ///
    /// # Errors
    /// [`ServerError`] if the journal cannot be read or the device cannot be used.
    pub fn open(folder: &Path, signals: Signals) -> Result<Option<Self>, ServerError> {
        safe::check(folder, true).map_err(failed)?;
        fs::create_dir_all(folder.join(LOGS)).map_err(failed)?;
        let lock = fs::File::create(folder.join(LOCK)).map_err(failed)?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        last::put_away(folder).map_err(failed)?;
        // Leftovers of an earlier run are removed without a report, which nobody would read here.
        let begun = RunDir::begin(&RunDir::default_base(), "mt queue", true);
        let (run, _) = begun.map_err(failed)?;
        last::leave(folder, run.path()).map_err(failed)?;
        let clock = Clock::start();
        let (journal, book) = journal::open(folder, clock.now()).map_err(failed)?;
        let named = std::env::var(DEVICE).ok();
        let cpu = match named.as_deref() {
            Some(name) => name == On::Cpu.name(),
            None => book.wishes.device == Some(On::Cpu),
        };
        let place = ServerDevices::find(cpu);
        let mut host = place.open(LOOK, run).map_err(failed)?;
        let lines = Lines::default();
        let taken = Rc::clone(&lines);
        let supervisor = host.supervisor();
        supervisor.listen(signals);
        supervisor.coalesce(COALESCE);
        supervisor.watch(move |task, line| {
            let line = (task.clone(), clock.now(), line.to_vec());
            taken.borrow_mut().push(line);
        });
        let (calls, wake) = listen(folder).map_err(failed)?;
        supervisor.wake_on(wake);
        let mut keeper = Keeper::new(folder, lock, (journal, book), place, (clock, lines, calls))?;
        keeper.recover()?;
        Ok(Some(Self { host, keeper }))
    }

    /// Serves until there is nothing to do for a while, a client ends it, or a signal arrives.
    pub fn serve(mut self) {
        // The queue itself decides about restarts, so the runner never restarts a job.
        let supervision = Supervision::of_programs(GRACE);
        let journal = Journal::new(self.host.now());
        let mut sink = Quiet;
        let runner = Runner::new(&mut self.host, &mut sink, &supervision, journal);
        runner.run(&mut self.keeper);
        self.keeper.end();
    }
}

impl Keeper {
    fn new(
        folder: &Path,
        lock: fs::File,
        (journal, book): (Records, Book),
        place: ServerDevices,
        (clock, lines, calls): (Clock, Lines, Receiver<Call>),
    ) -> Result<Self, ServerError> {
        let limits = place.limits(&book.wishes);
        let kinds: BTreeSet<&String> = place.devices.iter().map(|device| &device.kind).collect();
        let read = |kind: &String| (kind.clone(), store::read(folder, kind));
        let kept: BTreeMap<_, _> = kinds.into_iter().map(read).collect();
        Ok(Self {
            folder: folder.to_owned(),
            policy: Policy::new(place.devices.clone(), limits, &kept),
            watch: Watch::default(),
            // NVML is only needed for GPUs.
            nvml: (place.devices.len() > 1)
                .then(host::Sight::open)
                .and_then(Result::ok),
            sights: vec![None; place.devices.len()],
            sighted: None,
            faulted: BTreeSet::new(),
            gone: BTreeMap::new(),
            place,
            lock,
            journal,
            book,
            live: BTreeMap::new(),
            lent: BTreeMap::new(),
            unlent: Vec::new(),
            lines,
            calls,
            clock,
            owed: Vec::new(),
            trouble: None,
            unlogged: None,
            kept,
            stopping: false,
            has_answered: false,
            handing_over: false,
            busy: Instant::now(),
            looked: Instant::now(),
            others: Others::default(),
            peaks: Peaks::default(),
            graces: BTreeMap::new(),
            again: Instant::now(),
            unnamed: TaskId::new("job").map_err(failed)?,
        })
    }

    /// Records what happened to the jobs that ran under the last server.
    fn recover(&mut self) -> Result<(), ServerError> {
        let alive = |entry: &Entry| others::is_alive(&self.folder, entry);
        let records = self
            .book
            .recover(&jobs::process::boot(), self.clock.now(), alive);
        self.write(&records).map_err(failed)?;
        let others: Vec<Entry> = self.book.running().cloned().collect();
        for entry in others {
            self.unlent.push(entry.job.id);
            let spot = self.spot(&entry);
            self.policy.started(&entry, &spot, self.clock.now());
        }
        Ok(())
    }

    /// Devices and share of a running job. Servers of older versions had one device, and recorded none.
    fn spot(&self, entry: &Entry) -> Spot {
        match &entry.placed {
            Some(placed) => placed.spot(&self.place.devices),
            None => Spot {
                devices: vec![0],
                share: self.book.share(entry),
            },
        }
    }

    /// Whether the path still leads to the folder that was opened: another server may have started in a new folder of
    /// the same name.
    fn has_folder(&self) -> bool {
        let lock = fs::metadata(self.folder.join(LOCK));
        match (lock, self.lock.metadata()) {
            (Ok(there), Ok(own)) => (there.dev(), there.ino()) == (own.dev(), own.ino()),
            (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
            (_, Err(_)) => true,
        }
    }

    /// Message about the files with unreadable records.
    pub(crate) fn unreadable(&self) -> Option<String> {
        journal::told(&self.folder)
    }

    pub(crate) fn now(&self) -> f64 {
        self.clock.now()
    }

    /// Whether this server may end so that a client can start a new one. A server that has answered nothing yet was
    /// probably started by that client, so a new one would be no different.
    pub(crate) fn may_hand_over(&self) -> bool {
        self.has_answered && self.book.running().next().is_none()
    }

    /// Ends without an answer. The client then starts a new server, which can pass the client's niceness and limits on
    /// to jobs.
    pub(crate) fn hand_over(&mut self) {
        (self.handing_over, self.stopping) = (true, true);
    }

    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Progress of a job and its unit.
    pub(crate) fn progress(&self, id: Id) -> Option<(message::ReportedProgress, &'static str)> {
        let detector = &self.live.get(&id)?.detector;
        let best = detector.best()?;
        let (_, done) = best.marks.last()?;
        let per_s = best.marks.rate(0.0, f64::INFINITY).map(|rate| rate.per_s);
        let of = detector.total();
        let left_s = of
            .zip(per_s)
            .map(|(of, per_s)| (of - done).max(0.0) / per_s);
        let progress = message::ReportedProgress {
            done,
            of,
            per_s,
            left_s,
        };
        Some((progress, best.form.unit))
    }

    /// Path of a job's log.
    fn log(&self, id: Id) -> PathBuf {
        self.folder.join(LOGS).join(format!("{id}.log"))
    }

    /// Time from SIGTERM to SIGKILL: the one given when it was cancelled, else that of the job, else that of the queue.
    fn grace(&self, id: Id) -> Duration {
        let entry = self.book.entries.get(&id);
        let own = entry
            .and_then(|entry| self.book.asked(entry)?.grace_ms)
            .or(self.book.wishes.grace_ms)
            .map(Duration::from_millis);
        self.graces.get(&id).copied().or(own).unwrap_or(GRACE)
    }

    /// The smallest control-group number that no running job uses.
    fn slot(&self) -> usize {
        let taken: BTreeSet<usize> = self.live.values().map(|live| live.slot).collect();
        (0..).find(|slot| !taken.contains(slot)).unwrap_or_default()
    }

    fn keep_learnt(&mut self) {
        for (kind, learnt) in self.policy.learnt() {
            if self.kept.get(kind) == Some(learnt) {
                continue;
            }
            if let Err(error) = store::write(&self.folder, kind, learnt) {
                self.trouble = Some(format!("what was learnt cannot be saved: {error}"));
            }
            self.kept.insert(kind.clone(), learnt.clone());
        }
    }

    /// Records that the jobs that this server ended wait for the next server.
    fn end(&mut self) {
        self.pay();
        // If this cannot be written because the disk is full, the next server assumes that this one died.
        self.owed.extend(self.book.stopped(self.now()));
        self.pay();
        if self.has_folder() {
            fs::remove_file(self.folder.join(message::SOCKET)).ok();
        }
    }
}
