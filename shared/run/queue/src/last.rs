//! Cleaning up after the previous server.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jobs::RunDir;

/// File with the run directory of the last server.
const RUN: &str = "run";

/// Records the run directory of this server for the next one.
///
/// # Errors
/// [`io::Error`] of the folder.
pub fn leave(folder: &Path, run: &Path) -> io::Result<()> {
    fs::write(folder.join(RUN), run.as_os_str().as_bytes())
}

/// Ends the processes that a previous server left running, or waits until its guard has done so.
///
/// # Errors
/// A description, if a process does not end.
pub fn put_away(folder: &Path) -> Result<(), String> {
    match fs::read(folder.join(RUN)) {
        Ok(path) => RunDir::put_away(Path::new(OsStr::from_bytes(&path))),
        Err(_) => Ok(()),
    }
}
