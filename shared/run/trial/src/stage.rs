//! One stage of a trial: some commands that run together until there is enough data. Times are seconds since the start
//! of the stage.

use jobs::Exit;

use crate::Rate;
use crate::detect::Detector;

/// How a command ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// Time of the end.
    pub at: f64,
    /// Exit status or signal.
    pub exit: Exit,
    /// The last lines that it printed.
    pub tail: String,
    /// Whether it failed for lack of memory.
    pub lacked_memory: bool,
    /// Its role in a fault of the device, if there was one.
    pub fault: Option<Fault>,
}

/// Role of a command in a fault of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It caused a fault of the MPS server, which ended all commands.
    Caused,
    /// It was ended by a fault that it did not cause.
    Suffered,
}

/// A command of a stage.
#[derive(Debug, Clone, Default)]
pub struct Track {
    /// Detects its progress.
    pub detector: Detector,
    /// Its end, if it ended before the stage did.
    pub ended: Option<Ended>,
    /// Mean time between two of its marks when it ran alone, in seconds; windows beside others are at least this long.
    pub interval: f64,
}

impl Track {
    /// Time and amount of its first progress.
    #[must_use]
    pub fn first(&self) -> Option<(f64, f64)> {
        self.detector.best()?.marks.first()
    }

    fn last(&self) -> Option<f64> {
        Some(self.detector.best()?.marks.last()?.0)
    }

    /// Its rate between two times.
    #[must_use]
    pub fn rate(&self, from: f64, to: f64) -> Option<Rate> {
        self.detector.best()?.marks.rate(from, to)
    }

    /// Whether it has failed.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.ended
            .as_ref()
            .is_some_and(|ended| ended.exit != Exit::Code(0))
    }

    /// Whether it was ended by a fault that it did not cause.
    #[must_use]
    pub fn is_victim(&self) -> bool {
        let fault = self.ended.as_ref().and_then(|ended| ended.fault);
        fault == Some(Fault::Suffered)
    }

    /// Seconds of the whole run, if it succeeded.
    #[must_use]
    pub fn whole(&self) -> Option<f64> {
        let ended = self.ended.as_ref()?;
        (ended.exit == Exit::Code(0)).then_some(ended.at)
    }
}

/// Time limits of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Seconds of progress to observe, of all commands at the same time.
    pub window: f64,
    /// Seconds by which the stage is extended if all commands are expected to end in this time.
    pub ahead: f64,
    /// Seconds after which the stage ends in any case.
    pub limit: f64,
}

/// Commands that run at the same time.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The commands, in their order.
    pub tracks: Vec<Track>,
    limits: Limits,
}

impl Stage {
    /// A stage that starts now.
    #[must_use]
    pub const fn new(tracks: Vec<Track>, limits: Limits) -> Self {
        Self { tracks, limits }
    }

    /// Extends the limits by a pause of this program or of the machine.
    pub(crate) fn postpone(&mut self, seconds: f64) {
        self.limits.limit += seconds;
    }

    /// Time since which all commands make progress; `None` while a running command has made none. Commands that have
    /// ended without progress do not count.
    #[must_use]
    pub fn joint(&self) -> Option<f64> {
        let mut from = 0.0f64;
        for track in &self.tracks {
            match (track.first(), &track.ended) {
                (Some((at, _)), _) => from = from.max(at),
                (None, Some(_)) => {}
                (None, None) => return None,
            }
        }
        Some(from)
    }

    /// Time at which the first command ended; infinite if none has.
    #[must_use]
    pub fn first_end(&self) -> f64 {
        let ends = self
            .tracks
            .iter()
            .filter_map(|t| Some(t.ended.as_ref()?.at));
        ends.fold(f64::INFINITY, f64::min)
    }

    /// Whether there is enough data at `now`, or no more can be obtained.
    #[must_use]
    pub fn is_over(&self, now: f64) -> bool {
        if now >= self.limits.limit
            || self.tracks.iter().any(Track::failed)
            || self.tracks.iter().all(|track| track.ended.is_some())
        {
            return true;
        }
        let Some(joint) = self.joint() else {
            return false;
        };
        // Only marks until the first end come from the time in which all commands ran.
        let until = now.min(self.first_end());
        let enough = self.tracks.iter().all(|track| {
            let rate = track.rate(joint, until);
            let wanted = self.limits.window.max(track.interval);
            let last = track.last().unwrap_or(joint).min(until);
            // A command without progress has no rate, so it must have ended.
            rate.is_some() && (last - joint >= 0.8 * wanted || until - joint >= 2.0 * wanted)
                || track.whole().is_some()
        });
        enough
            && (self.tracks.len() == 1 || now - joint >= self.limits.window)
            && !self.nearly_done(now)
    }

    /// Whether all commands will end soon, so that waiting for their whole runs costs little.
    fn nearly_done(&self, now: f64) -> bool {
        let soon = now + self.limits.ahead;
        soon <= self.limits.limit
            && self.tracks.iter().all(|track| {
                track.ended.is_some() || track.expected_end().is_some_and(|end| end <= soon)
            })
    }
}

impl Track {
    /// A track for the same command beside others, with its known counter and interval of marks.
    #[must_use]
    pub fn beside_others(&self) -> Self {
        Self {
            detector: self.detector.same(),
            ended: None,
            interval: self.mean_interval(),
        }
    }

    /// Mean time between two of its marks, in seconds; 0 if unknown.
    #[must_use]
    pub fn mean_interval(&self) -> f64 {
        let span = self
            .first()
            .zip(self.last())
            .map(|((first, _), last)| last - first);
        let count = self.detector.best().map_or(0, |best| best.marks.count());
        match span {
            Some(span) if count > 1 => span / (count - 1) as f64,
            _ => 0.0,
        }
    }

    /// Mean work between two of its marks.
    #[must_use]
    pub fn work_per_mark(&self) -> Option<f64> {
        let marks = &self.detector.best()?.marks;
        let (first, last) = (marks.first()?.1, marks.last()?.1);
        (marks.count() > 1).then(|| (last - first) / (marks.count() - 1) as f64)
    }

    /// Expected time of its end, if its lines contain the total.
    #[must_use]
    pub fn expected_end(&self) -> Option<f64> {
        let (at, work) = self.detector.best()?.marks.last()?;
        let rate = self.rate(0.0, f64::INFINITY)?;
        Some(at + (self.detector.total()? - work).max(0.0) / rate.per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        window: 10.0,
        ahead: 10.0,
        limit: 60.0,
    };

    /// Simulates commands, each given by seconds of start-up, seconds per step, number of steps, and whether its lines
    /// contain that number; returns the time at which the stage was over.
    fn play(commands: &[(f64, f64, u32, bool)]) -> (f64, Stage) {
        let mut stage = Stage::new(vec![Track::default(); commands.len()], LIMITS);
        let mut steps = vec![0u32; commands.len()];
        for tick in 0..10_000 {
            let now = f64::from(tick) * 0.1;
            for (k, &(start, step, count, told)) in commands.iter().enumerate() {
                if stage.tracks[k].ended.is_some() || now < start {
                    continue;
                }
                if steps[k] == count {
                    stage.tracks[k].ended = Some(Ended {
                        at: now,
                        exit: Exit::Code(0),
                        tail: String::new(),
                        lacked_memory: false,
                        fault: None,
                    });
                } else if now >= start + step * f64::from(steps[k] + 1) {
                    steps[k] += 1;
                    let of = if told {
                        format!("/{count}")
                    } else {
                        String::new()
                    };
                    let line = format!("step {}{of} loss 0.{tick}", steps[k]);
                    stage.tracks[k].detector.line(now, line.as_bytes());
                }
            }
            if stage.is_over(now) {
                return (now, stage);
            }
        }
        panic!("the stage never ends");
    }

    #[test]
    fn a_long_run_is_watched_for_the_window_after_its_start_up() {
        let (end, stage) = play(&[(5.0, 0.1, 100_000, true)]);
        assert!((13.0..16.0).contains(&end), "{end}");
        assert!(stage.tracks[0].whole().is_none());
    }

    #[test]
    fn a_run_that_ends_soon_after_the_window_is_watched_to_its_end() {
        let (end, stage) = play(&[(1.0, 0.1, 150, true)]);
        assert_eq!(stage.tracks[0].whole(), Some(end));
    }

    #[test]
    fn one_epoch_is_waited_for_and_then_believed() {
        let (end, _) = play(&[(0.0, 25.0, 100, false)]);
        assert!((49.0..52.0).contains(&end), "two epochs: {end}");
    }

    #[test]
    fn what_prints_nothing_is_waited_for_until_it_ends_or_the_limit() {
        let mut stage = Stage::new(vec![Track::default()], LIMITS);
        assert!(!stage.is_over(59.0) && stage.is_over(60.0));
        stage.tracks[0].ended = Some(Ended {
            at: 35.0,
            exit: Exit::Code(0),
            tail: String::new(),
            lacked_memory: false,
            fault: None,
        });
        assert!(stage.is_over(35.1));
    }

    #[test]
    fn together_the_window_begins_when_the_last_one_trains() {
        let (end, stage) = play(&[(0.0, 0.1, 100_000, true), (20.0, 0.1, 100_000, true)]);
        assert!((28.0..32.0).contains(&end), "{end}");
        assert!((20.0..20.3).contains(&stage.joint().unwrap()));
    }
}
