//! The journal: a line of JSON for each change, on the disk before anybody is told of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::book::{Book, Record};

/// Name of the file in the queue's folder.
pub const FILE: &str = "journal.ndjson";

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is no record, and another follows it: not the work of a crash.
    #[error(
        "{path}:{line}: {problem}; the journal was changed from outside: move it away to begin anew, its jobs \
         are lost then",
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

/// Jobs that have ended of which the journal still knows when it is begun anew: some days of trials.
const KEPT: usize = 2000;

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Bytes that hold whole, confirmed records.
    length: u64,
    /// Bytes behind them are there and could not be cut off.
    torn: bool,
}

impl Journal {
    /// Reads the journal of a folder and begins it anew with what is known, so that it does not grow for
    /// ever. Only the one server of the folder may call this.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(folder: &Path) -> Result<(Self, Book), JournalError> {
        let path = folder.join(FILE);
        let (mut book, length) = read(&path)?;
        let failed = |source| JournalError::Io {
            path: path.clone(),
            source,
        };
        book.prune(KEPT);
        let begun = begin_anew(folder, &path, &book);
        let file = match begun {
            Ok(file) => file,
            // A full disk: what is there is good, and can be written on where the disk lets us.
            Err(_) => {
                let file = private(OpenOptions::new().append(true), &path).map_err(failed)?;
                file.set_len(length).map_err(failed)?;
                file
            }
        };
        let length = file.metadata().map_err(failed)?.len();
        let journal = Self {
            path,
            file,
            length,
            torn: false,
        };
        Ok((journal, book))
    }

    /// Writes records and waits until they are on the disk: all of them, or none.
    ///
    /// # Errors
    /// [`JournalError::Io`]; the journal is as it was before.
    pub fn append(&mut self, records: &[Record]) -> Result<(), JournalError> {
        let appended = self.try_append(records);
        appended.map_err(|source| JournalError::Io {
            path: self.path.clone(),
            source,
        })
    }

    fn try_append(&mut self, records: &[Record]) -> io::Result<()> {
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
                // A part of it may be there (a full disk): a later record must not follow half of this one.
                self.torn = self.file.set_len(self.length).is_err();
                Err(error)
            }
        }
    }
}

/// Reads a journal; how many of its bytes are whole records. A last line without its end is what a crash
/// leaves of a record that was confirmed to nobody.
///
/// # Errors
/// [`JournalError`].
pub fn read(path: &Path) -> Result<(Book, u64), JournalError> {
    let mut book = Book::default();
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((book, 0)),
        Err(source) => {
            let path = path.to_owned();
            return Err(JournalError::Io { path, source });
        }
    };
    let mut length = 0;
    for (index, line) in text.split_inclusive(|&b| b == b'\n').enumerate() {
        let last = length + line.len() == text.len();
        let wrong = |problem: String| JournalError::Line {
            path: path.to_owned(),
            line: index + 1,
            problem,
        };
        match serde_json::from_slice::<Record>(line) {
            Ok(record) if line.ends_with(b"\n") => {
                let applied = book.apply(&record);
                applied.map_err(|error| wrong(error.to_string()))?;
            }
            Ok(_) => break,
            Err(_) if last => break,
            Err(error) => return Err(wrong(format!("no record of a queue: {error}"))),
        }
        length += line.len();
    }
    Ok((book, length as u64))
}

/// Writes what is known into a new file, which takes the place of the old one once it is on the disk.
fn begin_anew(folder: &Path, path: &Path, book: &Book) -> io::Result<File> {
    let fresh = folder.join(format!("{FILE}.new"));
    // Left by a crash.
    fs::remove_file(&fresh).ok();
    let mut text = serde_json::to_vec(&Record::Book(Box::new(book.clone())))?;
    text.push(b'\n');
    let file = private(OpenOptions::new().append(true), &fresh)?;
    (&file).write_all(&text)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    // Without this the name may be the old file's after a power failure, and what follows would be lost.
    File::open(folder)?.sync_all()?;
    Ok(file)
}

/// Opens a file that only this user can read: it holds the environment of jobs. A link is not followed.
fn private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = nix::fcntl::OFlag::O_NOFOLLOW.bits();
    options
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
}
