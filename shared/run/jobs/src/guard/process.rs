use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::descriptors::seal;
use crate::process::again;

/// The guard of a run directory of this process, see [`crate::RunDir::guard`]. Dropping it asks the guard to end and
/// waits for it.
#[derive(Debug)]
pub struct Guard {
    child: Child,
}

impl Guard {
    /// The hidden option that turns a tool into a guard; the run directory follows.
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
            // Its own process group protects it from signals of the terminal.
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.child.stdin.take();
        // The guard ends by itself, so a failure to wait for it does no harm.
        self.child.wait().ok();
    }
}
