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
    /// For commands that print too rarely for such windows: maximum seconds of each alone, to see whether it is many
    /// times as fast.
    pub(crate) probe: Option<f64>,
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
    /// When it began.
    began: f64,
    /// Seconds in which a command ran alone.
    pub(crate) alone_s: f64,
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
    /// A probe ended before a command alone had printed enough.
    Rare,
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

    /// Number of commands that run alone in a comparison.
    pub(crate) fn count(&self) -> usize {
        windows(&self.kinds, 0).len() - 1
    }

    /// Maximum seconds of each of them, if they may run alone for `spare` seconds in all.
    pub(crate) fn longest(&self, spare: f64) -> f64 {
        spare / self.count() as f64 - SETTLE
    }

    /// Begins a comparison at `now`.
    pub(crate) fn begin(&self, number: usize, now: f64) -> Comparison {
        let none = || vec![None; self.alone.len()];
        // A probe ends together: the speeds alone tell for how long.
        let reversed = number | usize::from(self.probe.is_some());
        Comparison {
            order: windows(&self.kinds, reversed),
            done: 0,
            window: None,
            alone: none(),
            beside: none(),
            others: 0.0,
            began: now,
            alone_s: 0.0,
        }
    }

    /// Length of a probe's window together, in seconds: if together gains nothing, every command makes [`MARKS`] marks.
    fn even(&self, comparison: &Comparison, tracks: &[Track]) -> f64 {
        let n = self.alone.len() as f64;
        let interval = |(track, alone): (&Track, &Option<Rate>)| {
            Some(track.work_per_mark()? / alone.as_ref()?.per_s)
        };
        let all = tracks.iter().zip(&comparison.alone).filter_map(interval);
        (MARKS * n * all.fold(0.0, f64::max)).max(self.window)
    }

    /// Whether a window is over; of a probe, a window alone is over as soon as it has enough marks.
    fn is_over(&self, window: &Window, only: Option<usize>, turn: &Turn<'_>) -> bool {
        let seconds = turn.now - window.from;
        let Some((index, _)) = only.zip(self.probe) else {
            return seconds >= window.length;
        };
        let rate = turn.stage.tracks[index].rate(window.from, turn.now);
        seconds >= self.window && rate.is_some_and(|rate| rate.marks as f64 > MARKS)
    }

    /// The rate of a command together with the others in a probe: the higher one of before the probe and of its window,
    /// because a pause of the command, as for an evaluation, must not count as a loss. In a window with fewer than two
    /// marks, the next mark is assumed to be due.
    fn at_most(comparison: &Comparison, track: &Track, from: f64, now: f64) -> Option<Rate> {
        let before = track.rate(0.0, comparison.began)?;
        let within = track.rate(from, now).map_or_else(
            || Some(2.0 * track.work_per_mark()? / (now - from)),
            |rate| Some(rate.per_s),
        );
        Some(Rate {
            per_s: before.per_s.max(within?),
            ..before
        })
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
            let tracks = &turn.stage.tracks;
            let length = match self.probe {
                Some(_) if only.is_none() => self.even(comparison, tracks),
                Some(most) => most,
                None => self.length(tracks),
            };
            comparison.window = Some(Window {
                from: now + SETTLE,
                length,
                watch: Watch::begin(),
            });
            return None;
        };
        if !self.is_over(window, only, turn) {
            let is_rare = self.probe.is_some() && now > window.from + window.length;
            comparison.alone_s += if is_rare { window.length } else { 0.0 };
            return is_rare.then_some(Err(Gap::Rare));
        }
        let members = only.map_or(0..self.alone.len(), |only| only..only + 1);
        let rate = |i: usize| {
            let track = &turn.stage.tracks[i];
            match only.is_none() && self.probe.is_some() {
                true => Self::at_most(comparison, track, window.from, now),
                false => track.rate(window.from, now),
            }
        };
        let rates: Vec<Option<Rate>> = members.clone().map(rate).collect();
        if let Some(without) = rates.iter().position(Option::is_none) {
            let waits = now > window.from + PATIENCE * window.length;
            return waits.then_some(Err(Gap::Waits(members.start + without)));
        }
        let others = window.watch.and_then(Watch::end).unwrap_or(0.0);
        comparison.others = comparison.others.max(others);
        comparison.alone_s += only.map_or(0.0, |_| now - window.from);
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
        let alone = take(&mut self.alone)?;
        let beside = take(&mut self.beside)?;
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

    /// Compares two copies that make this many steps a second together and alone, with a pause of the whole machine in
    /// each window; returns the rates together and alone.
    fn compared(per_s: [f64; 2], pause: f64, probe: Option<f64>) -> Result<(f64, f64), Gap> {
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
            probe,
        };
        let begins = 2.5 / per_s[0];
        let mut comparison = pairing.begin(0, begins);
        let (seen, mut held, mut waiting) = (Seen::default(), BTreeSet::new(), BTreeSet::new());
        let (mut now, mut done, mut paused) = (0.0, [0.0f64; 2], BTreeSet::new());
        loop {
            let was_paused = now > begins + 0.7 && pause > 0.0 && paused.insert(held.clone());
            now += if was_paused { pause } else { 0.05 };
            for (index, track) in stage.tracks.iter_mut().enumerate() {
                if was_paused || held.contains(&index) {
                    continue;
                }
                let before = done[index].floor();
                done[index] += 0.05 * per_s[usize::from(!held.is_empty())];
                if done[index].floor() > before {
                    let line = format!("step {}", done[index].floor());
                    track.detector.line(now, line.as_bytes());
                }
            }
            if now < begins {
                continue;
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
                assert!(held.is_empty() && (pause == 0.0 || paused.len() == 2));
                return round.map(|r| (r.beside[0].rate.per_s, r.alone[0].rate.per_s));
            }
        }
    }

    #[test]
    fn a_pause_of_the_machine_does_not_change_what_is_compared() {
        let (together, alone) = compared([20.0, 40.0], 3.0, None).unwrap();
        assert!((together - 20.0).abs() < 1.0, "{together}");
        assert!((alone - 40.0).abs() < 1.0, "{alone}");
    }

    #[test]
    fn a_probe_tells_whether_one_alone_is_many_times_as_fast() {
        let (together, alone) = compared([0.15, 4.0], 0.0, Some(3.0)).unwrap();
        assert!((alone - 4.0).abs() < 0.5, "{alone}");
        assert!(together < alone / 4.0, "{together}");
        let rare = compared([0.15, 0.3], 0.0, Some(3.0));
        assert!(matches!(rare, Err(Gap::Rare)), "{rare:?}");
    }
}
