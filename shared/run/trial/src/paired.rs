//! Alone and together in turns, within one run: some of the commands are held for a moment, so that the others run
//! alone. Nothing is started again and no work is lost, and both sides of a comparison are seconds apart.

use crate::answer::{Alone, Beside, Round};
use crate::others::Watch;
use crate::playing::Turn;
use crate::{Rate, Stage, Track};

/// Commands that are compared, and what is known of each alone.
pub(crate) struct Pairing {
    pub(crate) alone: Vec<Alone>,
    /// For each the first one that is equal except for its name.
    pub(crate) kinds: Vec<usize>,
    /// Seconds of a window, if every command prints often enough.
    pub(crate) window: f64,
}

/// A comparison under way: all together, and each kind of command alone.
pub(crate) struct Comparison {
    /// Who runs alone in each window; `None`: all together.
    order: Vec<Option<usize>>,
    /// Windows that are over.
    done: usize,
    window: Option<Window>,
    alone: Vec<Option<Rate>>,
    beside: Vec<Option<Rate>>,
    others: f64,
}

/// A time in which only some of the commands run.
struct Window {
    from: f64,
    length: f64,
    watch: Option<Watch>,
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

impl Pairing {
    /// Seconds of a window: longer if a command has few marks.
    pub(crate) fn length(&self, tracks: &[Track]) -> f64 {
        let longest = tracks.iter().map(|t| t.interval).fold(0.0, f64::max);
        let wanted = self.window.max(MARKS * longest);
        wanted.min(LONG.max(TWO_MARKS * longest).max(self.window))
    }

    /// Seconds of one comparison.
    pub(crate) fn cost(&self, tracks: &[Track]) -> f64 {
        windows(&self.kinds, 0).len() as f64 * (self.length(tracks) + SETTLE)
    }

    /// Begins a comparison.
    pub(crate) fn begin(&self, number: usize) -> Comparison {
        let none = || vec![None; self.alone.len()];
        Comparison {
            order: windows(&self.kinds, number),
            done: 0,
            window: None,
            alone: none(),
            beside: none(),
            others: 0.0,
        }
    }

    /// A turn of a comparison: its result, when there is one. Then nobody is held.
    pub(crate) fn turn(
        &self,
        comparison: &mut Comparison,
        turn: &mut Turn<'_>,
    ) -> Option<Result<Round, Gap>> {
        let found = self.window(comparison, turn);
        if found.is_some() {
            turn.hold(|_| false);
        }
        found
    }

    fn window(
        &self,
        comparison: &mut Comparison,
        turn: &mut Turn<'_>,
    ) -> Option<Result<Round, Gap>> {
        if turn.stage.tracks.iter().any(|track| track.ended.is_some()) {
            return Some(Err(Gap::Ended));
        }
        let Some(&only) = comparison.order.get(comparison.done) else {
            return Some(comparison.round(self, turn.stage));
        };
        // What was done during a pause, and when, is not known.
        if turn.was_paused {
            comparison.window = None;
        }
        let now = turn.now;
        let Some(window) = &comparison.window else {
            turn.hold(|index| only.is_some_and(|only| only != index));
            comparison.window = Some(Window {
                from: now + SETTLE,
                length: self.length(&turn.stage.tracks),
                watch: Watch::begin(),
            });
            return None;
        };
        if now < window.from + window.length {
            return None;
        }
        let members = only.map_or(0..self.alone.len(), |only| only..only + 1);
        let rate = |i: usize| turn.stage.tracks[i].rate(window.from, now);
        let rates: Vec<Option<Rate>> = members.clone().map(rate).collect();
        if let Some(without) = rates.iter().position(Option::is_none) {
            let waits = now > window.from + PATIENCE * window.length;
            return waits.then_some(Err(Gap::Waits(members.start + without)));
        }
        let others = window.watch.and_then(Watch::end).unwrap_or(0.0);
        comparison.others = comparison.others.max(others);
        for (i, rate) in members.zip(rates) {
            match only {
                None => comparison.beside[i] = rate,
                Some(only) => (0..self.kinds.len())
                    .filter(|&j| self.kinds[j] == self.kinds[only])
                    .for_each(|j| comparison.alone[j] = rate),
            }
        }
        comparison.done += 1;
        comparison.window = None;
        self.window(comparison, turn)
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

impl Comparison {
    fn round(&mut self, pairing: &Pairing, stage: &Stage) -> Result<Round, Gap> {
        let take = |rates: &mut Vec<_>| all(std::mem::take(rates)).ok_or(Gap::Ended);
        let (alone, beside) = (take(&mut self.alone)?, take(&mut self.beside)?);
        Ok(pairing.round(stage, &alone, &beside, self.others))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::shared::Seen;
    use crate::stage::Limits;

    #[test]
    fn copies_take_turns_and_the_order_is_reversed() {
        assert_eq!(windows(&[0, 0], 0), [None, Some(0)]);
        assert_eq!(windows(&[0, 0], 1), [Some(1), None]);
        assert_eq!(windows(&[0, 1, 0], 0), [None, Some(0), Some(1)]);
        assert_eq!(windows(&[0, 1, 0], 3), [Some(1), Some(2), None]);
    }

    /// Compares two copies that make twenty steps a second together and forty alone, with a pause of everything in each
    /// window; returns the rates together and alone.
    fn compared(pause: f64) -> (f64, f64) {
        let limits = Limits {
            window: 1.0,
            ahead: 0.0,
            limit: f64::INFINITY,
        };
        let mut stage = Stage::new(vec![Track::default(); 2], limits);
        let rate = Rate {
            per_s: 20.0,
            marks: 9,
        };
        let alone = Alone {
            startup: 0.0,
            rate,
            unit: "steps",
            total: None,
            whole: None,
        };
        let pairing = Pairing {
            alone: vec![alone; 2],
            kinds: vec![0, 0],
            window: 1.0,
        };
        let mut comparison = pairing.begin(0);
        let (seen, mut held, mut waiting) = (Seen::default(), BTreeSet::new(), BTreeSet::new());
        let (mut now, mut done, mut paused) = (0.0, [0; 2], BTreeSet::new());
        loop {
            let was_paused = done[0] > 14 && paused.insert(held.clone());
            now += if was_paused { pause } else { 0.05 };
            for (index, track) in stage.tracks.iter_mut().enumerate() {
                if !was_paused && !held.contains(&index) {
                    done[index] += if held.is_empty() { 1 } else { 2 };
                    let line = format!("step {}", done[index]);
                    track.detector.line(now, line.as_bytes());
                }
            }
            let mut turn = Turn {
                now,
                stage: &mut stage,
                seen: &seen,
                was_paused,
                tell: &mut |_| {},
                held: &mut held,
                waiting: &mut waiting,
                is_over: false,
            };
            if let Some(round) = pairing.turn(&mut comparison, &mut turn) {
                let round = round.unwrap();
                assert!(held.is_empty() && paused.len() == 2);
                return (round.beside[0].rate.per_s, round.alone[0].rate.per_s);
            }
        }
    }

    #[test]
    fn a_pause_of_the_machine_does_not_change_what_is_compared() {
        let (together, alone) = compared(3.0);
        assert!((together - 20.0).abs() < 1.0, "{together}");
        assert!((alone - 40.0).abs() < 1.0, "{alone}");
    }
}
