//! What the previous server left behind.

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

/// Ends what a previous server has left running, or waits until its guard has done so.
///
/// # Errors
/// A description, if something does not end.
pub fn put_away(folder: &Path) -> Result<(), String> {
    match fs::read(folder.join(RUN)) {
        Ok(path) => RunDir::put_away(Path::new(OsStr::from_bytes(&path))),
        Err(_) => Ok(()),
    }
}
