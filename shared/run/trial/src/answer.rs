//! The verdict: compares the stages.

use crate::contrast::{Judged, Sample, Verdict};
use crate::{Rate, Stage, Track};

/// Measurements of a command that ran alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alone {
    /// Seconds before it made progress; 0 if unknown.
    pub startup: f64,
    /// Work per second while it trains.
    pub rate: Rate,
    /// Unit of its work.
    pub unit: &'static str,
    /// Work of the whole run, if known.
    pub total: Option<f64>,
    /// Seconds of the whole run, if it ended during the stage.
    pub whole: Option<f64>,
}

/// Why a command that ran alone cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// It printed no progress, and did not end.
    Silent,
    /// It made no progress after its first report.
    Stuck,
}

/// Unit of work of a command without progress: a whole run.
const RUN: &str = "runs";

impl Alone {
    /// Evaluates the stage in which the command ran alone.
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
                    // The first report comes after the work that it reports.
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

    /// Seconds of the whole run: measured, or start-up plus work at the measured rate.
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

/// Measurements of a command that ran beside the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// Seconds before it made progress.
    pub startup: f64,
    /// Its rate while all commands trained.
    pub rate: Rate,
    /// Seconds of the whole run, if it ended during the stage.
    pub whole: Option<f64>,
}

/// Evaluates a stage in which all commands ran together; `None` for a command without a known rate.
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
        // If a command ended before another began to train, there is no joint time, and its rate over its own training
        // is used.
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

/// Basis of the comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Basis {
    /// Whole runs, with start-up on both sides.
    WholeRuns,
    /// The work that each command does alone in this many seconds, without start-up on either side.
    Seconds(f64),
}

/// One comparison: each command alone and beside the others, measured within seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// Each command alone.
    pub alone: Vec<Alone>,
    /// Each command beside the others.
    pub beside: Vec<Beside>,
    /// Largest fraction of the processors that other programs used in one of the runs.
    pub others: f64,
    /// Seconds after which the commands were stopped together because they had not ended.
    pub gave_up: Option<f64>,
}

/// Serial and concurrent times, and the conclusion.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Kind of comparison.
    pub basis: Basis,
    /// Seconds one after another.
    pub serial: f64,
    /// Seconds all together.
    pub together: f64,
    /// Whether the time together was measured to its end, and not computed from rates.
    pub measured: bool,
    /// Conclusion about `serial / together`.
    pub judged: Judged,
}

/// Seconds of work that are compared if the length of runs is unknown.
const MINUTE: f64 = 60.0;

impl Round {
    /// The basis on which this round can be compared.
    fn basis(&self) -> Basis {
        match self.alone.iter().all(|alone| alone.seconds().is_some()) {
            true => Basis::WholeRuns,
            false => Basis::Seconds(MINUTE),
        }
    }

    /// Seconds one after another and together, and whether the time together was measured.
    fn times(&self, basis: Basis) -> (f64, f64, bool) {
        let Basis::Seconds(work) = basis else {
            let serial = self.alone.iter().filter_map(Alone::seconds).sum();
            let ended: Option<Vec<f64>> = self.beside.iter().map(|b| b.whole).collect();
            let together = match &ended {
                Some(ends) => ends.iter().copied().fold(0.0, f64::max),
                None => makespan(&self.alone, &self.beside, None),
            };
            return (
                serial,
                together.max(self.gave_up.unwrap_or(0.0)),
                ended.is_some(),
            );
        };
        let serial = work * self.alone.len() as f64;
        (
            serial,
            makespan(&self.alone, &self.beside, Some(work)),
            false,
        )
    }

    /// This round as a sample for the decision.
    #[must_use]
    pub fn sample(&self) -> Sample {
        let (serial, together, _) = self.times(self.basis());
        Sample {
            ln_gain: (serial / together).ln(),
            others: self.others,
        }
    }
}

impl Compared {
    /// Evaluates several comparisons of the same commands; `None` if there are none.
    #[must_use]
    pub fn of(rounds: &[Round]) -> Option<Self> {
        let whole = rounds.iter().all(|round| round.basis() == Basis::WholeRuns);
        let basis = match whole {
            true => Basis::WholeRuns,
            false => Basis::Seconds(MINUTE),
        };
        let times: Vec<(f64, f64, bool)> = rounds.iter().map(|r| r.times(basis)).collect();
        let samples = times
            .iter()
            .zip(rounds)
            .map(|((serial, together, _), round)| Sample {
                ln_gain: (serial / together).ln(),
                others: round.others,
            });
        let judged = Judged::of(&samples.collect::<Vec<_>>())?;
        let serial = times.iter().map(|(serial, ..)| serial).sum::<f64>() / times.len() as f64;
        Some(Self {
            basis,
            serial,
            together: serial / judged.mean.exp(),
            measured: times.iter().all(|(.., measured)| *measured),
            judged,
        })
    }

    /// Relative speed-up of running together: 0.5 means 50 % faster; negative if it is slower.
    #[must_use]
    pub fn gain(&self) -> f64 {
        self.judged.mean.exp() - 1.0
    }

    /// Ends of the confidence interval of the gain. They lie unequally far from it, since logarithms are judged.
    #[must_use]
    pub fn interval(&self) -> (f64, f64) {
        let end = |log: f64| log.exp() - 1.0;
        let (mean, half) = (self.judged.mean, self.judged.half);
        (end(mean - half), end(mean + half))
    }

    /// The verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.judged.verdict()
    }
}

/// Means over several comparisons, for each command alone and beside the others.
#[must_use]
pub fn means(rounds: &[Round]) -> (Vec<Alone>, Vec<Beside>) {
    let Some(first) = rounds.first() else {
        return Default::default();
    };
    let n = rounds.len() as f64;
    let mean = |value: &dyn Fn(&Round) -> f64| rounds.iter().map(value).sum::<f64>() / n;
    let whole = |value: &dyn Fn(&Round) -> Option<f64>| {
        let all: Option<Vec<f64>> = rounds.iter().map(value).collect();
        all.map(|all| all.iter().sum::<f64>() / n)
    };
    let alone = first.alone.iter().enumerate().map(|(i, alone)| Alone {
        startup: mean(&|r| r.alone[i].startup),
        rate: Rate {
            per_s: mean(&|r| r.alone[i].rate.per_s),
            ..alone.rate
        },
        whole: whole(&|r| r.alone[i].whole),
        ..*alone
    });
    let beside = first.beside.iter().enumerate().map(|(i, beside)| Beside {
        startup: mean(&|r| r.beside[i].startup),
        rate: Rate {
            per_s: mean(&|r| r.beside[i].rate.per_s),
            ..beside.rate
        },
        whole: whole(&|r| r.beside[i].whole),
    });
    (alone.collect(), beside.collect())
}

/// Makespan of the commands together, in seconds. `seconds`: each does the work that takes this long alone, without
/// start-up; `None`: whole runs.
///
/// When a command has ended, the others speed up. If more than one is left, their speed was not measured; the time per
/// unit of work is then interpolated linearly between the value beside all others and the value alone.
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
            let solo = 1.0 / alone[i].rate.per_s;
            let joint = 1.0 / beside[i].rate.per_s;
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
        Rate { per_s, marks: 100 }
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

    fn compared(alone: &[Alone], beside: &[Beside]) -> Compared {
        let round = Round {
            alone: alone.to_vec(),
            beside: beside.to_vec(),
            others: 0.0,
            gave_up: None,
        };
        Compared::of(&vec![round; 5]).unwrap()
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
    }

    #[test]
    fn start_up_is_on_both_sides_of_whole_runs() {
        let solo = alone(20.0, 1.0, Some(20.0));
        let compared = compared(&[solo; 2], &[with(20.0, 0.5); 2]);
        assert_eq!(compared.basis, Basis::WholeRuns);
        near(compared.serial, 80.0);
        near(compared.together, 60.0);
        assert_eq!(compared.verdict(), Verdict::Worth);
    }

    #[test]
    fn and_on_neither_where_a_length_is_unknown() {
        let known = alone(20.0, 1.0, Some(20.0));
        let endless = alone(3.0, 7.0, None);
        let compared = compared(&[known, endless], &[with(20.0, 0.5), with(3.0, 3.5)]);
        assert_eq!(compared.basis, Basis::Seconds(60.0));
        near(compared.serial, 120.0);
        near(compared.together, 120.0);
        assert_eq!(compared.verdict(), Verdict::WithinNoise);
    }

    #[test]
    fn who_is_left_goes_on_at_the_speed_alone() {
        let (short, long) = (alone(0.0, 1.0, Some(10.0)), alone(0.0, 1.0, Some(40.0)));
        // 20 s at half speed for both, then 30 units at full speed.
        near(
            compared(&[short, long], &[with(0.0, 0.5); 2]).together,
            50.0,
        );
        let slower = compared(&[short, long], &[with(0.0, 0.4); 2]);
        near(slower.together, 55.0);
        assert_eq!(slower.verdict(), Verdict::NotWorth);
    }

    #[test]
    fn all_times_twice_as_long_give_the_same_gain() {
        let gain = |factor: f64| {
            let solo = [
                alone(2.0 * factor, 3.0 / factor, Some(50.0)),
                alone(0.0, 1.0 / factor, Some(9.0)),
            ];
            let beside = [with(3.0 * factor, 2.0 / factor), with(0.0, 0.8 / factor)];
            compared(&solo, &beside).gain()
        };
        assert!((gain(1.0) - gain(2.0)).abs() < 1e-12);
    }
}
