//! Alone and together in turns, within one run: some of the commands are held for a moment, so that the others run
//! alone. Nothing is started again and no work is lost, and both sides of a comparison are seconds apart.

use crate::answer::{Alone, Beside, Round};
use crate::bench::Bench;
use crate::error::TrialError;
use crate::others::Watch;
use crate::trial::Told;
use crate::{Command, Rate, Stage, Track};

/// The commands that are compared, and what is known of each alone.
pub(crate) struct Pairing<'a> {
    pub(crate) commands: &'a [&'a Command],
    pub(crate) alone: &'a [Alone],
    /// For each the first one that is equal except for its name.
    pub(crate) kinds: &'a [usize],
    /// Seconds of a window, if every command prints often enough.
    pub(crate) window: f64,
}

/// Seconds after a change that do not count: caches fill again, and what was printed before is read.
const SETTLE: f64 = 0.1;
/// Marks that a window should contain, so that where it begins and ends between two of them matters little.
const MARKS: f64 = 6.0;
/// Seconds of a window beyond which two marks suffice: of scripts that print once in some seconds.
const LONG: f64 = 5.0;
const TWO_MARKS: f64 = 2.2;
/// A window is at most this many times as long as planned: a command that made no progress by then waits for one that
/// is held.
const PATIENCE: f64 = 4.0;

/// Why there is no comparison.
#[derive(Debug)]
pub(crate) enum Gap {
    /// A command ended.
    Ended,
    /// This command makes no progress while others are held.
    Waits(usize),
}

/// Who runs in each window of comparison `number`: all, or only one. Copies of a command take turns in being alone. Every
/// second comparison is in the reverse order, so that a steady drift of the machine cancels.
fn windows(kinds: &[usize], number: usize) -> Vec<Option<usize>> {
    let n = kinds.len();
    let mut order = vec![None];
    for kind in (0..n).filter(|&i| kinds[i] == i) {
        let copies: Vec<usize> = (0..n).filter(|&i| kinds[i] == kind).collect();
        order.push(Some(copies[number % copies.len()]));
    }
    if number % 2 == 1 {
        order.reverse();
    }
    order
}

impl Pairing<'_> {
    /// Seconds of a window: longer if a command has few marks.
    pub(crate) fn length(&self, tracks: &[Track]) -> f64 {
        let longest = tracks.iter().map(|t| t.interval).fold(0.0, f64::max);
        let wanted = self.window.max(MARKS * longest);
        wanted.min(LONG.max(TWO_MARKS * longest).max(self.window))
    }

    /// Seconds of one comparison.
    pub(crate) fn cost(&self, tracks: &[Track]) -> f64 {
        windows(self.kinds, 0).len() as f64 * (self.length(tracks) + SETTLE)
    }

    /// One comparison: all together, and each kind of command alone.
    pub(crate) fn compare(
        &self,
        bench: &mut Bench<'_>,
        stage: &mut Stage,
        number: usize,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<Result<Round, Gap>, TrialError> {
        let n = self.commands.len();
        let mut alone: Vec<Option<Rate>> = vec![None; n];
        let mut beside: Vec<Option<Rate>> = vec![None; n];
        let mut others = 0.0f64;
        for who in windows(self.kinds, number) {
            bench.hold(|index| who.is_some_and(|only| only != index));
            let members: Vec<usize> = match who {
                Some(only) => vec![only],
                None => (0..n).collect(),
            };
            let found = self.window(bench, stage, &members, tell);
            // Whoever is held goes on, whatever happened.
            let (rates, taken) = match found {
                Ok(Ok(found)) => found,
                Ok(Err(gap)) => {
                    bench.hold(|_| false);
                    return Ok(Err(gap));
                }
                Err(error) => return Err(error),
            };
            others = others.max(taken);
            for (&i, rate) in members.iter().zip(rates) {
                match who {
                    None => beside[i] = Some(rate),
                    Some(only) => (0..n)
                        .filter(|&j| self.kinds[j] == self.kinds[only])
                        .for_each(|j| alone[j] = Some(rate)),
                }
            }
        }
        bench.hold(|_| false);
        let (alone, beside) = match (all(alone), all(beside)) {
            (Some(alone), Some(beside)) => (alone, beside),
            _ => return Ok(Err(Gap::Ended)),
        };
        Ok(Ok(self.round(stage, &alone, &beside, others)))
    }

    /// A window in which only the members run: their rates, and the fraction of the processors that others used.
    fn window(
        &self,
        bench: &mut Bench<'_>,
        stage: &mut Stage,
        members: &[usize],
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<Result<(Vec<Rate>, f64), Gap>, TrialError> {
        let length = self.length(&stage.tracks);
        let from = bench.now() + SETTLE;
        let watch = Watch::begin();
        loop {
            bench.turn(self.commands, stage, tell)?;
            if stage.tracks.iter().any(|track| track.ended.is_some()) {
                return Ok(Err(Gap::Ended));
            }
            let now = bench.now();
            if now < from + length {
                continue;
            }
            let rate = |&i: &usize| stage.tracks[i].rate(from, now);
            let rates: Vec<Option<Rate>> = members.iter().map(rate).collect();
            let without = rates.iter().position(Option::is_none);
            match (all(rates), without) {
                (Some(rates), _) => {
                    let others = watch.and_then(Watch::end).unwrap_or(0.0);
                    return Ok(Ok((rates, others)));
                }
                (None, Some(k)) if now > from + PATIENCE * length => {
                    return Ok(Err(Gap::Waits(members[k])));
                }
                _ => {}
            }
        }
    }

    fn round(&self, stage: &Stage, alone: &[Rate], beside: &[Rate], others: f64) -> Round {
        let startup = |i: usize| {
            let (at, work) = stage.tracks[i].first().unwrap_or_default();
            (at - work / beside[i].per_s).max(0.0)
        };
        let known = self.alone.iter().zip(alone);
        Round {
            alone: known
                .map(|(known, &rate)| Alone {
                    rate,
                    whole: None,
                    ..*known
                })
                .collect(),
            beside: (0..beside.len())
                .map(|i| Beside {
                    startup: startup(i),
                    rate: beside[i],
                    whole: None,
                })
                .collect(),
            others,
            gave_up: None,
        }
    }
}

fn all<T>(values: Vec<Option<T>>) -> Option<Vec<T>> {
    values.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::windows;

    #[test]
    fn copies_take_turns_and_the_order_is_reversed() {
        assert_eq!(windows(&[0, 0], 0), [None, Some(0)]);
        assert_eq!(windows(&[0, 0], 1), [Some(1), None]);
        assert_eq!(windows(&[0, 1, 0], 0), [None, Some(0), Some(1)]);
        assert_eq!(windows(&[0, 1, 0], 3), [Some(1), Some(2), None]);
    }
}
