//! The guard: a second process that outlives a launcher that is killed.
//!
//! It waits for the end of its standard input, whose other end only the launcher holds. The kernel
//! closes it however the launcher ends; then the guard kills what the launcher has left running, MPS
//! daemons among it, and removes its control groups and its run directory. A launcher that ends by
//! itself has removed them already.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cli::{Console, Exit, Failure};
use jobs::RunDir;

/// A guard of this process's run directory. Dropped, it is told to end and waited for; make it
/// before what it guards, so that it ends last.
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts a guard.
    ///
    /// # Errors
    /// If this program cannot be started once more.
    pub fn start(run: &Path) -> io::Result<Self> {
        let child = Command::new("/proc/self/exe")
            .arg("--guard")
            .arg(run)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals from the terminal are not meant for it.
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.child.stdin.take();
        // It ends by itself; not being able to wait for it would harm nobody.
        self.child.wait().ok();
    }
}

/// What the guard does.
pub fn watch(run: &Path, console: &Console) -> Result<Exit, Failure> {
    let owner = cli::control_lines();
    while owner.recv().is_ok() {}
    let cleaned = RunDir::clean(run);
    jobs::mps::clean_orphans();
    match cleaned {
        Ok(_) => Ok(Exit::Done),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(Failure::Input(error.to_string()))
        }
        Err(error) => {
            console.error(&format!("{}: {error}", run.display()));
            Ok(Exit::Environment)
        }
    }
}
