//! Runs commands to their end, together at first. The run itself shows whether that is worth it: now and then all but
//! one are held for a moment. If it is not worth it, those that are held wait until the others have ended. Nothing is
//! started twice, so nothing is lost.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jobs::Signals;

use crate::answer::{Alone, Compared, Round};
use crate::bench::{Bench, Log};
use crate::command::kinds;
use crate::contrast::{Verdict, more};
use crate::error::TrialError;
use crate::paired::Pairing;
use crate::stage::Limits;
use crate::trial::{Told, Work};
use crate::{Command, Ended, Stage, Track};

/// Fraction of the whole time for which commands may run alone only to be compared. It is lost if sharing doubles the
/// speed, and half of it on two processors.
const SPENT: f64 = 0.05;
/// Seconds that a run of unknown length is taken to last, at least.
const MINUTE: f64 = 60.0;
/// Seconds of a window: processor time is counted in hundredths of them.
const WINDOW: f64 = 0.5;
/// Marks of every command before the first comparison: the first steps are slower than the others.
const WARM: u64 = 5;

/// Runs commands to their end.
///
/// # Errors
/// A signal, or that this machine cannot run them. A command that fails is none. No process is left running.
pub fn work(
    commands: &[Command],
    folder: &Path,
    signals: Signals,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Work, TrialError> {
    let who: Vec<&Command> = commands.iter().collect();
    let mut bench = Bench::open(folder, signals)?;
    tell(Told::Place(bench.place.clone()));
    tell(Told::Begins(1, 1, who.clone()));
    let limits = Limits {
        window: f64::INFINITY,
        ahead: 0.0,
        limit: f64::INFINITY,
    };
    let mut working = Working {
        kinds: kinds(commands),
        stage: Stage::new(vec![Track::default(); commands.len()], limits),
        rounds: Vec::new(),
        alone_s: 0.0,
        open: commands.len() > 1,
        in_turns: None,
        again: BTreeSet::new(),
        told: BTreeSet::new(),
    };
    bench.begin(&who, Log::Work)?;
    while working
        .stage
        .tracks
        .iter()
        .any(|track| track.ended.is_none())
    {
        bench.turn(&who, &mut working.stage, tell)?;
        working.warn(&bench, tell);
        working.compare(&who, &mut bench, tell)?;
        working.next(&mut bench);
        working.restart(&who, &mut bench, tell)?;
    }
    let seconds = bench.now();
    bench.close(tell);
    let tracks = working.stage.tracks.into_iter();
    Ok(Work {
        commands: commands.to_vec(),
        ended: tracks.filter_map(|track| track.ended).collect(),
        logs: who
            .iter()
            .map(|command| bench.log(command, Log::Work))
            .collect(),
        seconds,
        compared: Compared::of(&working.rounds),
        in_turns: working.in_turns,
    })
}

struct Working {
    /// For each command the first one that is equal except for its name.
    kinds: Vec<usize>,
    stage: Stage,
    rounds: Vec<Round>,
    /// Seconds in which a command ran alone to be compared.
    alone_s: f64,
    /// Whether comparisons may still change something.
    open: bool,
    in_turns: Option<f64>,
    /// Commands that have been started again.
    again: BTreeSet<usize>,
    /// Files that were warned of.
    told: BTreeSet<PathBuf>,
}

impl Working {
    /// Warns of files that several commands write, as soon as they are seen.
    fn warn(&mut self, bench: &Bench<'_>, tell: &mut dyn FnMut(Told<'_>)) {
        for path in bench.seen.files(&BTreeSet::new()) {
            let text = format!("more than one of the commands writes {}", path.display());
            if self.told.insert(path) {
                tell(Told::Happened(text));
            }
        }
    }

    /// Compares, if it is due and cheap, and goes on in turns if together is not worth it.
    fn compare(
        &mut self,
        who: &[&Command],
        bench: &mut Bench<'_>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(), TrialError> {
        self.open = self.open && self.stage.tracks.iter().all(|track| track.ended.is_none());
        let warm = |track: &Track| {
            track
                .detector
                .best()
                .is_some_and(|best| best.marks.count() >= WARM)
        };
        if !self.open || !self.stage.tracks.iter().all(warm) {
            return Ok(());
        }
        let Some(alone) = self
            .stage
            .tracks
            .iter()
            .map(known)
            .collect::<Option<Vec<Alone>>>()
        else {
            return Ok(());
        };
        for track in &mut self.stage.tracks {
            track.interval = track.mean_interval();
        }
        let pairing = Pairing {
            commands: who,
            alone: &alone,
            kinds: &self.kinds,
            window: WINDOW,
        };
        let cost = pairing.cost(&self.stage.tracks) - pairing.length(&self.stage.tracks);
        if self.alone_s + cost > SPENT * self.expected(bench.now()) {
            return Ok(());
        }
        self.alone_s += cost;
        match pairing.compare(bench, &mut self.stage, self.rounds.len(), tell)? {
            Ok(round) => self.rounds.push(round),
            // Whoever waits for one that is held must not be compared, nor run alone.
            Err(_) => self.open = false,
        }
        if self.settled(bench.now()) {
            tell(Told::Happened(
                "together is slower: one after another from now on; the others are held, not ended"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Decides if that can be decided; whether the commands run in turns from now on.
    fn settled(&mut self, now: f64) -> bool {
        let samples: Vec<_> = self.rounds.iter().map(Round::sample).collect();
        if !self.open || samples.is_empty() || more(&samples, false) {
            return false;
        }
        self.open = false;
        let verdict = Compared::of(&self.rounds).map(|compared| compared.verdict());
        self.in_turns = (verdict == Some(Verdict::NotWorth)).then_some(now);
        self.in_turns.is_some()
    }

    /// Seconds of the whole run, by what the lines say.
    fn expected(&self, now: f64) -> f64 {
        let ends: Option<Vec<f64>> = self.stage.tracks.iter().map(Track::expected_end).collect();
        match ends {
            Some(ends) => ends.into_iter().fold(now, f64::max),
            None => MINUTE.max(2.0 * now),
        }
    }

    /// In turns: lets the first that has not ended run, and holds the others.
    fn next(&self, bench: &mut Bench<'_>) {
        if self.in_turns.is_none() {
            return;
        }
        let turn = self
            .stage
            .tracks
            .iter()
            .position(|track| track.ended.is_none());
        bench.hold(|index| Some(index) != turn);
    }

    /// Starts a command again that lacked memory beside the others, once they have ended. It has lost its work already.
    fn restart(
        &mut self,
        who: &[&Command],
        bench: &mut Bench<'_>,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<(), TrialError> {
        if self.kinds.len() < 2 || self.stage.tracks.iter().any(|track| track.ended.is_none()) {
            return Ok(());
        }
        let lacked = |ended: &Ended| ended.lacked_memory;
        let failed = (0..who.len()).find(|i| {
            self.stage.tracks[*i].ended.as_ref().is_some_and(lacked) && !self.again.contains(i)
        });
        let Some(index) = failed else { return Ok(()) };
        self.again.insert(index);
        tell(Told::Happened(format!(
            "{} lacked memory beside the others: it starts again, now that they have ended",
            who[index].id
        )));
        self.stage.tracks[index] = Track::default();
        bench.start(index, who[index], Log::Work)
    }
}

/// What is known of a command that has only run beside others: its counter, its length.
fn known(track: &Track) -> Option<Alone> {
    let best = track.detector.best()?;
    Some(Alone {
        startup: track.first()?.0,
        rate: track.rate(0.0, f64::INFINITY)?,
        unit: best.form.unit,
        total: track.detector.total(),
        whole: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rate;
    use crate::answer::Beside;

    /// A comparison of two copies that are this fast beside each other, of one alone.
    fn round(part: f64) -> Round {
        let rate = |per_s| Rate { per_s, marks: 9 };
        let alone = Alone {
            startup: 0.0,
            rate: rate(1.0),
            unit: "steps",
            total: None,
            whole: None,
        };
        let beside = Beside {
            startup: 0.0,
            rate: rate(part),
            whole: None,
        };
        Round {
            alone: vec![alone; 2],
            beside: vec![beside; 2],
            others: 0.0,
            gave_up: None,
        }
    }

    fn working(rounds: Vec<Round>) -> Working {
        let limits = Limits {
            window: 1.0,
            ahead: 0.0,
            limit: 1.0,
        };
        Working {
            kinds: vec![0, 0],
            stage: Stage::new(vec![Track::default(); 2], limits),
            rounds,
            alone_s: 0.0,
            open: true,
            in_turns: None,
            again: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    #[test]
    fn only_a_clear_loss_ends_running_together_and_only_once() {
        assert!(
            !working(vec![round(0.3)]).settled(5.0),
            "once is not enough"
        );
        let mut slower = working(vec![round(0.3), round(0.31)]);
        assert!(slower.settled(5.0));
        assert_eq!(slower.in_turns, Some(5.0));
        assert!(!slower.settled(6.0));
        let mut faster = working(vec![round(0.9), round(0.95)]);
        assert!(!faster.settled(5.0) && !faster.open);
        let mut open = working(vec![round(0.45), round(0.55)]);
        assert!(
            !open.settled(5.0) && open.open,
            "it is compared again later"
        );
    }
}
