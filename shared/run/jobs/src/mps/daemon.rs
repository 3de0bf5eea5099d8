//! A daemon that this process started or attached to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use units::Share;

use crate::process::{Identity, Lineage};
use crate::sign::MARK;
use crate::spawn::with_limit;

use super::control::{self, Control};
use super::error::{LONGEST_SOCKET, MpsError, Pid, ServerStatus};
use super::process::Ours;
use super::stale::{self, RunDir};

/// How to start or find a daemon.
#[derive(Debug, Clone)]
pub struct MpsOptions {
    /// The control program.
    pub program: PathBuf,
    /// Folder in which run directories are created.
    pub root: PathBuf,
    /// UUIDs of the GPUs to which daemon and clients are limited; empty: the GPUs that the environment allows.
    pub gpus: Vec<String>,
    /// Time limit for an answer of the daemon.
    pub timeout: Duration,
}

impl MpsOptions {
    /// The control program on `PATH`, the default root and 5 s for an answer.
    ///
    /// # Errors
    /// [`MpsError::NoControl`].
    pub fn from_environment() -> Result<Self, MpsError> {
        Ok(Self {
            program: control::find_control().ok_or(MpsError::NoControl)?,
            root: stale::default_root(),
            gpus: Vec::new(),
            timeout: Duration::from_secs(5),
        })
    }
}

/// An MPS daemon in use. Dropping it stops a daemon that was started here.
#[derive(Debug)]
pub struct Mps {
    control: Control,
    gpus: Vec<String>,
    /// Absent if the daemon belongs to somebody else.
    owned: Option<RunDir>,
}

/// A worker's own report when it becomes ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// Whether CUDA says that it is an MPS client (device attribute 133).
    pub mps: Option<bool>,
    /// Number of SMs that CUDA reports.
    pub sms: Option<u32>,
}

/// A verified client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attachment {
    /// The process in the server's list. Absent if the attached daemon is in another process namespace with other
    /// numbers, so that only the client's own report counts.
    pub client: Option<Pid>,
    /// SMs that the client reports.
    pub sms: Option<u32>,
}

impl Mps {
    /// Starts a private daemon, after removing daemons of dead owners.
    ///
    /// # Errors
    /// [`MpsError::Start`] with the message of the program or its log.
    pub fn start(options: &MpsOptions) -> Result<Self, MpsError> {
        let gpus = options.gpus.clone();
        let run = RunDir::create(&options.root, &options.program, &gpus)?;
        let control = Control::new(options.program.clone(), run.pipe(), options.timeout);
        let log = run.log();
        // From here on the guard cleans up.
        let mps = Self {
            control,
            gpus,
            owned: Some(run),
        };
        start(&mps.control, &log, options)?;
        Ok(mps)
    }

    /// A daemon that belongs to somebody else.
    pub(super) const fn of(control: Control, gpus: Vec<String>) -> Self {
        Self {
            control,
            gpus,
            owned: None,
        }
    }

    /// Uses a running daemon, at the given pipe directory, or else that of the environment, or else NVIDIA's default.
    ///
    /// # Errors
    /// [`MpsError::NoDaemon`]; [`MpsError::Protocol`] if it does not speak version 2.
    pub fn attach(options: &MpsOptions, pipe_dir: Option<PathBuf>) -> Result<Self, MpsError> {
        let pipe_dir = pipe_dir
            .or_else(|| std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").map(PathBuf::from))
            .unwrap_or_else(|| PathBuf::from("/tmp/nvidia-mps"));
        let control = Control::new(options.program.clone(), pipe_dir.clone(), options.timeout);
        if control.speaks_only_v3() {
            return Err(MpsError::Protocol { pipe_dir });
        }
        control.servers().map_err(|e| MpsError::NoDaemon {
            pipe_dir,
            detail: e.to_string(),
        })?;
        Ok(Self {
            control,
            gpus: options.gpus.clone(),
            owned: None,
        })
    }

    /// The control connection.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Environment of a client of all GPUs of the daemon at a share. CUDA reads the percentage only once, when it
    /// starts in the client.
    #[must_use]
    pub fn client_environment(&self, share: Share) -> Vec<(OsString, OsString)> {
        let mut env = vec![
            (
                "CUDA_MPS_PIPE_DIRECTORY".into(),
                self.control.pipe_dir().as_os_str().to_owned(),
            ),
            (
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE".into(),
                share.percent().to_string().into(),
            ),
        ];
        if !self.gpus.is_empty() {
            let gpus = self.gpus.join(",");
            env.push(("CUDA_VISIBLE_DEVICES".into(), gpus.into()));
        }
        env
    }

    /// Checks that a worker (a process group) is a client and that its share took effect.
    ///
    /// # Errors
    /// [`MpsError::NotAttached`], [`MpsError::ShareNotApplied`], or [`MpsError::Command`] if the daemon does not
    /// answer.
    pub fn verify(
        &self,
        group: Pid,
        ready: Ready,
        share: Share,
        gpu_sms: Option<u32>,
    ) -> Result<Attachment, MpsError> {
        let not_attached = |detail: &str| {
            Err(MpsError::NotAttached {
                pid: group,
                detail: detail.to_owned(),
            })
        };
        if ready.mps == Some(false) {
            return not_attached("CUDA reports to it that MPS is off");
        }
        let members = members(group);
        let client = self.clients()?.into_iter().find(|c| members.contains(c));
        if client.is_none() && (self.owned.is_some() || ready.mps != Some(true)) {
            return not_attached("no process of its group is in the server's client list");
        }
        if let (Some(sms), Some(gpu_sms)) = (ready.sms, gpu_sms) {
            let most = f64::from(gpu_sms) - 1.0;
            if share.fraction() * f64::from(gpu_sms) <= most && sms >= gpu_sms {
                return Err(MpsError::ShareNotApplied {
                    pid: group,
                    sms,
                    gpu_sms,
                    share,
                });
            }
        }
        Ok(Attachment {
            client,
            sms: ready.sms,
        })
    }

    /// Clients of all servers.
    ///
    /// # Errors
    /// Reports that the daemon does not answer.
    pub fn clients(&self) -> Result<Vec<Pid>, MpsError> {
        let mut all = Vec::new();
        for server in self.control.servers()? {
            all.extend(self.control.clients(server)?);
        }
        Ok(all)
    }

    /// Ends the GPU work of the clients in a process group, so that it can be killed. If it has no clients, nothing
    /// is pending, which is not an error.
    ///
    /// # Errors
    /// [`MpsError::Command`] with the output if the daemon refused.
    pub fn terminate_group(&self, group: Pid) -> Result<(), MpsError> {
        let members = members(group);
        for server in self.control.servers()? {
            for client in self.control.clients(server)? {
                if members.contains(&client) {
                    self.control.terminate(server, client)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a server is in state FAULT.
    ///
    /// # Errors
    /// Reports that the daemon does not answer.
    pub fn is_faulted(&self) -> Result<bool, MpsError> {
        Ok(self.statuses()?.contains(&ServerStatus::Fault))
    }

    /// Whether a daemon that was started here has ended, although nobody stopped it. It scans all processes, so call it
    /// only when the daemon does not answer.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let pipe_dir = self.control.pipe_dir();
        self.owned.is_some() && !Ours::find(pipe_dir, &Lineage::own()).has_control()
    }

    /// Whether servers still have clients, and none of these processes exists any more.
    #[must_use]
    pub fn has_only_zombies(&self) -> bool {
        let lives = |pid| Identity::of(pid).is_some_and(Identity::is_alive);
        let listed = self.clients().unwrap_or_default();
        // A daemon in another process namespace has other numbers.
        self.owned.is_some() && !listed.is_empty() && !listed.into_iter().any(lives)
    }

    fn statuses(&self) -> Result<Vec<ServerStatus>, MpsError> {
        let servers = self.control.servers()?.into_iter();
        servers.map(|server| self.control.status(server)).collect()
    }

    /// Checks that every server accepts clients; after a fault this is the case again when all clients have ended.
    ///
    /// # Errors
    /// [`MpsError::Fault`] if a server does not; [`MpsError::Command`] if the daemon does not answer.
    pub fn recovered(&self) -> Result<(), MpsError> {
        let mut all = self.statuses()?.into_iter();
        match all.find(|s| *s != ServerStatus::Active) {
            None => Ok(()),
            Some(status) => Err(MpsError::Fault { status }),
        }
    }

    /// Waits until [`Self::recovered`].
    ///
    /// # Errors
    /// The last error of that function, if this does not happen within `patience`.
    pub fn wait_recovered(&self, patience: Duration) -> Result<(), MpsError> {
        let start = Instant::now();
        loop {
            // On a machine under load, one failed command is no reason to give up.
            match self.recovered() {
                Err(error) if start.elapsed() >= patience => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Stops the daemon if it was started here, and reports failures, unlike dropping the value.
    ///
    /// # Errors
    /// Processes that outlive SIGKILL, or a directory that cannot be removed.
    pub fn stop(mut self) -> Result<(), MpsError> {
        self.stop_owned()
    }

    fn stop_owned(&mut self) -> Result<(), MpsError> {
        let Some(run) = self.owned.take() else {
            return Ok(());
        };
        let left = stale::stop_all(&self.control, &Lineage::own());
        if !left.is_empty() {
            return Err(MpsError::Command {
                command: "quit".to_owned(),
                detail: format!("processes {left:?} outlive SIGKILL"),
            });
        }
        run.remove()
    }
}

/// Starts the daemon of a control connection and waits until it answers.
///
/// # Errors
/// [`MpsError::LongPath`] before anything is started; [`MpsError::Start`].
pub(super) fn start(control: &Control, log: &Path, options: &MpsOptions) -> Result<(), MpsError> {
    let path = control.pipe_dir().join(stale::SOCKET);
    if path.as_os_str().len() > LONGEST_SOCKET {
        return Err(MpsError::LongPath { path });
    }
    let mut command = control.command();
    command
        .arg("-d")
        .env("CUDA_MPS_LOG_DIRECTORY", log)
        // An outer launch that runs this one would treat the daemon as one of its own jobs.
        .env_remove(MARK)
        .stdin(Stdio::null());
    if !options.gpus.is_empty() {
        command.env("CUDA_VISIBLE_DEVICES", options.gpus.join(","));
    }
    let failed = |detail: String| MpsError::Start { detail };
    let child = command
        .spawn()
        .map_err(|e| failed(with_limit(e).to_string()))?;
    let answer = control::wait_with_output(child, options.timeout)
        .map_err(|e| failed(e.to_string()))?
        .ok_or_else(|| failed("it does not go to the background".to_owned()))?;
    if !answer.success {
        return Err(failed(answer.text.trim().to_owned()));
    }
    let deadline = Instant::now() + control.timeout();
    loop {
        match control.servers() {
            Ok(_) => return Ok(()),
            Err(e) if Instant::now() >= deadline => {
                return Err(failed(format!("it does not answer: {e}")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Living processes of a process group.
fn members(group: Pid) -> Vec<Pid> {
    let all = crate::process::of_group(group);
    all.into_iter().map(|process| process.pid).collect()
}

impl Drop for Mps {
    fn drop(&mut self) {
        // `stop` reports errors; a drop during an error or panic cannot, and the next start finds what is left.
        let _ = self.stop_owned();
    }
}
