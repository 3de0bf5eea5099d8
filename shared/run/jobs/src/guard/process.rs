use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::process::again;

/// The guard of a run directory of this process, see [`crate::RunDir::guard`]. Dropped, it is told to end
/// and waited for.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// The hidden option, followed by the run directory, that makes a tool a guard.
    pub const OPTION: &str = "--guard";

    /// Starts this program once more, as a guard. It must know [`Guard::OPTION`] and answer it
    /// by [`super::clean_up`] once its standard input has ended.
    ///
    /// # Errors
    /// If this program cannot be started once more.
    pub(crate) fn start(run: &Path) -> io::Result<Self> {
        let child = again()
            .arg(Self::OPTION)
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
        // It ends by itself, so that failing to wait for it does no harm.
        self.child.wait().ok();
    }
}
