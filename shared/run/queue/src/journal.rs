//! The journal of the queue: one JSON line per change, on disk before anybody is notified.

use std::path::Path;

use jobs::{Records, RecordsError};

use crate::book::{Book, Record};

/// Name of the file in the queue's folder.
pub const FILE: &str = "journal.ndjson";

/// Number of ended jobs that the journal keeps when it is rewritten: some days of trials.
const KEPT: usize = 2000;

/// Reads the journal of a folder and rewrites it with the current state, so that it does not grow for ever. Only the
/// one server of the folder may call this.
///
/// # Errors
/// [`RecordsError`].
pub fn open(folder: &Path) -> Result<(Records, Book), RecordsError> {
    let path = folder.join(FILE);
    let mut book = read(&path)?;
    book.prune(KEPT);
    let first = Record::Book(Box::new(book.clone()));
    let records = match Records::begin_anew(&path, &first) {
        Ok(records) => records,
        // A full disk: the existing file is intact, and can be appended to when the disk has room.
        Err(_) => Records::open(&path, |_: Record| Ok::<_, String>(()))?,
    };
    Ok((records, book))
}

/// Reads a journal.
///
/// # Errors
/// [`RecordsError`].
pub fn read(path: &Path) -> Result<Book, RecordsError> {
    let mut book = Book::default();
    Records::read(path, |record: Record| book.apply(&record))?;
    Ok(book)
}
