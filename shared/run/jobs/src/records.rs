//! Records that outlive their writer: one JSON line each, written to disk before anybody is notified.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::private::{append_private, share_private};

/// Why records cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process writes to it.
    #[error("{path}: another process writes this journal; wait for its end, or name another file", path = path.display())]
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// A line is not a record. Another line follows it, so a crash cannot be the reason.
    #[error(
        "{path}:{line}: {problem}; the journal was changed from outside: move it away to start over, which loses its records",
        path = path.display()
    )]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
}

/// Time to wait for a killed writer to release the file: its descriptors stay open for some milliseconds, as do those
/// of a child that it forked and that has not called exec yet.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// An open file of records. Only this user can read it: it may contain the environment of jobs.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    file: File,
    /// Number of bytes of complete, confirmed records.
    length: u64,
    /// There are bytes after them that could not be truncated.
    torn: bool,
}

impl Records {
    /// Reads the records of a file, if it exists, and passes each to `take`; returns the number of bytes of complete
    /// records. A last line without a line end is ignored: it is part of a record that a crash cut off and that was
    /// never confirmed.
    ///
    /// # Errors
    /// [`RecordsError::Io`]; [`RecordsError::Line`] with the error of `take` for a record.
    pub fn read<R: DeserializeOwned, E: ToString>(
        path: &Path,
        mut take: impl FnMut(R) -> Result<(), E>,
    ) -> Result<u64, RecordsError> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(source) => {
                let path = path.to_owned();
                return Err(RecordsError::Io { path, source });
            }
        };
        let mut length = 0;
        for (index, line) in text.split_inclusive(|&b| b == b'\n').enumerate() {
            let last = length + line.len() == text.len();
            let wrong = |problem: String| RecordsError::Line {
                path: path.to_owned(),
                line: index + 1,
                problem,
            };
            match serde_json::from_slice::<R>(line) {
                Ok(record) if line.ends_with(b"\n") => {
                    take(record).map_err(|error| wrong(error.to_string()))?;
                }
                Ok(_) => break,
                Err(_) if last => break,
                Err(error) => return Err(wrong(format!("no record: {error}"))),
            }
            length += line.len();
        }
        Ok(length as u64)
    }

    /// Opens a file of records to continue it, as its only writer, and reads it like [`Records::read`]; creates it if
    /// it does not exist.
    ///
    /// # Errors
    /// [`RecordsError`]; [`RecordsError::InUse`] while another process has it open.
    pub fn open<R: DeserializeOwned, E: ToString>(
        path: &Path,
        take: impl FnMut(R) -> Result<(), E>,
    ) -> Result<Self, RecordsError> {
        let file = Self::lock(path)?;
        let length = Self::read(path, take)?;
        Self::from_length(path, file, length)
    }

    /// Opens a file of records to continue it after its last complete line, whatever the lines contain; creates it if
    /// it does not exist.
    ///
    /// # Errors
    /// [`RecordsError::Io`]; [`RecordsError::InUse`] while another process has it open.
    pub fn resume(path: &Path) -> Result<Self, RecordsError> {
        let file = Self::lock(path)?;
        let text = fs::read(path).map_err(|source| RecordsError::Io {
            path: path.to_owned(),
            source,
        })?;
        let length = text.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
        Self::from_length(path, file, length as u64)
    }

    fn from_length(path: &Path, file: File, length: u64) -> Result<Self, RecordsError> {
        file.set_len(length).map_err(|source| RecordsError::Io {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::of(path, file, length))
    }

    fn of(path: &Path, file: File, length: u64) -> Self {
        Self {
            path: path.to_owned(),
            file,
            length,
            torn: false,
        }
    }

    /// The file, locked, with its name on disk.
    fn lock(path: &Path) -> Result<File, RecordsError> {
        let failed = |source| RecordsError::Io {
            path: path.to_owned(),
            source,
        };
        let file = share_private(path).map_err(failed)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(LOOK),
                Err(TryLockError::WouldBlock) => {
                    let path = path.to_owned();
                    return Err(RecordsError::InUse { path });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        sync_folder(path).map_err(failed)?;
        Ok(file)
    }

    /// Whether the path still leads to the open file, which may have been moved or removed.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        match (fs::symlink_metadata(&self.path), self.file.metadata()) {
            (Ok(there), Ok(own)) => (there.dev(), there.ino()) == (own.dev(), own.ino()),
            (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
            (_, Err(_)) => true,
        }
    }

    /// Writes records into a new file, which replaces the old one when it is on disk.
    ///
    /// # Errors
    /// [`RecordsError::Io`]; the old file is then unchanged.
    pub fn begin_anew<R: Serialize>(
        path: &Path,
        records: impl Iterator<Item = R>,
    ) -> Result<Self, RecordsError> {
        let begun = || {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(".new");
            let fresh = path.with_file_name(name);
            // Left by a crash.
            fs::remove_file(&fresh).ok();
            let mut text = Vec::new();
            for record in records {
                serde_json::to_writer(&mut text, &record)?;
                text.push(b'\n');
            }
            let file = append_private(&fresh)?;
            (&file).write_all(&text)?;
            file.sync_all()?;
            fs::rename(&fresh, path)?;
            sync_folder(path)?;
            Ok((file, text.len() as u64))
        };
        let (file, length) = begun().map_err(|source| RecordsError::Io {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::of(path, file, length))
    }

    /// Writes records and waits until they are on disk: all of them, or none.
    ///
    /// # Errors
    /// [`RecordsError::Io`]; the contents of the file are then unchanged.
    pub fn append<R: Serialize>(&mut self, records: &[R]) -> Result<(), RecordsError> {
        let appended = self.try_append(records);
        appended.map_err(|source| RecordsError::Io {
            path: self.path.clone(),
            source,
        })
    }

    fn try_append<R: Serialize>(&mut self, records: &[R]) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.length)?;
            self.torn = false;
        }
        let mut text = Vec::new();
        for record in records {
            serde_json::to_writer(&mut text, record).map_err(io::Error::from)?;
            text.push(b'\n');
        }
        let mut file = &self.file;
        let written = file.write_all(&text).and_then(|()| file.sync_data());
        match written {
            Ok(()) => {
                self.length += text.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Part of it may have been written (a full disk): a later record must not follow half of this one.
                self.torn = self.file.set_len(self.length).is_err();
                Err(error)
            }
        }
    }
}

/// Writes the folder to disk. Otherwise the name may be missing or refer to the old file after a power failure, and
/// later records would be lost.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> Vec<u32> {
        let mut all = Vec::new();
        let taken = |n: u32| -> Result<(), String> {
            all.push(n);
            Ok(())
        };
        Records::read(path, taken).unwrap();
        all
    }

    #[test]
    fn half_a_last_line_is_cut_off_and_what_follows_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let none = |_: u32| Ok::<_, String>(());
        let mut records = Records::open(&path, none).unwrap();
        records.append(&[1, 2]).unwrap();
        let second = Records::open(&path, none);
        assert!(matches!(second, Err(RecordsError::InUse { .. })));
        drop(records);
        for half in ["3", "{\"a"] {
            let whole = fs::read(&path).unwrap();
            fs::write(&path, [&whole[..], half.as_bytes()].concat()).unwrap();
            let before = read(&path);
            let mut records = Records::open(&path, none).unwrap();
            records.append(&[before.len() as u32 + 1]).unwrap();
        }
        assert_eq!(read(&path), [1, 2, 3, 4]);
        fs::write(&path, "1\nx\n2\n").unwrap();
        let wrong = Records::open(&path, none).unwrap_err().to_string();
        assert!(wrong.contains("journal:2: no record"), "{wrong}");
    }
}
