use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::descriptors::seal;
use crate::process::again;

/// The guard of a run directory of this process, see [`crate::RunDir::guard`]. When dropped, it is asked to end and
/// waited for.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// The hidden option, followed by the run directory, that makes a tool a guard.
    pub const OPTION: &str = "--guard";

    /// Starts this program again as a guard. It must support [`Guard::OPTION`] by calling [`super::clean_up`] when
    /// its standard input has ended.
    ///
    /// # Errors
    /// If this program cannot be started again.
    pub(crate) fn start(run: &Path) -> io::Result<Self> {
        let child = seal(&mut again())
            .arg(Self::OPTION)
            .arg(run)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // It must ignore signals from the terminal.
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.child.stdin.take();
        // It ends by itself, so a failure to wait for it does no harm.
        self.child.wait().ok();
    }
}
