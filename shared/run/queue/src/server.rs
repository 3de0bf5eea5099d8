//! The server: one process for each queue, the only one that writes the journal and starts jobs.
//!
//! It carries out the policy's decisions. A start is in the journal before the process exists, so a started
//! job is known whatever happens next. If an end cannot be written to disk, it is kept and retried, and
//! nothing new starts meanwhile.

mod writing;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jobs::{
    Event, Exit, Happening, JobId, JobSpec, LogLimits, Progress, Records, RunDir, Signals,
    Supervisor,
};
use trial::detect::Detector;
use units::TaskId;

use crate::after;
use crate::book::{Book, Entry, Id, On, Outcome, Placed, Record, State};
use crate::devices::Spot;
use crate::journal;
use crate::last;
use crate::learnt::Learnt;
use crate::memory::Peaks;
use crate::message::{self, DEVICE, LOCK, LOGS, START};
use crate::others::{self, Others};
use crate::place::{Place, VISIBLE, is_none};
use crate::policy::{Decision, Gone, Policy};
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

/// Maximum time between two looks at what no request and no job reports: the processors, processes of others. Each look
/// interrupts the jobs.
const LOOK: Duration = Duration::from_millis(200);
/// Output is read at most this often, because each reading interrupts the jobs: 60 trainings whose threads wait for each
/// other took 1.5 % longer with 10 ms.
const COALESCE: Duration = Duration::from_millis(50);
/// From SIGTERM to SIGKILL: a script that saves a checkpoint at SIGTERM takes a second or two.
const GRACE: Duration = Duration::from_secs(10);
/// A server without jobs ends after this time: the next client starts another.
const IDLE: Duration = Duration::from_secs(60);
/// How often to check whether processes that others started still exist.
const LOOK_AT_OTHERS: Duration = Duration::from_millis(200);

/// Pause after a start that failed for lack of processes, descriptors, memory or disk space: other jobs end
/// meanwhile, and an overloaded machine is not asked fifty times a second.
const SHORTAGE: Duration = Duration::from_secs(1);

/// Lines as printed, with the task that printed them.
type Lines = Rc<RefCell<Vec<(TaskId, f64, Vec<u8>)>>>;

/// A job that runs here.
struct Live {
    process: JobId,
    seat: usize,
    detector: Detector,
    /// Work that has been reported to the policy.
    told: f64,
    /// When it is ended because it has run longer than it may.
    until: Option<Instant>,
    /// It was ended for that reason.
    late: bool,
}

/// The server of a queue.
pub struct Server {
    folder: PathBuf,
    // Dropped in this order: jobs, then the resources of their shares, then the directory whose ledger contains both.
    supervisor: Supervisor,
    pub(crate) place: Place,
    run: RunDir,
    lock: fs::File,
    journal: Records,
    pub(crate) book: Book,
    pub(crate) policy: Policy,
    live: BTreeMap<Id, Live>,
    lines: Lines,
    calls: Receiver<Call>,
    clock: Clock,
    /// Changes that have happened but are not on disk yet.
    owed: Vec<Record>,
    pub(crate) trouble: Option<String>,
    /// What should be in the log of a job that takes no more.
    pub(crate) unlogged: Option<String>,
    kept: BTreeMap<String, Learnt>,
    stopping: bool,
    has_answered: bool,
    handing_over: bool,
    busy: Instant,
    looked: Instant,
    others: Others,
    watch: Option<Watch>,
    peaks: Peaks,
    /// From SIGTERM to SIGKILL, of jobs that a user has cancelled with a time of his own.
    pub(crate) graces: BTreeMap<Id, Duration>,
    /// After a start that failed for lack of resources, nothing is started before this time.
    again: Instant,
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
    /// Opens the queue of a folder; `None`: another server has it.
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
        // Nobody would read what an earlier run had left.
        let begun = RunDir::begin(&RunDir::default_base(), "mt queue", true);
        let (mut run, _) = begun.map_err(failed)?;
        last::leave(folder, run.path()).map_err(failed)?;
        let clock = Clock::start();
        let (journal, book) = journal::open(folder, clock.now()).map_err(failed)?;
        let named = std::env::var(DEVICE).ok();
        let cpu = match named.as_deref() {
            Some(name) => name == On::Cpu.name(),
            None => book.wishes.device == Some(On::Cpu),
        };
        let place = Place::open(cpu).map_err(failed)?;
        let mut supervisor = Supervisor::of_run(&mut run).map_err(failed)?;
        supervisor.listen(signals);
        supervisor.coalesce(COALESCE);
        let lines = Lines::default();
        let taken = Rc::clone(&lines);
        supervisor.watch(move |task, line| {
            let line = (task.clone(), clock.now(), line.to_vec());
            taken.borrow_mut().push(line);
        });
        let limits = place.limits(&book.wishes);
        let kept = store::read(folder, &place.name);
        let processors = place.processors();
        let learnt = BTreeMap::from([(place.name.clone(), kept.clone())]);
        let policy = Policy::new(vec![place.device()], limits, &learnt);
        let (calls, wake) = listen(folder).map_err(failed)?;
        supervisor.wake_on(wake);
        let mut server = Self {
            folder: folder.to_owned(),
            supervisor,
            place,
            run,
            lock,
            journal,
            book,
            policy,
            live: BTreeMap::new(),
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
            watch: processors.map(|_| Watch::default()),
            peaks: Peaks::default(),
            graces: BTreeMap::new(),
            again: Instant::now(),
        };
        server.recover()?;
        Ok(Some(server))
    }

    /// Outcome of the jobs that ran under the last server.
    fn recover(&mut self) -> Result<(), ServerError> {
        let alive = |entry: &Entry| others::is_alive(&self.folder, entry);
        let records = self
            .book
            .recover(&jobs::process::boot(), self.clock.now(), alive);
        self.write(&records).map_err(failed)?;
        let others: Vec<Entry> = self.book.running().cloned().collect();
        for entry in others {
            let spot = match &entry.placed {
                Some(placed) => placed.spot(&[self.place.device()]),
                None => self.only_spot(&entry),
            };
            self.policy.started(&entry, &spot, self.clock.now());
        }
        Ok(())
    }

    /// Serves until there is nothing to do for a while, a client ends it, or a signal arrives.
    pub fn serve(mut self) {
        while !self.stopping {
            let events = self.supervisor.poll(LOOK);
            self.stopping |= self.supervisor.arrived().first.is_some();
            self.read_lines();
            for event in events {
                self.happened(event);
            }
            self.look_at_others();
            self.look_at_processors();
            self.look_at_memory();
            self.end_late();
            while let Ok((request, answer)) = self.calls.try_recv() {
                self.busy = Instant::now();
                // An answer is made from the book: what has happened must be in it.
                self.pay();
                let reply = self.answer(request);
                if self.handing_over {
                    // Without an answer the client starts a server, as if this one had died.
                    break;
                }
                self.has_answered = true;
                // A client that has gone gets no reply, but its request is done.
                answer.send(reply).ok();
            }
            self.pay();
            if self.owed.is_empty() && !self.stopping {
                self.decide();
            }
            self.keep_learnt();
            let idle = !self.book.is_busy();
            if !idle {
                self.busy = Instant::now();
            }
            self.stopping |= idle && self.busy.elapsed() > IDLE;
            // In a folder that was removed no client can reach it, and nothing would be kept.
            self.stopping |= !self.has_folder();
        }
        self.end();
    }

    /// Whether the folder still is the one that it opened: another server may have begun in a new one.
    fn has_folder(&self) -> bool {
        let lock = fs::metadata(self.folder.join(LOCK));
        match (lock, self.lock.metadata()) {
            (Ok(there), Ok(own)) => (there.dev(), there.ino()) == (own.dev(), own.ino()),
            (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
            (_, Err(_)) => true,
        }
    }

    /// Where the records are that could not be read.
    pub(crate) fn unreadable(&self) -> Option<String> {
        journal::told(&self.folder)
    }

    pub(crate) fn now(&self) -> f64 {
        self.clock.now()
    }

    /// Whether this server may end in favour of one that a client starts. One that was just started, perhaps by that
    /// client, would only be followed by its like.
    pub(crate) fn may_hand_over(&self) -> bool {
        self.has_answered && self.book.running().next().is_none()
    }

    /// Ends without an answer: the server that the client then starts can give jobs what the client has.
    pub(crate) fn hand_over(&mut self) {
        (self.handing_over, self.stopping) = (true, true);
    }

    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    /// Progress of a job.
    pub(crate) fn progress(&self, id: Id) -> Option<(message::Progress, &'static str)> {
        let detector = &self.live.get(&id)?.detector;
        let best = detector.best()?;
        let (_, done) = best.marks.last()?;
        let per_s = best.marks.rate(0.0, f64::INFINITY).map(|rate| rate.per_s);
        let of = detector.total();
        let left_s = of
            .zip(per_s)
            .map(|(of, per_s)| (of - done).max(0.0) / per_s);
        let progress = message::Progress {
            done,
            of,
            per_s,
            left_s,
        };
        Some((progress, best.form.unit))
    }

    fn read_lines(&mut self) {
        for (task, at, line) in self.lines.borrow_mut().drain(..) {
            let id = task.as_str().parse().ok().map(Id);
            if let Some(live) = id.and_then(|id| self.live.get_mut(&id)) {
                live.detector.line(at, &line);
            }
        }
        for (id, live) in &mut self.live {
            let mark = live.detector.best().and_then(|best| best.marks.last());
            if let Some((at, work)) = mark.filter(|(_, work)| *work > live.told) {
                live.told = work;
                self.policy.progress(*id, at, work);
            }
        }
    }

    fn happened(&mut self, event: Event) {
        let id = self.live.iter().find(|(_, live)| live.process == event.job);
        let Some((&id, _)) = id else { return };
        self.tell(id, &event.what);
        let Happening::Exited {
            exit,
            out_of_memory,
            peak_bytes,
            ..
        } = event.what
        else {
            return;
        };
        let live = self.live.remove(&id);
        let late = live.as_ref().is_some_and(|live| live.late);
        if let Some(live) = live {
            self.place.free(live.seat);
        }
        self.graces.remove(&id);
        // Its control group knows the peak if it counts memory; else what was seen of all its processes together, and
        // what the kernel knows of the largest of them.
        let peak = self.peaks.take(id).max(peak_bytes);
        self.owed
            .extend(peak.map(|bytes| Record::Peak { id, bytes }));
        let Some(entry) = self.book.entries.get(&id).cloned() else {
            return;
        };
        let outcome = match exit {
            _ if late => Outcome::TimedOut,
            Exit::Code(0) => Outcome::Done,
            Exit::Code(code) => Outcome::Failed(code),
            Exit::Signal(signal) => Outcome::Killed(signal),
        };
        let now = self.now();
        let gone = Gone {
            out_of_memory: out_of_memory.is_some(),
            peak,
            ..Gone::from(outcome)
        };
        let record = self.policy.exited(&self.book, &entry, gone, now);
        self.owed.push(record);
    }

    /// Says in a job's log what its user must hear of it; if the log takes no more, in the state of the queue.
    fn tell(&mut self, id: Id, what: &Happening) {
        // While the queue stops, what a job leaves is killed with it.
        let is_moot = self.stopping && matches!(what, Happening::Exited { .. });
        let Some(told) = what.told(&format!("job {id}")).filter(|_| !is_moot) else {
            return;
        };
        let path = self.folder.join(LOGS).join(format!("{id}.log"));
        let log = fs::OpenOptions::new().append(true).open(path);
        if log.and_then(|mut log| writeln!(log, "mt: {told}")).is_err() {
            self.unlogged = Some(told);
        }
    }

    /// A running job has ended.
    fn over(&mut self, entry: &Entry, outcome: Outcome) {
        let (id, at_s) = (entry.job.id, self.now());
        self.policy.ended(entry, &outcome, at_s);
        self.owed.push(Record::Ended { id, at_s, outcome });
    }

    /// Processes that others started and that have gone, admitted or not.
    fn look_at_others(&mut self) {
        if self.looked.elapsed() < LOOK_AT_OTHERS || !self.owed.is_empty() {
            return;
        }
        self.looked = Instant::now();
        let others: Vec<Entry> = self.book.others().cloned().collect();
        let at_s = self.now();
        for entry in others {
            let id = entry.job.id;
            if self.others.look(&self.folder, &entry) {
                let is_orphan = entry.job.parent.is_some_and(|parent| !parent.is_alive());
                if is_orphan || entry.cancelled {
                    let grace = self.grace(id);
                    self.others.end(&self.folder, &entry, grace);
                }
                continue;
            }
            self.others.forget(id);
            self.graces.remove(&id);
            match (&entry.state, entry.cancelled) {
                (State::Running(_), false) => self.over(&entry, Outcome::Left),
                (State::Running(_), true) => self.over(&entry, Outcome::Cancelled),
                _ => self.owed.push(Record::Ended {
                    id,
                    at_s,
                    outcome: Outcome::Cancelled,
                }),
            }
        }
    }

    /// Observes the memory of jobs.
    fn look_at_memory(&mut self) {
        let supervisor = &self.supervisor;
        let jobs = self.live.iter().filter_map(|(id, live)| {
            let pid = supervisor.pid(live.process)?;
            Some((*id, pid, supervisor.procs(live.process)))
        });
        self.peaks.look(jobs);
    }

    /// Ends jobs that have run longer than they may.
    fn end_late(&mut self) {
        let now = Instant::now();
        let late = |(id, live): (&Id, &Live)| {
            let over = live.until.is_some_and(|until| until <= now);
            (over && !live.late).then_some(*id)
        };
        let late: Vec<Id> = self.live.iter().filter_map(late).collect();
        for id in late {
            let grace = self.grace(id);
            if let Some(live) = self.live.get_mut(&id) {
                live.late = true;
                self.supervisor.stop(live.process, grace);
            }
        }
    }

    /// From SIGTERM to SIGKILL: what the user who cancelled it, the job, or the queue says.
    fn grace(&self, id: Id) -> Duration {
        let entry = self.book.entries.get(&id);
        let own = entry.and_then(|entry| self.book.asked(entry)?.grace_ms);
        let own = own.or(self.book.wishes.grace_ms).map(Duration::from_millis);
        self.graces.get(&id).copied().or(own).unwrap_or(GRACE)
    }

    /// Observes jobs and processors, a few times a second.
    fn look_at_processors(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let jobs = self.book.running().filter_map(|entry| {
            let State::Running(at) = entry.state else {
                return None;
            };
            let id = entry.job.id;
            let process = self.live.get(&id).map(|live| live.process);
            let pid = match entry.job.process {
                Some(process) => process.pid,
                None => self.supervisor.pid(process?)?,
            };
            let procs = process.and_then(|process| self.supervisor.procs(process));
            Some((id, at, pid, procs))
        });
        if let Some(look) = watch.look(self.clock.now(), jobs) {
            self.policy.look(&look);
        }
    }

    /// The spot of a job that an older server had started: there was one device.
    fn only_spot(&self, entry: &Entry) -> Spot {
        Spot {
            devices: vec![0],
            share: self.book.share(entry),
        }
    }

    fn decide(&mut self) {
        // Nothing can be carried out now, so nothing is decided.
        if Instant::now() < self.again {
            return;
        }
        for decision in self.policy.decide(&self.book, self.now()) {
            match decision {
                Decision::Stop(id) => {
                    // One that another program started is ended where it is looked at.
                    if let Some(live) = self.live.get(&id) {
                        self.supervisor.stop(live.process, self.grace(id));
                    }
                }
                Decision::Skip(id, why) => self.owed.push(Record::Ended {
                    id,
                    at_s: self.now(),
                    outcome: Outcome::Skipped(why),
                }),
                Decision::Start(id, spot) => self.start(id, &spot),
            }
        }
        self.pay();
    }

    fn start(&mut self, id: Id, spot: &Spot) {
        let at_s = self.now();
        let placed = Some(Placed::of(spot, &[self.place.device()]));
        // The disk failed: the job waits, and the next decision tries again.
        if self.write(&[Record::Started { id, at_s, placed }]).is_err() {
            return;
        }
        let Some(entry) = self.book.entries.get(&id).cloned() else {
            return;
        };
        self.policy.started(&entry, spot, at_s);
        if entry.job.process.is_some() {
            // It asks until it finds itself running.
            return;
        }
        let share = spot.share;
        let seat = match self.place.take(&mut self.run, share) {
            Ok(seat) => seat,
            Err(why) => return self.wait_for_room(&entry, why),
        };
        self.trouble = seat.trouble.or(self.trouble.take());
        let spec = match self.spec(&entry, seat.procs, seat.env) {
            Ok(spec) => spec,
            Err(why) => {
                self.place.free(seat.number);
                return self.over(&entry, Outcome::Skipped(why));
            }
        };
        self.mark_start(&entry, &spec.log);
        let timeout = self.book.asked(&entry).and_then(|demand| demand.timeout_ms);
        let timeout = timeout.map(Duration::from_millis);
        match self.supervisor.spawn(&spec) {
            Ok(process) => {
                let live = Live {
                    process,
                    seat: seat.number,
                    detector: Detector::default(),
                    told: 0.0,
                    until: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
                    late: false,
                };
                self.live.insert(id, live);
            }
            Err(error) => {
                self.place.free(seat.number);
                match error.is_shortage() {
                    true => self.wait_for_room(&entry, error.to_string()),
                    false => self.over(&entry, Outcome::Skipped(error.to_string())),
                }
            }
        }
    }

    /// Separates the output of one start from that of the one before.
    fn mark_start(&self, entry: &Entry, log: &Path) {
        if entry.starts > 1
            && let Ok(mut log) = fs::OpenOptions::new().append(true).open(log)
        {
            // A full disk: the job's own output is then missing as well, and its supervisor reports it.
            writeln!(log, "{START}{}", entry.starts).ok();
        }
    }

    /// If the machine has no room for a job at present, it continues to wait, and the queue reports why.
    fn wait_for_room(&mut self, entry: &Entry, why: String) {
        self.policy.unstarted(entry, self.now());
        self.owed.push(Record::Unstarted(entry.job.id));
        self.pay();
        self.trouble = Some(format!("job {} waits: {why}", entry.job.id));
        self.again = Instant::now() + SHORTAGE;
    }

    fn spec(
        &self,
        entry: &Entry,
        procs: Option<PathBuf>,
        seat: Vec<(OsString, OsString)>,
    ) -> Result<JobSpec, String> {
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
        // A job that wants no GPU has a place, but sees none.
        if !env
            .get(OsStr::new(VISIBLE))
            .and_then(|v| v.to_str())
            .is_some_and(is_none)
        {
            env.extend(seat);
        }
        let mark = others::mark(&self.folder, entry.job.id);
        env.insert(others::JOB.into(), mark.into());
        Ok(JobSpec {
            task: TaskId::new(&entry.job.id.to_string()).map_err(|e| e.to_string())?,
            argv: entry.job.argv.iter().map(OsString::from).collect(),
            env,
            cwd: Some(PathBuf::from(&group.cwd)),
            orders: false,
            progress: Progress::Protocol,
            cgroup_procs: procs,
            cpus: Vec::new(),
            origin: group.origin.as_deref().cloned(),
            log: self.folder.join(LOGS).join(format!("{}.log", entry.job.id)),
            log_limits: LogLimits::default(),
        })
    }

    fn keep_learnt(&mut self) {
        let learnt = self.policy.learnt().remove(&self.place.name);
        let learnt = learnt.unwrap_or_default();
        if learnt == self.kept {
            return;
        }
        self.kept = learnt;
        if let Err(error) = store::write(&self.folder, &self.place.name, &self.kept) {
            self.trouble = Some(format!("what was learnt cannot be saved: {error}"));
        }
    }

    /// Ends the running jobs, which will run again with the next server.
    fn end(&mut self) {
        // Processes that ended by themselves until now count as ended. From here on, an exit status does not show
        // whether a job was done: a script that saves when asked to end may also exit with 0.
        for event in self.supervisor.poll(Duration::ZERO) {
            self.happened(event);
        }
        for (&id, live) in &self.live {
            self.supervisor.stop(live.process, self.grace(id));
        }
        while self.supervisor.running() > 0 {
            self.supervisor.poll(LOOK);
        }
        self.pay();
        // Without room on the disk, the next server takes this for the death of this one.
        self.owed.extend(self.book.stopped(self.now()));
        self.pay();
        if self.has_folder() {
            fs::remove_file(self.folder.join(message::SOCKET)).ok();
        }
    }
}
