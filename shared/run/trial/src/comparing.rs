//! Compares commands alone and together: in turns within one run, or by repeated runs.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::answer::{Alone, Beside, Compared, Round, Unknown, beside, means};
use crate::bench::{Bench, Log};
use crate::command::kinds;
use crate::contrast::{Sample, more};
use crate::error::TrialError;
use crate::others::Watch;
use crate::paired::{Gap, Pairing};
use crate::playing::Turn;
use crate::shared::Waits;
use crate::stage::Limits;
use crate::trial::{Group, Told, TrialSettings};
use crate::{Command, Stage, Track};

/// Commands that run together are stopped after this many times their serial time.
const PATIENCE: f64 = 1.2;
/// Fraction of the window for the first run of a command alone. This run only shows the counter, the start-up and the
/// speed of the command; the comparison comes later.
const FIRST: f64 = 0.4;
/// Windows of a comparison within one run are this fraction of the window: about a second, and at least [`SHORTEST`].
const PART: f64 = 1.0 / 16.0;
/// Shortest window in seconds: processor time is counted in hundredths of a second.
const SHORTEST: f64 = 0.5;
/// Comparisons within one run are made only if the shortest run is long enough for this many of them.
const ROOM: f64 = 4.0;
/// Total time, in windows, for comparisons within one run, and for comparisons of repeated runs.
const WITHIN: f64 = 1.5;
const REPEATED: f64 = 3.0;
/// A command counts as having waited for another's end if it took at least this many times its time alone, while
/// another command took at most [`UNDISTURBED`] times its time alone.
const WAITED: f64 = 1.7;
const UNDISTURBED: f64 = 1.2;
/// Minimum seconds of such a wait: the start and the end of a process vary by hundredths of a second, and by a tenth on
/// a busy machine.
const WAIT: f64 = 0.2;

/// The commands of a trial, with the measurements so far.
pub(crate) struct Trying<'a> {
    pub(crate) bench: Bench<'a>,
    pub(crate) settings: &'a TrialSettings,
    pub(crate) commands: &'a [Command],
    /// For each command, the index of the first command that is equal except for its name.
    pub(crate) kinds: Vec<usize>,
    /// Each command alone, with its progress.
    pub(crate) known: Vec<(Alone, Track)>,
    pub(crate) waits: Vec<Waits>,
}

impl Trying<'_> {
    /// Runs a stage until it has enough data.
    fn play(
        &mut self,
        who: &[&Command],
        stage: &mut Stage,
        log: Log,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<f64, TrialError> {
        let mut each = |turn: &mut Turn<'_>| turn.is_over = turn.stage.is_over(turn.now);
        self.bench.play(who, stage, log, tell, &mut each)
    }

    /// Runs a command alone. Also returns the fraction of the processors that other programs used.
    pub(crate) fn alone(
        &mut self,
        index: usize,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<((Alone, Track), f64), TrialError> {
        let command = &self.commands[index];
        let limits = Limits {
            window: FIRST * self.settings.window,
            ahead: self.settings.window,
            limit: self.settings.limit,
        };
        let mut stage = Stage::new(vec![Track::default()], limits);
        let watch = Watch::begin();
        let seconds = self.play(&[command], &mut stage, Log::Alone, tell)?;
        let others = watch.and_then(Watch::end).unwrap_or(0.0);
        let track = stage.tracks.remove(0);
        let alone = Alone::of(&track).map_err(|why| TrialError::Unknown {
            id: command.id.clone(),
            why,
            beside: false,
            seconds,
        })?;
        Ok(((alone, track), others))
    }

    /// Compares some of the commands: within one run if they print progress for long enough, otherwise by repeated
    /// runs.
    pub(crate) fn group(
        &mut self,
        members: &[usize],
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<Group, TrialError> {
        let commands = self.commands;
        let who: Vec<&Command> = members.iter().map(|&i| &commands[i]).collect();
        let alone: Vec<Alone> = members.iter().map(|&i| self.known[i].0).collect();
        let tracks: Vec<Track> = members
            .iter()
            .map(|&i| self.known[i].1.beside_others())
            .collect();
        let pairing = Pairing {
            alone: alone.clone(),
            kinds: kinds(&who.iter().copied().cloned().collect::<Vec<_>>()),
            window: (PART * self.settings.window).max(SHORTEST),
            probe: None,
        };
        let wholes: Vec<Option<f64>> = alone.iter().map(Alone::seconds).collect();
        let needed = |a: &Alone| a.startup + ROOM * pairing.cost(&tracks);
        let is_long = |(a, whole): (&Alone, &Option<f64>)| whole.is_none_or(|s| s > needed(a));
        let within = alone.iter().all(|a| !a.is_silent()) && alone.iter().zip(&wholes).all(is_long);
        let mut rounds = Vec::new();
        let mut joint = 0.0;
        // A run may end before its comparisons decide. The next run adds to them.
        let mut since = None;
        let mut goes_on = within;
        while goes_on {
            let before = rounds.len();
            if before > 0 {
                tell(Told::Again(who.clone()));
            }
            let (seconds, undecided) = self.within(
                &who,
                &pairing,
                tracks.clone(),
                &mut rounds,
                &mut since,
                tell,
            )?;
            joint += seconds;
            goes_on = undecided && rounds.len() > before;
        }
        if rounds.is_empty() {
            (rounds, joint) = self.repeated(members, &alone, tell)?;
        }
        let (alone, beside) = means(&rounds);
        let none = || TrialError::Unknown {
            id: who[0].id.clone(),
            why: Unknown::Silent,
            beside: true,
            seconds: 0.0,
        };
        Ok(Group {
            alone,
            beside,
            compared: Compared::of(&rounds).ok_or_else(none)?,
            gave_up: rounds.iter().all(|round| round.gave_up.is_some()),
            joint,
        })
    }

    /// Comparisons within one run, added to `rounds`; `since`: when the first of all runs began to compare, so that
    /// further start-ups count. Returns the seconds in which all trained, and whether a command ended before the
    /// comparisons had decided.
    fn within(
        &mut self,
        who: &[&Command],
        pairing: &Pairing,
        tracks: Vec<Track>,
        rounds: &mut Vec<Round>,
        since: &mut Option<Instant>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(f64, bool), TrialError> {
        let limit = self.settings.limit + pairing.alone.iter().map(|a| a.startup).sum::<f64>();
        let window = pairing.length(&tracks);
        let mut stage = Stage::new(
            tracks,
            Limits {
                window,
                ahead: 0.0,
                limit,
            },
        );
        let mut from = None;
        let mut comparison = None;
        let mut waits = None;
        let mut undecided = false;
        let at_least = WITHIN * self.settings.window;
        let mut each = |turn: &mut Turn<'_>| {
            if from.is_none() && !turn.stage.is_over(turn.now) {
                return;
            }
            let tracks = &turn.stage.tracks;
            from.get_or_insert(turn.now);
            let spent = since.get_or_insert_with(Instant::now).elapsed();
            let is_over = spent.as_secs_f64() > at_least.max(2.0 * pairing.cost(tracks));
            let samples: Vec<Sample> = rounds.iter().map(Round::sample).collect();
            let has_ended = tracks.iter().any(|t| t.ended.is_some());
            let is_open = more(&samples, is_over);
            undecided = has_ended && is_open;
            let trains = turn.stage.joint().is_some() && !has_ended;
            if comparison.is_none() && !(trains && is_open) {
                turn.is_over = true;
                return;
            }
            let under_way = comparison.get_or_insert_with(|| pairing.begin(rounds.len(), turn.now));
            let Some(found) = pairing.turn(under_way, turn) else {
                return;
            };
            comparison = None;
            match found {
                Ok(round) => return rounds.push(round),
                Err(Gap::Ended | Gap::Rare) => {}
                Err(Gap::Waits(index)) => waits = Some(index),
            }
            turn.is_over = true;
        };
        let seconds = self
            .bench
            .play(who, &mut stage, Log::Together, tell, &mut each)?;
        self.waits.extend(waits.map(|index| Waits {
            id: who[index].id.clone(),
            what: None,
            part: 1.0,
        }));
        Ok((seconds - from.unwrap_or(seconds), undecided))
    }

    /// Comparisons of repeated runs in the order alone, together, together, alone, ..., so that a linear drift of the
    /// machine cancels.
    fn repeated(
        &mut self,
        members: &[usize],
        first: &[Alone],
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(Vec<Round>, f64), TrialError> {
        let began = Instant::now();
        let mut rounds: Vec<Round> = Vec::new();
        let mut joint = 0.0;
        let samples = |rounds: &[Round]| rounds.iter().map(Round::sample).collect::<Vec<_>>();
        while more(
            &samples(&rounds),
            began.elapsed().as_secs_f64() > REPEATED * self.settings.window,
        ) {
            let mut alone = first.to_vec();
            let mut others = 0.0f64;
            if !rounds.is_empty() && rounds.len().is_multiple_of(2) {
                others = self.again(members, &mut alone, tell)?;
            }
            if !rounds.is_empty() {
                tell(Told::Again(
                    members.iter().map(|&i| &self.commands[i]).collect(),
                ));
            }
            let (beside, taken, gave_up, seconds) = self.beside(members, &alone, tell)?;
            joint += seconds;
            others = others.max(taken);
            if rounds.len() % 2 == 1 {
                others = others.max(self.again(members, &mut alone, tell)?);
            }
            rounds.push(Round {
                alone,
                beside,
                others,
                gave_up,
            });
        }
        Ok((rounds, joint))
    }

    /// Runs each kind of command alone once more. Also returns the largest fraction of the processors that other
    /// programs used.
    fn again(
        &mut self,
        members: &[usize],
        alone: &mut [Alone],
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<f64, TrialError> {
        let mut found: BTreeMap<usize, Alone> = BTreeMap::new();
        let mut others = 0.0f64;
        for (&index, place) in members.iter().zip(alone) {
            let kind = self.kinds[index];
            if let Some(alone) = found.get(&kind) {
                *place = *alone;
                continue;
            }
            tell(Told::Again(vec![&self.commands[kind]]));
            let ((alone, _), taken) = self.alone(kind, tell)?;
            others = others.max(taken);
            found.insert(kind, alone);
            *place = alone;
        }
        Ok(others)
    }

    /// Runs some of the commands together once. Returns the measurements of each, the fraction of the processors that
    /// other programs used, the time at which they were stopped because sharing had already lost, and the seconds in
    /// which all trained.
    fn beside(
        &mut self,
        members: &[usize],
        alone: &[Alone],
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(Vec<Beside>, f64, Option<f64>, f64), TrialError> {
        let commands = self.commands;
        let who: Vec<&Command> = members.iter().map(|&i| &commands[i]).collect();
        let wholes: Option<Vec<f64>> = alone.iter().map(Alone::seconds).collect();
        let serial = wholes.map(|wholes| wholes.iter().sum::<f64>());
        let startup = alone.iter().map(|a| a.startup).fold(0.0, f64::max);
        // Commands without progress may run until sharing has lost.
        let limit = self.settings.limit;
        let patience = serial.map_or(limit + startup, |serial| serial * PATIENCE);
        let tracks = members.iter().map(|&i| self.known[i].1.beside_others());
        let limits = Limits {
            window: self.settings.window,
            ahead: self.settings.window,
            limit: limit.max(patience),
        };
        let mut stage = Stage::new(tracks.collect(), limits);
        let watch = Watch::begin();
        let seconds = self.play(&who, &mut stage, Log::Together, tell)?;
        let others = watch.and_then(Watch::end).unwrap_or(0.0);
        let gave_up = serial.is_some_and(|serial| seconds >= serial * PATIENCE)
            && stage.tracks.iter().any(|track| track.ended.is_none());
        let found = beside(&stage, alone).into_iter().zip(alone).zip(&who);
        let beside: Result<Vec<Beside>, TrialError> = found
            .map(|((one, alone), command)| match one {
                Some(one) => Ok(one),
                None if gave_up => Ok(Beside {
                    startup: alone.startup,
                    rate: alone.rate,
                    whole: None,
                }),
                None => Err(TrialError::Unknown {
                    id: command.id.clone(),
                    why: Unknown::Silent,
                    beside: true,
                    seconds,
                }),
            })
            .collect();
        self.waits.extend(waited(&stage, alone, &who));
        let until = stage.first_end().min(seconds);
        let joint = (until - stage.joint().unwrap_or(0.0)).max(0.0);
        Ok((beside?, others, gave_up.then_some(seconds), joint))
    }
}

/// A command that began only when another had ended, although they were started together; `None` if there is none.
fn waited(stage: &Stage, alone: &[Alone], who: &[&Command]) -> Option<Waits> {
    let wholes: Vec<(f64, f64)> = stage
        .tracks
        .iter()
        .zip(alone)
        .map(|(t, a)| Some((t.whole()?, a.whole?)))
        .collect::<Option<_>>()?;
    let last = behind(&wholes)?;
    let first_end = stage.first_end();
    // A command without output can only be recognised by its duration.
    let idle = stage.tracks[last]
        .first()
        .is_none_or(|(at, _)| at >= first_end);
    idle.then(|| Waits {
        id: who[last].id.clone(),
        what: None,
        part: 1.0,
    })
}

/// Index of the command that was held up while another was not, by the seconds of their whole runs, together and alone.
fn behind(wholes: &[(f64, f64)]) -> Option<usize> {
    let undisturbed = |(whole, alone): &(f64, f64)| *whole <= UNDISTURBED * alone;
    let held_up = |(whole, alone): &(f64, f64)| *whole >= (WAITED * alone).max(alone + WAIT);
    let last = wholes.iter().position(held_up)?;
    wholes.iter().any(undisturbed).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_another_command_is_longer_than_a_start_up_varies() {
        assert_eq!(behind(&[(2.6, 2.5), (5.0, 2.5)]), Some(1));
        assert_eq!(behind(&[(5.0, 2.5), (5.0, 2.5)]), None);
        assert_eq!(behind(&[(0.013, 0.013), (0.040, 0.013)]), None);
    }
}
