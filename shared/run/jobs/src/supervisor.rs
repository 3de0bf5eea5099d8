mod event;
mod family;
mod job;
mod output;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use units::TaskId;

use crate::cgroup::Enclosures;
use crate::process::{self, Identity, Lineage};
use crate::sign::Sign;
use crate::signals::{drain, pipe_of};
use crate::{Arrived, JobSpec, RunDir, Signals, SpawnError, mps};
use event::{Echo, PATIENCE};
pub use event::{Event, Exit, Happening, JobId, Order, OrderError, Steps, strays_told};
use job::RunningJob;

/// Starts jobs, reads their output, and notices their end.
///
/// Create it in a thread that lives as long as the jobs should, because the jobs die with that thread. Dropping the
/// supervisor kills all jobs.
#[derive(Debug)]
pub struct Supervisor {
    jobs: BTreeMap<JobId, RunningJob>,
    next: u64,
    sign: Sign,
    /// Control groups for jobs that are started without one.
    enclosures: Option<Enclosures>,
    /// Time of the last check that jobs are in their control groups.
    looked: Instant,
    children: UnixStream,
    signals: Option<Signals>,
    /// Receives a byte when [`Supervisor::poll`] should return.
    wake: Option<UnixStream>,
    coalesce: Duration,
    last_read: Instant,
    /// Output accumulates until this time.
    read_at: Instant,
    chunk: Vec<u8>,
    echo: Option<Echo>,
    queue: Vec<Event>,
    /// Children that are no strays; `None`: no search for strays.
    known: Option<Vec<Identity>>,
}

/// Bytes read from one pipe at a time: the size of a pipe's buffer in Linux, so one read empties it.
const CHUNK: usize = 64 * 1024;
/// Interval of the checks that jobs are in their control groups. A check scans all processes of the machine, about 1 ms
/// for 150 of them. A job that leaves its group does so when it starts, and is reported before it has trained for long.
const LOOK_INSIDE: Duration = Duration::from_secs(1);

/// Time between two searches for the remaining processes of a job that was asked to end. The end of a child wakes this
/// process, but the others may be children of other processes; noticing their end this much later does no harm.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(50);

impl Supervisor {
    /// A supervisor whose jobs carry the signs of a run; `token` is the token of a [`crate::RunDir`].
    ///
    /// # Errors
    /// If no pipe can be created.
    pub fn new(token: &str) -> io::Result<Self> {
        // As a subreaper, this process becomes the parent of a job's daemons and can wait for them.
        nix::sys::prctl::set_child_subreaper(true)?;
        Ok(Self {
            jobs: BTreeMap::new(),
            next: 0,
            sign: Sign::of_run(token),
            enclosures: None,
            looked: Instant::now(),
            children: pipe_of(signal_hook::consts::SIGCHLD)?,
            signals: None,
            wake: None,
            coalesce: Duration::ZERO,
            last_read: Instant::now(),
            read_at: Instant::now(),
            chunk: vec![0; CHUNK],
            echo: None,
            queue: Vec::new(),
            known: None,
        })
    }

    /// The supervisor of a run. Every job that is started without a control group gets one of its own, if groups can be
    /// created.
    ///
    /// # Errors
    /// As [`Supervisor::new`].
    pub fn of_run(run: &mut RunDir) -> io::Result<Self> {
        let mut own = Self::new(run.token())?;
        own.enclosures = Enclosures::create(run);
        Ok(own)
    }

    /// Makes [`Supervisor::poll`] also return on signals.
    pub fn listen(&mut self, signals: Signals) {
        self.signals = Some(signals);
    }

    /// Makes [`Supervisor::poll`] also return on bytes from `wake`, which must be non-blocking.
    pub fn wake_on(&mut self, wake: UnixStream) {
        self.wake = Some(wake);
    }

    /// The signals that have arrived.
    pub fn arrived(&mut self) -> Arrived {
        self.signals
            .as_mut()
            .map_or_else(Arrived::default, Signals::arrived)
    }

    /// Lets output accumulate for up to `pause` before it is read: fewer wake-ups, coarser times. Ends of jobs and
    /// signals are noticed at once.
    pub fn coalesce(&mut self, pause: Duration) {
        self.coalesce = pause;
    }

    /// Passes every line that a job prints to `echo` as well.
    pub fn follow(&mut self, echo: impl FnMut(&TaskId, &[u8]) + 'static) {
        self.echo = Some(Echo {
            take: Box::new(echo),
            all: false,
        });
    }

    /// Like [`Supervisor::follow`], but also with every state of an overwritten line: a progress bar reports only by
    /// these.
    pub fn watch(&mut self, watch: impl FnMut(&TaskId, &[u8]) + 'static) {
        self.echo = Some(Echo {
            take: Box::new(watch),
            all: true,
        });
    }

    /// Starts a job.
    ///
    /// # Errors
    /// [`SpawnError`]; then nothing runs.
    pub fn spawn(&mut self, spec: &JobSpec) -> Result<JobId, SpawnError> {
        let id = JobId(self.next);
        let enclosure = match (&spec.cgroup_procs, &self.enclosures) {
            (None, Some(all)) => all.make(self.next),
            _ => None,
        };
        let job = RunningJob::start(spec, self.sign.of_job(self.next), enclosure)?;
        self.next += 1;
        self.jobs.insert(id, job);
        Ok(id)
    }

    /// Process id of a job that has not ended.
    #[must_use]
    pub fn pid(&self, job: JobId) -> Option<i32> {
        self.jobs.get(&job).map(RunningJob::pid)
    }

    /// `cgroup.procs` of the control group of a job that has not ended; `None` if some of its processes may be outside
    /// of the group.
    #[must_use]
    pub fn procs(&self, job: JobId) -> Option<&Path> {
        self.jobs.get(&job)?.group()
    }

    /// Jobs that have not ended, in the order of their start.
    #[must_use]
    pub fn jobs(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    /// Number of jobs that have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.jobs.len()
    }

    /// Whether a job has not ended.
    #[must_use]
    pub fn is_running(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// The end of a job's log.
    #[must_use]
    pub fn tail(&self, job: JobId) -> String {
        self.jobs
            .get(&job)
            .map(RunningJob::tail)
            .unwrap_or_default()
    }

    /// Sends an order to a job.
    ///
    /// # Errors
    /// [`OrderError`].
    pub fn order(&mut self, job: JobId, order: Order) -> Result<(), OrderError> {
        let line = match order {
            Order::Task { round, rank } => format!("task {round} {rank}\n"),
            Order::Run => "run\n".to_owned(),
            Order::Park => "park\n".to_owned(),
            Order::Batch(batch) => format!("batch {batch}\n"),
            Order::Quit => "quit\n".to_owned(),
        };
        let job = self.jobs.get_mut(&job).ok_or(OrderError::Ended)?;
        job.tell(line.as_bytes())
    }

    /// Ends a job: SIGTERM to all its processes, and after `grace` SIGKILL to those that remain. The job is over when
    /// all have ended.
    pub fn stop(&mut self, job: JobId, grace: Duration) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.terminate(grace);
        }
    }

    /// Ends all jobs.
    pub fn stop_all(&mut self, grace: Duration) {
        for job in self.jobs.values_mut() {
            job.terminate(grace);
        }
    }

    /// Waits until something happens, at most `timeout`, and returns the events.
    pub fn poll(&mut self, timeout: Duration) -> Vec<Event> {
        if self.queue.is_empty() {
            self.wait(timeout);
        }
        if self.pause().is_zero() {
            self.read_all();
        }
        drain(&mut self.children);
        self.wake.as_mut().map(drain);
        self.end_overdue();
        self.look_inside();
        self.reap();
        std::mem::take(&mut self.queue)
    }

    /// Time for which output accumulates before it is read again.
    fn pause(&self) -> Duration {
        self.read_at.saturating_duration_since(Instant::now())
    }

    fn wait(&self, timeout: Duration) {
        let overdue = self.jobs.values().filter_map(RunningJob::kill_at).min();
        let mut timeout = match overdue {
            Some(at) => timeout.min(at.saturating_duration_since(Instant::now())),
            None => timeout,
        };
        if self.jobs.values().any(RunningJob::is_ending) {
            timeout = timeout.min(LOOK_FOR_OTHERS);
        }
        let mut fds: Vec<BorrowedFd<'_>> = vec![self.children.as_fd()];
        fds.extend(self.signals.iter().flat_map(Signals::fds));
        fds.extend(self.wake.iter().map(AsFd::as_fd));
        let pause = self.pause();
        let timeout = if pause.is_zero() {
            fds.extend(self.jobs.values().flat_map(RunningJob::fds));
            timeout
        } else {
            timeout.min(pause)
        };
        let mut fds: Vec<PollFd<'_>> = fds
            .into_iter()
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let millis = timeout.as_micros().div_ceil(1000).min(60_000) as u16;
        // An interrupted wait is just a short one.
        poll(&mut fds, PollTimeout::from(millis)).ok();
    }

    /// Whether only progress is queued. After other events, more may follow for which someone waits.
    fn queue_is_quiet(&self) -> bool {
        let quiet = |e: &Event| matches!(e.what, Happening::Steps { .. });
        self.queue.iter().all(quiet)
    }

    /// Reads what is available, at most one chunk of each pipe.
    fn read_all(&mut self) {
        let mut most = 0;
        for (id, job) in &mut self.jobs {
            let bytes = job.read(*id, &mut self.chunk, &mut self.queue, &mut self.echo);
            most = most.max(bytes);
        }
        let now = Instant::now();
        // A job whose pipe is full has to wait. So a full pipe is read again at once, and the pause is short enough
        // that at the current rate no other pipe becomes more than half full.
        if most > 0 && most < CHUNK && self.queue_is_quiet() {
            let half = (now - self.last_read).mul_f64(CHUNK as f64 / 2.0 / most as f64);
            self.read_at = now + half.min(self.coalesce);
        }
        self.last_read = now;
    }

    fn end_overdue(&mut self) {
        let now = Instant::now();
        for job in self.jobs.values_mut() {
            if job.kill_at().is_some_and(|at| at <= now) {
                job.kill();
            }
        }
    }

    /// Reports jobs with a process that has left the control group in which it was started.
    fn look_inside(&mut self) {
        if self.looked.elapsed() < LOOK_INSIDE || !self.jobs.values().any(RunningJob::is_inside) {
            return;
        }
        self.looked = Instant::now();
        let groups = process::by_group();
        for (&id, job) in &mut self.jobs {
            let processes = groups.get(&job.pid());
            let left = processes.and_then(|all| job.has_left(all));
            self.queue.extend(left.map(|why| Event {
                job: id,
                at: Instant::now(),
                what: Happening::Doubt(why),
            }));
        }
    }

    fn reap(&mut self) {
        let ended: Vec<JobId> = self
            .jobs
            .iter_mut()
            .filter_map(|(id, job)| job.is_over().then_some(*id))
            .collect();
        for id in ended {
            let Some(mut job) = self.jobs.remove(&id) else {
                continue;
            };
            let unkillable = !job.has_exited();
            if unkillable {
                self.queue.push(Event {
                    job: id,
                    at: Instant::now(),
                    what: Happening::Unkillable,
                });
            }
            let mut strays = job.put_away();
            if self.jobs.is_empty() && !unkillable {
                strays.extend(self.sweep());
            }
            job.drain(id, &mut self.chunk, &mut self.queue, &mut self.echo);
            let exited = job.ended(strays);
            if let (Some(all), Some(procs)) = (&mut self.enclosures, job.enclosure()) {
                all.discard(procs);
            }
            self.queue.push(Event {
                job: id,
                at: Instant::now(),
                what: exited,
            });
        }
    }

    /// Kills everything that carries the mark of this supervisor's jobs.
    fn kill_everything(&mut self) {
        for job in self.jobs.values_mut() {
            job.kill();
        }
        let mut left: Vec<Identity> = self.sign.find(&Lineage::own());
        left.extend(self.jobs.values().filter_map(|job| Identity::of(job.pid())));
        process::kill_all(&left, PATIENCE);
        for (_, mut job) in std::mem::take(&mut self.jobs) {
            job.wait();
        }
        process::bury(&left);
        self.sweep();
    }

    /// Treats the current children of this process as known, and from now on kills all other children when the last job
    /// has ended. This finds processes that have dropped the signs of their job and left its process group and control
    /// group, because this process adopts orphans. Use it only in a program that starts no other processes.
    pub fn sweep_strays(&mut self) {
        self.known = Some(process::children());
    }

    /// Kills unknown children and their descendants, and reports them.
    fn sweep(&self) -> Vec<String> {
        let Some(known) = &self.known else {
            return Vec::new();
        };
        let mut swept = Vec::new();
        // Children of a killed process become ours, so one pass is not enough. Ten generations are more than we have
        // ever seen; without a limit, a process that forks faster than it is killed would keep this loop running for
        // ever.
        for _ in 0..10 {
            // An MPS daemon that was started meanwhile is stopped by its owner.
            let mut strays = process::children();
            strays.retain(|p| !known.contains(p) && !mps::is_program(p.pid));
            if strays.is_empty() {
                break;
            }
            let names: Vec<String> = strays.iter().map(Identity::to_string).collect();
            let left = process::kill_all(&strays, PATIENCE);
            process::bury(&strays);
            let gone = strays.iter().zip(names).filter(|(p, _)| !left.contains(p));
            swept.extend(gone.map(|(_, name)| name));
        }
        swept
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if !self.jobs.is_empty() {
            self.kill_everything();
        }
    }
}
