//! Output of a job: its lines for the log, and the messages in them.

use std::time::Instant;

use efficiency::{Moments, NormsError};

use super::event::{Event, Happening, JobId, Steps};
use crate::lines::LineCutter;
use crate::{Message, ProgressSource};

#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) fd: std::fs::File,
    pub(super) cutter: LineCutter,
    pub(super) last: Last,
    pub(super) unlogged: Unlogged,
    /// Whether its lines may report progress: standard output, and standard error where a regular
    /// expression looks for the job's own log lines.
    pub(super) tells: bool,
}

/// The current, incomplete line, which the log gets only as a whole. Both pipes of a job, and those of its
/// replacements, share one file, where pieces of a line would break up lines of the others.
#[derive(Debug, Default)]
pub(super) struct Unlogged(pub(super) Vec<u8>);

impl Unlogged {
    /// Adds bytes and returns those that go to the log now: up to the last line end, or all if the current line is too
    /// long to keep.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(bytes);
        let end = self.0.iter().rposition(|b| matches!(b, b'\n' | b'\r'));
        match end {
            _ if self.0.len() > LineCutter::LONGEST => std::mem::take(&mut self.0),
            Some(end) => self.0.drain(..=end).collect(),
            None => Vec::new(),
        }
    }
}

/// The last overwritten state of the current line: only the last state of a progress bar is shown.
#[derive(Debug, Default)]
pub(super) struct Last(Vec<u8>);

impl Last {
    pub(super) fn show(&mut self, line: &[u8], over: bool, show: impl FnOnce(&[u8])) {
        if over {
            self.0.clear();
            self.0.extend_from_slice(line);
        } else {
            show(if line.is_empty() { &self.0 } else { line });
            self.0.clear();
        }
    }
}

/// Whether a job reports only implausible steps. This is tracked for a warning: without it, the lack of progress would
/// be unexplained until the job counts as stalled.
#[derive(Debug)]
pub(super) enum Disbelieved {
    /// Number of implausible lines so far, without any other step.
    Lines(u32),
    /// It has reported a plausible step, or the warning has been given.
    Settled,
}

impl Disbelieved {
    /// Number of implausible lines that are accepted without a warning: at the first steps, a counter may not be set
    /// yet.
    const FORGIVEN: u32 = 4;

    fn look(&mut self, line: &[u8]) -> Option<String> {
        let Self::Lines(count) = self else {
            return None;
        };
        let why = ProgressSource::disbelieved(line)?;
        *count += 1;
        if *count <= Self::FORGIVEN {
            return None;
        }
        *self = Self::Settled;
        Some(why)
    }
}

/// Result of one pass over the pipes of a job.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    events: Vec<Happening>,
    pub(super) overlong: bool,
    pub(super) log_failed: Option<String>,
    doubt: Option<String>,
    pub(super) bad_norms: Option<NormsError>,
}

impl Gathered {
    pub(super) fn line(
        &mut self,
        progress: &mut ProgressSource,
        disbelieved: &mut Disbelieved,
        line: &[u8],
    ) {
        let parsed = progress.parse(line);
        self.doubt = self.doubt.take().or_else(|| progress.doubt());
        if let Some(Message::Step { .. }) = parsed {
            *disbelieved = Disbelieved::Settled;
        } else if let Some(why) = disbelieved.look(line) {
            self.doubt.get_or_insert(why);
        }
        let what = match parsed {
            None => return,
            Some(Message::Loaded) => Happening::Loaded,
            Some(Message::Ready { sms, mps }) => Happening::Ready { sms, mps },
            Some(Message::Parked) => Happening::Parked,
            Some(Message::Done { samples }) => Happening::Done { samples },
            Some(Message::Step {
                steps,
                samples,
                loss,
                step,
                norms,
            }) => {
                let mut gradient = Moments::default();
                match norms {
                    Some(Ok(norms)) => gradient.add(&norms),
                    Some(Err(why)) => self.bad_norms = self.bad_norms.or(Some(why)),
                    None => {}
                }
                return self.step(Steps {
                    steps,
                    samples,
                    loss,
                    last: step,
                    gradient,
                });
            }
        };
        self.events.push(what);
    }

    fn step(&mut self, more: Steps) {
        match self.events.last_mut() {
            Some(Happening::Steps(steps)) => steps.add(&more),
            _ => self.events.push(Happening::Steps(more)),
        }
    }

    pub(super) fn tell(self, job: JobId, queue: &mut Vec<Event>) {
        let at = Instant::now();
        let overlong = self.overlong.then_some(Happening::Overlong);
        let failed = self.log_failed.map(Happening::LogFailed);
        let doubt = self.doubt.map(Happening::Doubt);
        let bad_norms = self.bad_norms.map(Happening::NormsLeftOut);
        let all = self
            .events
            .into_iter()
            .chain(overlong)
            .chain(failed)
            .chain(doubt)
            .chain(bad_norms);
        queue.extend(all.map(|what| Event { job, at, what }));
    }
}
