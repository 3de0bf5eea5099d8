//! The verdict: compares the stages.

use crate::{Rate, Stage, Track};

/// Data about a command that ran alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alone {
    /// Seconds before it made progress; 0 if unknown.
    pub startup: f64,
    /// Work per second while it trains.
    pub rate: Rate,
    /// Unit of its work.
    pub unit: &'static str,
    /// Work of the whole run, if it is known.
    pub total: Option<f64>,
    /// Seconds of the whole run, if it ended during the stage.
    pub whole: Option<f64>,
}

/// Why a command that ran alone cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// It printed no progress, and did not end.
    Silent,
    /// It made no progress after its first mark.
    Stuck,
}

/// A run without output is one unit of work.
const RUN: &str = "runs";
/// Relative standard error of the time of a single run: runs of one script on a quiet machine differ by about this
/// much.
const SINGLE_RUN_ERROR: f64 = 0.03;

impl Alone {
    /// From the stage in which it ran alone.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn of(track: &Track) -> Result<Self, Unknown> {
        let whole = track.whole();
        let rate = track.rate(0.0, f64::INFINITY);
        match (rate, whole) {
            (Some(rate), _) => {
                let (at, work) = track.first().unwrap_or_default();
                let best = track.detector.best();
                let done = best.and_then(|b| b.marks.last()).map(|(_, work)| work);
                Ok(Self {
                    // The first mark comes after its work.
                    startup: (at - work / rate.per_s).max(0.0),
                    rate,
                    unit: best.map_or(RUN, |best| best.form.unit),
                    total: match whole {
                        Some(_) => done,
                        None => track.detector.total(),
                    },
                    whole,
                })
            }
            (None, Some(seconds)) => Ok(Self {
                startup: 0.0,
                rate: Rate {
                    per_s: 1.0 / seconds.max(1e-3),
                    error: SINGLE_RUN_ERROR,
                    marks: 0,
                },
                unit: RUN,
                total: Some(1.0),
                whole,
            }),
            (None, None) if track.first().is_some() => Err(Unknown::Stuck),
            (None, None) => Err(Unknown::Silent),
        }
    }

    /// Seconds of the whole run: measured, or start-up and work at the measured rate.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        let computed = self
            .total
            .map(|total| self.startup + total / self.rate.per_s);
        self.whole.or(computed)
    }

    /// Whether the whole run was measured.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        self.rate.marks == 0
    }
}

/// Progress of a command beside the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// Seconds before it made progress.
    pub startup: f64,
    /// Its rate while all of them trained.
    pub rate: Rate,
    /// Seconds of the whole run, if it ended while it was watched.
    pub whole: Option<f64>,
}

/// Rates of a stage in which all ran; `None` for a command without a known rate there.
#[must_use]
pub fn beside(stage: &Stage, alone: &[Alone]) -> Vec<Option<Beside>> {
    let from = stage.joint().unwrap_or(0.0);
    let tracks = stage.tracks.iter().zip(alone);
    let one = |(track, alone): (&Track, &Alone)| {
        let whole = track.whole();
        if alone.is_silent() {
            let seconds = whole?;
            return Some(Beside {
                startup: 0.0,
                rate: Rate {
                    per_s: 1.0 / seconds.max(1e-3),
                    ..alone.rate
                },
                whole,
            });
        }
        // If one had ended before another began to train, only its own training is available.
        let joint = track.rate(from, stage.first_end());
        let rate = joint.or_else(|| track.rate(0.0, f64::INFINITY))?;
        let (at, work) = track.first()?;
        Some(Beside {
            startup: (at - work / rate.per_s).max(0.0),
            rate,
            whole,
        })
    };
    tracks.map(one).collect()
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Basis {
    /// Whole runs, start-up on both sides.
    WholeRuns,
    /// The work that each does alone in this many seconds, without start-up on either side.
    Seconds(f64),
}

/// The times that are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Kind of comparison.
    pub basis: Basis,
    /// One after another.
    pub serial: f64,
    /// All together.
    pub together: f64,
    /// Whether the time together was measured to its end, not computed from rates.
    pub measured: bool,
    /// Relative standard error of `serial / together`.
    pub error: f64,
    /// Maximum fraction of the processors that other programs used in one of the stages.
    pub others: f64,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Together is faster.
    Worth,
    /// Together is not faster.
    NotWorth,
    /// The difference is within the noise.
    WithinNoise,
}

/// Work of runs of unknown length: a minute each.
const MINUTE: f64 = 60.0;
/// Relative drift of a machine between two stages: the error that remains if each rate is steady.
const DRIFT: f64 = 0.02;

impl Compared {
    /// From each command alone, and beside the others. `others`: the maximum fraction of the processors that other
    /// programs used in one of the stages. If they leave it to the next stage, a rate differs by at most this; it
    /// counts as two standard errors.
    #[must_use]
    pub fn of(alone: &[Alone], beside: &[Beside], others: f64) -> Self {
        let errors = alone.iter().zip(beside).map(|(a, b)| {
            let one = a.rate.error.hypot(b.rate.error);
            one * one
        });
        let mean = errors.sum::<f64>() / alone.len() as f64;
        let error = (mean + DRIFT * DRIFT + others * others / 4.0).sqrt();
        let wholes: Option<Vec<f64>> = alone.iter().map(Alone::seconds).collect();
        let ended: Option<Vec<f64>> = beside.iter().map(|b| b.whole).collect();
        match (wholes, ended) {
            (Some(wholes), ended) => Self {
                basis: Basis::WholeRuns,
                serial: wholes.iter().sum(),
                together: match &ended {
                    Some(ends) => ends.iter().copied().fold(0.0, f64::max),
                    None => makespan(alone, beside, None),
                },
                measured: ended.is_some(),
                error,
                others,
            },
            (None, _) => Self {
                basis: Basis::Seconds(MINUTE),
                serial: MINUTE * alone.len() as f64,
                together: makespan(alone, beside, Some(MINUTE)),
                measured: false,
                error,
                others,
            },
        }
    }

    /// How much faster together is: 0.5 means 50 %; negative if it is slower.
    #[must_use]
    pub fn gain(&self) -> f64 {
        self.serial / self.together - 1.0
    }

    /// The answer: a difference of less than two standard errors does not count.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let (gain, noise) = (self.gain(), 2.0 * self.error);
        if gain > noise {
            Verdict::Worth
        } else if gain < -noise {
            Verdict::NotWorth
        } else {
            Verdict::WithinNoise
        }
    }
}

/// Seconds until all have done their work beside each other; `seconds`: each does the work that takes this long
/// alone, without start-up.
///
/// When a command has ended the others speed up. If more than one is left, their speed was not measured: the time of
/// a unit of work is interpolated linearly between that beside all others and that alone.
fn makespan(alone: &[Alone], beside: &[Beside], seconds: Option<f64>) -> f64 {
    let n = alone.len();
    let mut start: Vec<f64> = beside
        .iter()
        .map(|b| if seconds.is_some() { 0.0 } else { b.startup })
        .collect();
    let mut work: Vec<f64> = alone
        .iter()
        .map(|a| seconds.map_or_else(|| a.total.unwrap_or(0.0), |s| s * a.rate.per_s))
        .collect();
    let mut now = 0.0;
    // Each iteration ends a start-up or a command.
    for _ in 0..2 * n + 1 {
        let running: Vec<usize> = (0..n)
            .filter(|&i| start[i] > 0.0 || work[i] > 0.0)
            .collect();
        if running.is_empty() {
            break;
        }
        let crowd = (running.len() - 1) as f64 / (n - 1).max(1) as f64;
        let per_unit = |i: usize| {
            let (solo, joint) = (1.0 / alone[i].rate.per_s, 1.0 / beside[i].rate.per_s);
            solo + (joint - solo) * crowd
        };
        let left = |i: usize| match start[i] > 0.0 {
            true => start[i],
            false => work[i] * per_unit(i),
        };
        let step = running
            .iter()
            .map(|&i| left(i))
            .fold(f64::INFINITY, f64::min);
        let done: Vec<(usize, f64)> = running.iter().map(|&i| (i, left(i))).collect();
        for (i, all) in done {
            let over = all <= step;
            let after = if over { 0.0 } else { 1.0 - step / all };
            match start[i] > 0.0 {
                true => start[i] *= after,
                false => work[i] *= after,
            }
        }
        now += step;
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_s: f64) -> Rate {
        Rate {
            per_s,
            error: 0.01,
            marks: 100,
        }
    }

    fn alone(startup: f64, per_s: f64, total: Option<f64>) -> Alone {
        Alone {
            startup,
            rate: rate(per_s),
            unit: "steps",
            total,
            whole: None,
        }
    }

    fn with(startup: f64, per_s: f64) -> Beside {
        Beside {
            startup,
            rate: rate(per_s),
            whole: None,
        }
    }

    #[test]
    fn start_up_is_on_both_sides_of_whole_runs() {
        let solo = alone(20.0, 1.0, Some(20.0));
        let compared = Compared::of(&[solo; 2], &[with(20.0, 0.5); 2], 0.0);
        assert_eq!(compared.basis, Basis::WholeRuns);
        assert_eq!((compared.serial, compared.together), (80.0, 60.0));
        assert_eq!(compared.verdict(), Verdict::Worth);
    }

    #[test]
    fn and_on_neither_where_a_length_is_unknown() {
        let known = alone(20.0, 1.0, Some(20.0));
        let endless = alone(3.0, 7.0, None);
        let compared = Compared::of(&[known, endless], &[with(20.0, 0.5), with(3.0, 3.5)], 0.0);
        assert_eq!(compared.basis, Basis::Seconds(60.0));
        assert_eq!((compared.serial, compared.together), (120.0, 120.0));
        assert_eq!(compared.verdict(), Verdict::WithinNoise);
    }

    #[test]
    fn who_is_left_goes_on_at_the_speed_alone() {
        let (short, long) = (alone(0.0, 1.0, Some(10.0)), alone(0.0, 1.0, Some(40.0)));
        let together = [with(0.0, 0.5), with(0.0, 0.5)];
        // 20 s at half speed for both, then 30 units at full speed.
        assert_eq!(Compared::of(&[short, long], &together, 0.0).together, 50.0);
        let slower = [with(0.0, 0.4), with(0.0, 0.4)];
        let compared = Compared::of(&[short, long], &slower, 0.0);
        assert!((compared.together - 55.0).abs() < 1e-9);
        assert_eq!(compared.verdict(), Verdict::NotWorth);
    }

    #[test]
    fn what_others_take_is_no_gain() {
        let solo = alone(0.0, 1.0, Some(60.0));
        let verdict = |others| Compared::of(&[solo; 2], &[with(0.0, 0.65); 2], others).verdict();
        assert_eq!(verdict(0.0), Verdict::Worth);
        assert_eq!(verdict(0.1), Verdict::Worth);
        assert_eq!(verdict(0.4), Verdict::WithinNoise);
    }

    #[test]
    fn all_times_twice_as_long_give_the_same_gain() {
        let gain = |factor: f64| {
            let solo = [
                alone(2.0 * factor, 3.0 / factor, Some(50.0)),
                alone(0.0, 1.0 / factor, Some(9.0)),
            ];
            let beside = [with(3.0 * factor, 2.0 / factor), with(0.0, 0.8 / factor)];
            Compared::of(&solo, &beside, 0.0).gain()
        };
        assert!((gain(1.0) - gain(2.0)).abs() < 1e-12);
    }
}
