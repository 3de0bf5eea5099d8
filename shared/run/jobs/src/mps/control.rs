//! Communication with the MPS daemon through its control program.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::descriptors::seal;
use crate::spawn::with_limit;

use super::error::{CONTROL, MpsError, Pid, ServerStatus};

/// The control program and the daemon that it talks to.
#[derive(Debug, Clone)]
pub struct Control {
    program: PathBuf,
    pipe_dir: PathBuf,
    timeout: Duration,
}

/// Searches for the control program on `PATH`.
#[must_use]
pub fn find_control() -> Option<PathBuf> {
    find_on(std::env::var_os("PATH")?.as_os_str())
}

/// Searches for the control program in a list of folders with the syntax of `PATH`.
pub(super) fn find_on(path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .map(|folder| folder.join(CONTROL))
        .find(|file| nix::unistd::access(file, nix::unistd::AccessFlags::X_OK).is_ok())
}

impl Control {
    /// A connection to the daemon with this pipe directory, which must answer each command within `timeout`.
    #[must_use]
    pub fn new(program: PathBuf, pipe_dir: PathBuf, timeout: Duration) -> Self {
        Self {
            program,
            pipe_dir,
            timeout,
        }
    }

    /// The daemon's pipe directory.
    #[must_use]
    pub fn pipe_dir(&self) -> &Path {
        &self.pipe_dir
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The control program with its environment, for commands and for `-d`.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // The daemon may outlive the process that starts it, so it must not inherit descriptors.
        seal(&mut command)
            .env("CUDA_MPS_PIPE_DIRECTORY", &self.pipe_dir)
            // A share in our own environment would become the default of every client.
            .env_remove("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
            // A daemon that speaks version 3 would not understand our commands. Without this variable, a new daemon
            // speaks version 2, and a command uses the version of its daemon.
            .env_remove("CUDA_MPS_PROTOCOL_VERSION")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Process ids of the servers (one for each user id with clients).
    ///
    /// # Errors
    /// [`MpsError::Command`] if the daemon does not answer.
    pub fn servers(&self) -> Result<Vec<Pid>, MpsError> {
        self.ask("get_server_list").map(|text| pids(&text))
    }

    /// Whether a daemon answers only to MPS v3 (`module verb` arguments, driver r615 and newer) and not to the commands
    /// used here. In version 2, the answer to `get_server_list` consists of numbers only.
    pub(super) fn speaks_only_v3(&self) -> bool {
        let number = |line: &str| line.trim().is_empty() || line.trim().parse::<Pid>().is_ok();
        if self
            .ask("get_server_list")
            .is_ok_and(|text| text.lines().all(number))
        {
            return false;
        }
        let mut list = self.command();
        list.args(["server", "list"]).stdin(Stdio::null());
        let answer = list
            .spawn()
            .map(|child| wait_with_output(child, self.timeout));
        matches!(answer, Ok(Ok(Some(answer))) if answer.success)
    }

    /// State of a server.
    ///
    /// # Errors
    /// Like [`Control::servers`].
    pub fn status(&self, server: Pid) -> Result<ServerStatus, MpsError> {
        let text = self.ask(&format!("get_server_status {server}"))?;
        Ok(match text.trim() {
            "ACTIVE" => ServerStatus::Active,
            "FAULT" => ServerStatus::Fault,
            "INITIALIZING" => ServerStatus::Initializing,
            _ => ServerStatus::Unknown,
        })
    }

    /// Process ids of a server's clients.
    ///
    /// # Errors
    /// Like [`Control::servers`].
    pub fn clients(&self, server: Pid) -> Result<Vec<Pid>, MpsError> {
        let text = self.ask(&format!("get_client_list {server}"))?;
        Ok(pids(&text))
    }

    /// Ends a client's work on the GPU, so that its process can be killed safely. It does not kill the process.
    ///
    /// # Errors
    /// [`MpsError::Command`] unless the output says success: the exit code is 0 in any case.
    pub fn terminate(&self, server: Pid, client: Pid) -> Result<(), MpsError> {
        let command = format!("terminate_client {server} {client}");
        let text = self.ask(&command)?;
        if is_success(&text) {
            return Ok(());
        }
        Err(MpsError::Command {
            command,
            detail: text.trim().to_owned(),
        })
    }

    /// Stops the daemon and its servers, forcing them after `patience`.
    ///
    /// # Errors
    /// Like [`Control::servers`].
    pub fn quit(&self, patience: Duration) -> Result<(), MpsError> {
        let seconds = patience.as_secs().max(1);
        self.ask_within(
            &format!("quit -t {seconds}"),
            self.timeout + Duration::from_secs(seconds),
        )
        .map(|_| ())
    }

    fn ask(&self, command: &str) -> Result<String, MpsError> {
        self.ask_within(command, self.timeout)
    }

    fn ask_within(&self, command: &str, timeout: Duration) -> Result<String, MpsError> {
        let failed = |detail: String| MpsError::Command {
            command: command.to_owned(),
            detail,
        };
        let mut child = self
            .command()
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|e| failed(with_limit(e).to_string()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A failed write is no error if the program has ended without reading: then its output decides.
            if let Err(e) = stdin.write_all(format!("{command}\n").as_bytes())
                && e.kind() != std::io::ErrorKind::BrokenPipe
            {
                return Err(failed(e.to_string()));
            }
        }
        let answer = wait_with_output(child, timeout).map_err(|e| failed(e.to_string()))?;
        let Some(answer) = answer else {
            return Err(failed(format!(
                "no answer in {:.1} s",
                timeout.as_secs_f64()
            )));
        };
        if !answer.success {
            return Err(failed(answer.text.trim().to_owned()));
        }
        Ok(answer.text)
    }
}

/// Output of a program (both streams) before it ended.
pub(super) struct ProgramOutput {
    pub(super) success: bool,
    pub(super) text: String,
}

/// Time for output to arrive after the program has ended, if a daemon that it started keeps the streams open; otherwise
/// the streams end at once.
const LATE_OUTPUT: Duration = Duration::from_secs(1);

/// Waits for a short-lived program; `None` if it did not end in time and was killed.
pub(super) fn wait_with_output(
    mut child: Child,
    timeout: Duration,
) -> std::io::Result<Option<ProgramOutput>> {
    // A daemon that keeps the streams open must not block this process, so another thread reads.
    let (sender, receiver) = std::sync::mpsc::channel();
    let streams: [Option<Box<dyn std::io::Read + Send>>; 2] = [
        child.stdout.take().map(|s| Box::new(s) as _),
        child.stderr.take().map(|s| Box::new(s) as _),
    ];
    for mut stream in streams.into_iter().flatten() {
        let sender = sender.clone();
        let read = move || {
            let mut chunk = [0u8; 4096];
            loop {
                match stream.read(&mut chunk) {
                    Ok(n @ 1..) if sender.send(chunk[..n].to_vec()).is_ok() => {}
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
        };
        if let Err(error) = std::thread::Builder::new().spawn(read) {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    }
    drop(sender);
    let deadline = Instant::now() + timeout;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let mut bytes = Vec::new();
    while let Ok(chunk) = receiver.recv_timeout(LATE_OUTPUT) {
        bytes.extend(chunk);
    }
    Ok(Some(ProgramOutput {
        success: status.success(),
        text: String::from_utf8_lossy(&bytes).into_owned(),
    }))
}

/// The process ids in an answer: lines that consist of one number.
fn pids(text: &str) -> Vec<Pid> {
    text.lines().filter_map(|l| l.trim().parse().ok()).collect()
}

/// Whether the answer to a command means success: nothing at all, `0`, or only a word for it.
fn is_success(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .all(|line| {
            matches!(
                line.to_ascii_uppercase().trim_end_matches('.'),
                "0" | "CUDA_SUCCESS" | "SUCCESS"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzz_answers() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/mps");
        testkit::fuzz::fuzz("mps", &[&corpus], |text| {
            let text = String::from_utf8_lossy(text);
            let found = pids(&text);
            // Only a number on a line of its own is a process.
            assert!(found.len() <= text.lines().count());
            format!("{} {}", found.len().min(4), is_success(&text))
        });
    }

    #[test]
    fn a_version_in_our_environment_is_not_that_of_our_daemon() {
        let control = Control::new("mps".into(), "/pipe".into(), Duration::from_secs(1));
        let command = control.command();
        let removed = (OsStr::new("CUDA_MPS_PROTOCOL_VERSION"), None);
        assert!(command.get_envs().any(|variable| variable == removed));
    }

    #[test]
    fn only_a_plain_success_counts() {
        for text in ["", "\n", "0\n", "CUDA_SUCCESS\n", "Success.\n"] {
            assert!(is_success(text), "{text:?}");
        }
        for text in [
            "1\n",
            "CUDA_ERROR_INVALID_VALUE\n",
            "Failed to terminate client",
            "0\nFailed\n",
            "unsuccessful",
        ] {
            assert!(!is_success(text), "{text:?}");
        }
    }

    #[test]
    fn pids_are_lines_of_one_number() {
        assert_eq!(pids("12\n 345 \nServer 7 unknown\n\n"), [12, 345]);
    }
}
