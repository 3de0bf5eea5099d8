//! The journal of the queue: one JSON line per change, written to disk before the change is announced.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jobs::{Records, RecordsError};

use crate::book::{Book, MOST_ID, Record};

/// Name of the file in the queue's folder.
pub const FILE: &str = "journal.ndjson";
/// Prefix of the names of files that hold unreadable records; a number follows.
const ASIDE: &str = "journal-unreadable-";

/// Number of ended jobs that the journal keeps, however old they are: enough for some days of trials.
const KEPT: usize = 2000;
/// Seconds for which every ended job is kept, so that users can wait for it or ask for its result: long enough for a
/// sweep over a weekend and the days after it. So the jobs that a user adds in this time bound the size of the journal;
/// their logs take more space.
const AGE: f64 = 14.0 * 86_400.0;

/// Content of a journal.
#[derive(Debug, Default)]
pub struct Found {
    /// The state that it describes.
    pub book: Book,
    /// Unreadable lines, each with its number from 1, its text, and the error.
    pub unreadable: Vec<(usize, Vec<u8>, String)>,
}

/// Reads the journal of a folder and rewrites it with the current state, so that it does not grow for ever. Unreadable
/// lines are first saved to a separate file in the same folder. Only the one server of the folder may call this.
///
/// # Errors
/// [`RecordsError`] if the file cannot be read or written.
pub fn open(folder: &Path, now_s: f64) -> Result<(Records, Book), RecordsError> {
    let path = folder.join(FILE);
    let Found {
        mut book,
        unreadable,
    } = read(&path)?;
    book.prune(KEPT, now_s - AGE);
    let kept = put_aside(folder, &unreadable, now_s);
    if let Some((line, _, problem)) = unreadable.first() {
        // The client that started this server prints this message.
        let (count, file) = (unreadable.len(), path.display());
        let said = match &kept {
            Ok(aside) => format!("are in {}", aside.display()),
            Err(error) => format!("cannot be put aside ({error}) and stay in it"),
        };
        writeln!(
            io::stderr(),
            "{file}:{line}: {problem}; unreadable lines ({count}) {said}"
        )
        .ok();
    }
    // If the disk is full, the existing file is intact, and can be appended to once there is room.
    let records = match kept.is_ok() {
        true => Records::begin_anew(&path, book.records()).or_else(|_| Records::resume(&path))?,
        false => Records::resume(&path)?,
    };
    Ok((records, book))
}

fn put_aside(
    folder: &Path,
    unreadable: &[(usize, Vec<u8>, String)],
    now_s: f64,
) -> io::Result<PathBuf> {
    if unreadable.is_empty() {
        return Ok(folder.to_owned());
    }
    let mut text = Vec::new();
    for (_, line, _) in unreadable {
        text.extend(line);
        text.push(b'\n');
    }
    let mut number = now_s as u64;
    loop {
        let path = folder.join(format!("{ASIDE}{number}.ndjson"));
        // A file with the same lines comes from a server that died between here and the rewriting; others stay.
        if !path.exists() || fs::read(&path).is_ok_and(|found| found == text) {
            jobs::write_private(&path, &text)?;
            return Ok(path);
        }
        number += 1;
    }
}

/// Files with unreadable records; they stay until somebody removes them.
#[must_use]
pub fn aside(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let is = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(ASIDE);
    let mut all: Vec<PathBuf> = found.filter(is).map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Message about such files; `None` if there are none.
pub(crate) fn told(folder: &Path) -> Option<String> {
    let all = aside(folder);
    let names: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "records of the queue that could not be read are in {}; remove it when you have looked at them",
            names.join(", ")
        )
    })
}

/// Reads a journal. A line that is no record, or that contradicts earlier ones, goes to [`Found::unreadable`].
///
/// # Errors
/// [`RecordsError::Io`].
pub fn read(path: &Path) -> Result<Found, RecordsError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::default()),
        Err(source) => {
            let path = path.to_owned();
            return Err(RecordsError::Io { path, source });
        }
    };
    let mut found = Found::default();
    for (index, line) in text.split(|&b| b == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let read = serde_json::from_slice::<Record>(line).map_err(|error| error.to_string());
        let taken = read.and_then(|record| {
            let salvaged = found.book.salvage(&record);
            salvaged.map_err(|error| error.to_string())
        });
        if let Err(problem) = taken {
            found.book.last = found.book.last.max(largest_number(line));
            found.unreadable.push((index + 1, line.to_owned(), problem));
        }
    }
    Ok(found)
}

/// The largest job number in an unreadable line, so that no new job gets this number and the log of the lost job.
fn largest_number(line: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(line);
    let numbers = text.split("\"id\":").skip(1).filter_map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        rest[..digits.unwrap_or(rest.len())].parse().ok()
    });
    numbers.filter(|n| *n < MOST_ID).max().unwrap_or(0)
}
