//! Enforces the share of one program: a control group, or an MPS daemon.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cli::{Console, Exit, Failure};
use doc::DeviceKind;
use host::discovery::{self, Gpu};
use jobs::RunDir;
use jobs::cgroup::{Cgroups, Group};
use jobs::mps::{Mps, MpsError, MpsOptions, SharedMps};
use jobs::process::again;

use super::placement::Placement;

/// The resources that enforce the share of this process.
pub(super) struct Enforcement {
    // Dropped before the run directory, which would be kept if its groups still existed.
    kind: Kind,
    run: RunDir,
}

enum Kind {
    Quota {
        groups: Cgroups,
        group: Group,
    },
    /// A daemon that somebody else started, with the variables of a client.
    Daemon(Mps, Vec<(OsString, OsString)>),
    Shared(SharedMps, Vec<(OsString, OsString)>),
}

/// An error of the machine's environment.
pub(super) fn environment(error: impl ToString) -> Failure {
    Failure::Environment(error.to_string())
}

/// The hidden verb whose exit status says whether this process would be a client of MPS.
pub const PROBE: &str = "probe";

/// Hidden verb `probe`: succeeds if CUDA says that this process would be an MPS client.
///
/// # Errors
/// [`Failure::Environment`] if CUDA does not start.
pub fn is_mps_client() -> Result<Exit, Failure> {
    match discovery::is_mps_client().map_err(environment)? {
        true => Ok(Exit::Done),
        false => Ok(Exit::Negative),
    }
}

impl Enforcement {
    /// Creates the share.
    pub(super) fn take(
        placement: &Placement,
        runs: &Path,
        console: &Console,
    ) -> Result<Self, Failure> {
        // The path must be absolute, because the attendant works in another folder.
        let runs = std::path::absolute(runs).map_err(environment)?;
        // The attendant takes the place of a guard.
        let begun = RunDir::begin(&runs, "mt-launch exec", false);
        let (mut run, told) = begun.map_err(environment)?;
        for text in told {
            console.note(&text);
        }
        let kind = match placement.device {
            DeviceKind::Cuda => daemon(placement)?,
            _ => quota(placement, &mut run)?,
        };
        Ok(Self { run, kind })
    }

    pub(super) fn run(&self) -> &Path {
        self.run.path()
    }

    pub(super) fn token(&self) -> &str {
        self.run.token()
    }

    /// Directory of the shared daemon in which this process is a member.
    pub(super) fn shared_daemon(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Shared(shared, _) => Some(shared.dir()),
            Kind::Quota { .. } | Kind::Daemon(..) => None,
        }
    }

    /// Puts this process under the share; the program that it becomes and its children inherit the share.
    pub(super) fn enter(&self) -> Result<(), Failure> {
        let Kind::Quota { group, .. } = &self.kind else {
            return Ok(());
        };
        let procs = group.procs();
        std::fs::write(&procs, "0")
            .map_err(|error| environment(format!("cannot enter {}: {error}", procs.display())))
    }

    /// The variables of a client of the daemon.
    pub(super) fn variables(&self) -> Vec<(OsString, OsString)> {
        match &self.kind {
            Kind::Quota { .. } => Vec::new(),
            Kind::Daemon(_, variables) | Kind::Shared(_, variables) => variables.clone(),
        }
    }

    /// Whether a process of the program is in the daemon's list of clients, or the error of asking; `None` if there is
    /// no daemon.
    pub(super) fn is_client(&self) -> Option<Result<bool, MpsError>> {
        let mps = match &self.kind {
            Kind::Quota { .. } => return None,
            Kind::Daemon(mps, _) => mps,
            Kind::Shared(shared, _) => shared.mps(),
        };
        let mark = format!("{}={}.", jobs::MARK, self.token());
        let ours = jobs::process::with_variable(|v| v.starts_with(mark.as_bytes()));
        let found = mps.clients();
        Some(found.map(|clients| ours.iter().any(|p| clients.contains(&p.pid))))
    }

    /// Leaks the resources: the attendant cleans up after this process has ended.
    pub(super) fn leave_to_the_attendant(self) {
        let Self { run, kind } = self;
        std::mem::forget(run);
        if let Kind::Quota { groups, .. } = kind {
            std::mem::forget(groups);
        }
    }
}

fn quota(placement: &Placement, run: &mut RunDir) -> Result<Kind, Failure> {
    let groups = Cgroups::create(run).map_err(environment)?;
    let name = placement.name().unwrap_or_else(|| "program".to_owned());
    let group = groups.group(&name, placement.share).map_err(environment)?;
    Ok(Kind::Quota { groups, group })
}

/// Finds the daemon: the one that the environment names, the machine's default daemon, or the one that this user's
/// programs share (which is started if it does not run).
fn daemon(placement: &Placement) -> Result<Kind, Failure> {
    let mut options = MpsOptions::from_environment().map_err(environment)?;
    let named_gpu = placement.gpu_names.get(placement.gpu);
    options.gpus = named_gpu.cloned().into_iter().collect();
    let named = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").map(PathBuf::from);
    let is_named = named.is_some();
    let kind = match Mps::attach(&options, named) {
        Ok(mps) => {
            let variables = mps.client_environment(placement.share);
            Kind::Daemon(mps, variables)
        }
        // A named daemon that does not answer is an error, since a second daemon must not be started beside it.
        Err(error) if is_named => return Err(environment(error)),
        Err(none) => {
            options.gpus = vec![gpu(placement)?.uuid];
            let shared = SharedMps::join(&options)
                .map_err(|error| environment(format!("{error}; before that, {none}")))?;
            let variables = shared.mps().client_environment(placement.share);
            Kind::Shared(shared, variables)
        }
    };
    let (Kind::Daemon(_, variables) | Kind::Shared(_, variables)) = &kind else {
        return Ok(kind);
    };
    verify(variables)?;
    Ok(kind)
}

/// The GPU of the task, among the GPUs that MPS can share and that `CUDA_VISIBLE_DEVICES` shows.
fn gpu(placement: &Placement) -> Result<Gpu, Failure> {
    let mut found =
        discovery::shareable(&placement.gpu_names, placement.gpu + 1).map_err(|error| {
            environment(format!(
                "the plan puts {} on GPU {}, but there is {error}",
                placement.name().unwrap_or_default(),
                placement.gpu,
            ))
        })?;
    Ok(found.swap_remove(placement.gpu))
}

/// Starts a process with the client's variables that asks CUDA whether it would be a client, because a process that
/// cannot reach the daemon silently runs without MPS.
fn verify(variables: &[(OsString, OsString)]) -> Result<(), Failure> {
    let asked = again()
        .arg(PROBE)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(environment)?;
    match asked.status.code().map(i32::cast_unsigned) {
        Some(0) => Ok(()),
        Some(code) if code == u32::from(Exit::Negative.code()) => Err(environment(
            "CUDA says that this process would not be a client of the MPS daemon; is the daemon of \
             this user (MPS serves one user at a time), and its pipe directory mounted here \
             (CUDA_MPS_PIPE_DIRECTORY)?",
        )),
        _ => {
            let text = String::from_utf8_lossy(&asked.stderr);
            let said = text.trim().trim_start_matches("mt-launch: ");
            Err(environment(format!("MPS cannot be used: {said}")))
        }
    }
}
