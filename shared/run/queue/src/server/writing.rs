//! Writing to the journal: before a change is carried out, or after an event.

use jobs::{Records, RecordsError};

use super::Keeper;
use crate::book::Record;
use crate::journal;

impl Keeper {
    /// Writes changes to disk and then applies them to the book: all of them, or none.
    ///
    /// # Errors
    /// A description, if they contradict the book or cannot be written.
    pub(crate) fn write(&mut self, records: &[Record]) -> Result<(), String> {
        if !self.owed.is_empty() {
            let why = self.trouble.as_deref().unwrap_or("the disk is full");
            return Err(format!("what has happened cannot be written yet: {why}"));
        }
        let wrong = self.book.rehearse(records);
        wrong.map_err(|error| error.to_string())?;
        self.append(records)
    }

    /// Writes records that do not contradict the book, and applies them.
    fn append(&mut self, records: &[Record]) -> Result<(), String> {
        if records.is_empty() {
            return Ok(());
        }
        let written = match self.journal.is_in_place() {
            true => self.journal.append(records),
            // Somebody moved the file away; the next server must find everything under the original name.
            false => self
                .begin_anew()
                .and_then(|()| self.journal.append(records)),
        };
        written.map_err(|error| {
            let text = error.to_string();
            self.trouble = Some(text.clone());
            text
        })?;
        for record in records {
            self.book.apply(record).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn begin_anew(&mut self) -> Result<(), RecordsError> {
        let path = self.folder.join(journal::FILE);
        self.journal = Records::begin_anew(&path, self.book.records())?;
        Ok(())
    }

    /// Tries again to write pending records of past events. Records that contradict the book are dropped: they would be
    /// refused for ever, and block all later ones.
    pub(super) fn pay(&mut self) {
        if self.owed.is_empty() {
            return;
        }
        let mut owed = std::mem::take(&mut self.owed);
        if self.book.rehearse(&owed).is_err() {
            let mut kept = Vec::new();
            for record in owed {
                kept.push(record);
                if self.book.rehearse(&kept).is_err() {
                    kept.pop();
                }
            }
            owed = kept;
        }
        match self.append(&owed) {
            Ok(()) => self.trouble = None,
            Err(_) => self.owed = owed,
        }
    }
}
