//! Compares alone and together in turns within one run: stops some of the commands briefly, so that another runs alone.
//! Nothing is restarted and no work is lost, and the two sides of a comparison are only seconds apart.

use crate::answer::{Alone, Beside, Round};
use crate::others::Watch;
use crate::playing::Turn;
use crate::{Rate, Stage, Track};

/// Commands that are compared, with the measurements of each alone.
pub(crate) struct Pairing {
    pub(crate) alone: Vec<Alone>,
    /// For each command, the index of the first command that is equal except for its name.
    pub(crate) kinds: Vec<usize>,
    /// Length of a window in seconds, if every command prints often enough.
    pub(crate) window: f64,
}

/// A comparison in progress: all together, and each kind of command alone.
pub(crate) struct Comparison {
    /// The command that runs alone in each window; `None`: all together.
    order: Vec<Option<usize>>,
    /// Number of completed windows.
    done: usize,
    window: Option<Window>,
    alone: Vec<Option<Rate>>,
    beside: Vec<Option<Rate>>,
    others: f64,
}

/// A period in which a fixed set of the commands runs.
struct Window {
    from: f64,
    length: f64,
    watch: Option<Watch>,
}

/// Seconds after a change that do not count, in which caches fill again and earlier output is read.
const SETTLE: f64 = 0.1;
/// Number of marks that a window should contain, so that the positions of its ends between two marks matter little.
const MARKS: f64 = 6.0;
/// Length of a window, in seconds, beyond which two marks suffice; for scripts that print once in some seconds.
const LONG: f64 = 5.0;
const TWO_MARKS: f64 = 2.2;
/// Maximum length of a window relative to the plan: a command without progress by then is waiting for a stopped one.
const PATIENCE: f64 = 4.0;

/// Why there is no comparison.
#[derive(Debug)]
pub(crate) enum Gap {
    /// A command ended.
    Ended,
    /// This command makes no progress while others are stopped.
    Waits(usize),
}

/// The command that runs alone in each window of comparison `number`; `None`: all run. Copies of a command take turns
/// in running alone. Every second comparison has the reverse order, so that a linear drift of the machine cancels.
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
    /// Length of a window in seconds; longer if a command prints rarely.
    pub(crate) fn length(&self, tracks: &[Track]) -> f64 {
        let longest = tracks.iter().map(|t| t.interval).fold(0.0, f64::max);
        let wanted = self.window.max(MARKS * longest);
        wanted.min(LONG.max(TWO_MARKS * longest).max(self.window))
    }

    /// Duration of one comparison in seconds.
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

    /// Handles a turn of a comparison. Returns the result when the comparison is over; then no command is stopped.
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
        // The progress during a pause, and its times, are unknown.
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

    /// Compares two copies that make twenty steps a second together and forty alone, with a pause of the whole machine
    /// in each window; returns the rates together and alone.
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
