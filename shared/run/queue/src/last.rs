//! What the server before this one has left.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use jobs::RunDir;

/// File with the run directory of the last server.
const RUN: &str = "run";
/// How often it is tried to clean up after it, some seconds each: a process inside a driver takes as long.
const CLEANINGS: u32 = 5;

/// Leaves the run directory of this server to the next.
///
/// # Errors
/// [`io::Error`] of the folder.
pub fn leave(folder: &Path, run: &Path) -> io::Result<()> {
    fs::write(folder.join(RUN), run.as_os_str().as_bytes())
}

/// Ends what a server before this one has left running, or waits until its guard has: a job is started again
/// only when nothing of its last start is left.
///
/// # Errors
/// In words, if something does not end.
pub fn put_away(folder: &Path) -> Result<(), String> {
    let Ok(path) = fs::read(folder.join(RUN)) else {
        return Ok(());
    };
    let path = Path::new(OsStr::from_bytes(&path));
    for _ in 0..CLEANINGS {
        if !path.is_dir() {
            return Ok(());
        }
        // What is no run directory (any more) holds nothing of ours.
        match RunDir::clean(path) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(()),
            _ => {}
        }
    }
    match path.is_dir() {
        true => Err(format!(
            "what the last server has left running does not end: see {}",
            path.display()
        )),
        false => Ok(()),
    }
}
