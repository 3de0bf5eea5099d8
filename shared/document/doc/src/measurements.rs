use std::io::BufRead;

use crate::wire::{ProfileHeader, RunEvent as Event, Wire};
use crate::{AnyDocuments, Frames, Profile, ProfileRecord, ReadError, RunEvent};

/// A document that holds measurements.
#[derive(Debug, Clone, PartialEq)]
pub enum Measurement {
    /// `mt.profile/1`, all its records.
    Profile(Box<Profile>),
    /// `mt.run/1`: all events of a run, beginning with its launch.
    Run(Vec<RunEvent>),
}

/// Iterates over the profiles and runs of a stream, in order. A fault ends the iteration. A document
/// of another kind is refused before the preceding measurement is returned: a record with a misspelt
/// schema is a fault of its profile, and must not end that profile silently.
#[derive(Debug)]
pub struct Measurements<R: BufRead>(AnyDocuments<R>);

impl<R: BufRead> Measurements<R> {
    /// Reads profiles and runs from `frames`.
    pub fn new(frames: Frames<R>) -> Self {
        Self(AnyDocuments::new(frames))
    }
}

impl<R: BufRead> Iterator for Measurements<R> {
    type Item = Result<Measurement, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(|documents, first| {
            let measurement = match first.peek()?.schema.as_str() {
                Event::SCHEMA => Measurement::Run(documents.run(first)?),
                _ => Measurement::Profile(documents.profile(first)?),
            };
            followed_by(documents, &[ProfileHeader::SCHEMA, Event::SCHEMA])?;
            Ok(measurement)
        })
    }
}

/// Iterates over the profiles of a stream, in order. Like [`Measurements`], but without runs: each
/// profile begins with its header and ends before the next header.
#[derive(Debug)]
pub struct Profiles<R: BufRead>(AnyDocuments<R>);

impl<R: BufRead> Profiles<R> {
    /// Reads profiles from `frames`.
    pub fn new(frames: Frames<R>) -> Self {
        Self(AnyDocuments::new(frames))
    }
}

impl<R: BufRead> Iterator for Profiles<R> {
    type Item = Result<Profile, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.step(|documents, first| {
            let profile = documents.profile(first)?;
            followed_by(documents, &[ProfileHeader::SCHEMA])?;
            Ok(*profile)
        })
    }
}

/// Refuses the next document unless its schema is in `known`.
fn followed_by<R: BufRead>(
    documents: &mut AnyDocuments<R>,
    known: &[&str],
) -> Result<(), ReadError> {
    match documents.stranger(known) {
        Some(frame) => ProfileRecord::parse(&frame?).map(drop),
        None => Ok(()),
    }
}
