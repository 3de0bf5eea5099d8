//! Logs of jobs: joins the parts of a rotated log, and follows a log while its job runs.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::book::Id;
use crate::message::LOGS;

/// Path of a job's log in a queue's folder; the suffix `.1` marks the previous part of a rotated log.
#[must_use]
pub fn path(folder: &Path, id: Id) -> PathBuf {
    folder.join(LOGS).join(format!("{id}.log"))
}

/// The parts of a log that exist, the oldest first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let older = (1..=jobs::LogLimits::default().old_files).rev().map(|n| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{n}"));
        PathBuf::from(name)
    });
    let all = older.chain([path.to_owned()]);
    all.filter(|part| part.exists()).collect()
}

/// The log as far as it was kept, and whether earlier parts may have been removed.
///
/// # Errors
/// [`io::Error`]: not found if the job has written nothing.
pub fn whole(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let parts = parts(path);
    if parts.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let mut text = Vec::new();
    for part in &parts {
        File::open(part)?.read_to_end(&mut text)?;
    }
    Ok((
        text,
        parts.len() > jobs::LogLimits::default().old_files as usize,
    ))
}

/// At most the last `bytes` of a log; empty if there is none.
#[must_use]
pub fn end(path: &Path, bytes: u64) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut left = bytes;
    for part in parts(path).iter().rev() {
        let read = |file: io::Result<File>| {
            let mut file = file?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(left)))?;
            let mut text = Vec::new();
            file.take(left).read_to_end(&mut text)?;
            io::Result::Ok(text)
        };
        // A part that was renamed or removed in the meantime is skipped.
        let text = read(File::open(part)).unwrap_or_default();
        left = left.saturating_sub(text.len() as u64);
        all.push(text);
        if left == 0 {
            break;
        }
    }
    all.reverse();
    all.concat()
}

/// Reads a log while a job writes to it.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    file: Option<File>,
}

impl Follower {
    /// Starts at the oldest part that was kept.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Output written since the last call.
    ///
    /// # Errors
    /// [`io::Error`] of reading.
    pub fn more(&mut self) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        if self.file.is_none() {
            for part in parts(&self.path).iter().filter(|part| **part != self.path) {
                File::open(part)?.read_to_end(&mut text)?;
            }
        }
        loop {
            // A full log is renamed, and a new file takes its name; the old file is read to its end first.
            let moved = match (&self.file, fs::metadata(&self.path)) {
                (_, Err(_)) => return Ok(text),
                (None, Ok(_)) => true,
                (Some(file), Ok(there)) => file.metadata()?.ino() != there.ino(),
            };
            if let Some(file) = &mut self.file {
                file.read_to_end(&mut text)?;
            }
            if !moved {
                return Ok(text);
            }
            self.file = Some(File::open(&self.path)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn parts_are_read_together_and_followed_when_they_are_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.log");
        let older = folder.path().join("1.log.1");
        assert!(whole(&path).is_err());
        let mut follower = Follower::new(path.clone());
        assert_eq!(follower.more().unwrap(), b"");
        fs::write(&older, "one\n").unwrap();
        let mut file = File::create(&path).unwrap();
        file.write_all(b"two\n").unwrap();
        assert_eq!(whole(&path).unwrap(), (b"one\ntwo\n".to_vec(), false));
        assert_eq!(end(&path, 6), b"e\ntwo\n");
        assert_eq!(follower.more().unwrap(), b"one\ntwo\n");
        file.write_all(b"three\n").unwrap();
        fs::rename(&path, &older).unwrap();
        fs::write(&path, "four\n").unwrap();
        assert_eq!(follower.more().unwrap(), b"three\nfour\n");
        assert_eq!(follower.more().unwrap(), b"");
    }
}
