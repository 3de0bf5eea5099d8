//! Processes of this machine under shares, independent of how shares are enforced.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use doc::{DeviceFingerprint, DeviceKind, PhaseKind};
use jobs::mps::Ready;
use jobs::{
    Arrived, Assignment, Event, Happening, JobId, JobSpec, Neighbours, Order, OrderError, Passing,
    RunDir, Supervisor,
};
use units::{Share, TaskId};

use crate::error::word;
use crate::{
    Gpus, Grant, Health, Host, HostError, LOOK, OpenError, Recovery, Regrants, Settled, Work,
};

/// How shares of processes are enforced: quotas of control groups, or MPS daemons.
pub trait Shares {
    /// The kind of device.
    fn kind(&self) -> DeviceKind;

    /// See [`Host::fingerprint`].
    fn fingerprint(&self) -> DeviceFingerprint;

    /// See [`Host::regrants`].
    fn regrants(&self) -> Regrants;

    /// Names of the devices, so that programs that use the same ones learn about each other.
    fn devices(&self) -> Vec<String>;

    /// Whether a job without a quota gets its own control group, through which all its descendants are found.
    fn contains(&self) -> bool {
        true
    }

    /// Creates missing resources of a grant, such as the daemon of a GPU at its first use.
    ///
    /// # Errors
    /// [`HostError`] if a resource cannot be created.
    fn open(&mut self, _: &Grant, _: &mut RunDir) -> Result<(), HostError> {
        Ok(())
    }

    /// Adds a grant to the start parameters of a computing job. `pool`: it is a pool worker, whose process may be
    /// reused.
    ///
    /// # Errors
    /// [`HostError`] if the host cannot provide the grant.
    fn prepare(&self, spec: &mut JobSpec, pool: bool, grant: &Grant) -> Result<(), HostError>;

    /// See [`Host::lend`].
    ///
    /// # Errors
    /// The same errors.
    fn lend(&self, _: &Grant) -> Result<Vec<(OsString, OsString)>, HostError> {
        Ok(Vec::new())
    }

    /// See [`Host::settle`].
    ///
    /// # Errors
    /// The same errors.
    fn settle(&self, _: &Admitted) -> Result<Settled, HostError> {
        Ok(Settled::default())
    }

    /// See [`Host::regrant`]; only called for [`Regrants::Now`].
    ///
    /// # Errors
    /// The same errors.
    fn regrant(&self, _: &Admitted, _: Share) -> Result<(), HostError> {
        Ok(())
    }

    /// Ends the work of a job on the device before its processes may be killed. On processors, no work is pending once
    /// a process has ended.
    fn release(&self, _: &Admitted) {}

    /// See [`Host::health`]; processors have no faults that would concern other processes.
    fn health(&self) -> Health {
        Health::Good
    }

    /// See [`Host::recover`].
    ///
    /// # Errors
    /// The same errors.
    fn recover(&mut self, _: &Gpus) -> Result<Recovery, HostError> {
        Ok(Recovery::Recovered)
    }
}

/// A computing job that has not ended.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The task that it works for.
    pub task: TaskId,
    /// Its process group.
    pub group: i32,
    /// Its last grant.
    pub grant: Grant,
    /// Report of the job when it became ready.
    pub ready: Ready,
    settled: bool,
    released: bool,
}

/// A host of processes.
#[derive(Debug)]
pub struct Processes<S> {
    // Fields are dropped in this order: jobs, then the resources of their shares, then the run directory, whose ledger
    // lists all of them until they are gone.
    supervisor: Supervisor,
    pub(crate) shares: S,
    run: RunDir,
    computing: BTreeMap<JobId, Admitted>,
    passing: Passing,
    look: Duration,
}

impl<S: Shares> Processes<S> {
    /// A host whose shares are enforced by `shares`.
    ///
    /// # Errors
    /// [`OpenError::Environment`] if processes cannot be supervised.
    pub fn new(shares: S, mut run: RunDir) -> Result<Self, OpenError> {
        let supervisor = match shares.contains() {
            true => Supervisor::of_run(&mut run),
            false => Supervisor::new(run.token()),
        };
        let supervisor = supervisor.map_err(|e| OpenError::environment(shares.kind(), e))?;
        Ok(Self {
            supervisor,
            shares,
            run,
            computing: BTreeMap::new(),
            passing: Passing::default(),
            look: LOOK,
        })
    }

    /// The supervisor, for configuring signals and output before the first job.
    pub fn supervisor(&mut self) -> &mut Supervisor {
        &mut self.supervisor
    }

    /// Sets the maximum wait for an event, instead of [`LOOK`]. Each return from the wait interrupts the jobs.
    pub fn look_every(&mut self, look: Duration) {
        self.look = look;
    }

    /// Sets the variables that jobs get in addition to the usual ones, from the next start on.
    pub fn pass(&mut self, passing: Passing) {
        self.passing = passing;
    }

    /// Registers this program with other programs of this user on the same devices, see [`Neighbours::join`].
    ///
    /// # Errors
    /// The same errors.
    pub fn neighbours(&self, tool: &str) -> std::io::Result<(Neighbours, Option<String>)> {
        let runs = self.run.path().parent().unwrap_or(self.run.path());
        Neighbours::join(runs, &self.shares.devices(), tool)
    }

    /// The run directory.
    #[must_use]
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Starts a computing job.
    fn start(&mut self, mut spec: JobSpec, pool: bool, grant: &Grant) -> Result<JobId, HostError> {
        self.shares.open(grant, &mut self.run)?;
        self.shares.prepare(&mut spec, pool, grant)?;
        let job = self.supervisor.spawn(&spec)?;
        if let Some(group) = self.supervisor.pid(job) {
            let admitted = Admitted {
                task: spec.task,
                group,
                grant: grant.clone(),
                ready: Ready::default(),
                settled: false,
                released: false,
            };
            self.computing.insert(job, admitted);
        }
        Ok(job)
    }

    fn note(&mut self, event: &Event) {
        match event.what {
            Happening::Ready { sms, mps } => {
                if let Some(job) = self.computing.get_mut(&event.job) {
                    job.ready = Ready { mps, sms };
                }
            }
            Happening::Exited { .. } => {
                self.computing.remove(&event.job);
            }
            _ => {}
        }
    }
}

impl<S: Shares> Host for Processes<S> {
    fn fingerprint(&self) -> DeviceFingerprint {
        self.shares.fingerprint()
    }

    fn regrants(&self) -> Regrants {
        self.shares.regrants()
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn admit(&mut self, work: &Work<'_>, grant: &Grant) -> Result<Option<JobId>, HostError> {
        if work.argv.is_empty() {
            return Ok(None);
        }
        let assignment = Assignment {
            batch: work.batch,
            share: Some(grant.share),
            device: word(self.shares.kind()),
            round: work.round,
            samples: work.samples,
            orders: work.orders,
        };
        let log = work.log.clone();
        let mut spec = JobSpec::for_task(work.task, work.argv, &assignment, log, &self.passing)?;
        spec.log_limits = work.log_limits;
        let own = work.env.iter();
        spec.env
            .extend(own.map(|(name, value)| (name.into(), value.into())));
        if work.phase != PhaseKind::Compute {
            return Ok(Some(self.supervisor.spawn(&spec)?));
        }
        let pool = work.task.job.as_ref().is_some_and(|job| job.pool);
        self.start(spec, pool, grant).map(Some)
    }

    fn enter(&mut self, spec: JobSpec, grant: &Grant) -> Result<JobId, HostError> {
        self.start(spec, false, grant)
    }

    fn lend(&mut self, grant: &Grant) -> Result<Vec<(OsString, OsString)>, HostError> {
        self.shares.open(grant, &mut self.run)?;
        self.shares.lend(grant)
    }

    fn settle(&mut self, job: JobId) -> Result<Settled, HostError> {
        let admitted = self.computing.get_mut(&job).ok_or(HostError::Ended)?;
        let settled = self.shares.settle(admitted)?;
        admitted.settled = true;
        Ok(settled)
    }

    fn regrant(&mut self, job: JobId, share: Share) -> Result<(), HostError> {
        if self.regrants() == Regrants::NextStart {
            return Ok(());
        }
        let admitted = self.computing.get_mut(&job).ok_or(HostError::Ended)?;
        // A job that is not settled yet gets the share when it is.
        if admitted.settled {
            self.shares.regrant(admitted, share)?;
        }
        admitted.grant.share = share;
        Ok(())
    }

    fn order(&mut self, job: JobId, order: Order) -> Result<(), OrderError> {
        self.supervisor.order(job, order)
    }

    fn stop(&mut self, job: JobId, grace: Duration) {
        // Only once: a second call means that the user does not want to wait.
        if let Some(admitted) = self.computing.get_mut(&job)
            && !admitted.released
        {
            admitted.released = true;
            self.shares.release(admitted);
        }
        self.supervisor.stop(job, grace);
    }

    fn health(&mut self) -> Health {
        self.shares.health()
    }

    fn recover(&mut self, gpus: &Gpus) -> Result<Recovery, HostError> {
        self.shares.recover(gpus)
    }

    fn poll(&mut self, until: Option<Instant>) -> Vec<Event> {
        let left = until.map(|at| at.saturating_duration_since(Instant::now()));
        let events = self
            .supervisor
            .poll(left.unwrap_or(self.look).min(self.look));
        for event in &events {
            self.note(event);
        }
        events
    }

    fn jobs(&self) -> Vec<JobId> {
        self.supervisor.jobs()
    }

    fn pid(&self, job: JobId) -> Option<i32> {
        self.supervisor.pid(job)
    }

    fn procs(&self, job: JobId) -> Option<&Path> {
        self.supervisor.procs(job)
    }

    fn tail(&self, job: JobId) -> String {
        self.supervisor.tail(job)
    }

    fn arrived(&mut self) -> Arrived {
        self.supervisor.arrived()
    }

    fn is_running(&self, job: JobId) -> bool {
        self.supervisor.is_running(job)
    }
}
