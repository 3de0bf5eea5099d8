//! Runs commands to their end, together at first. Comparisons during the run show whether that is worth it: from time
//! to time all but one command are stopped briefly. If it is not worth it, the commands then run one after another: the
//! others stay stopped until their turn. No work is repeated, so none is lost.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jobs::Signals;

use crate::answer::{Alone, Compared, Round};
use crate::bench::{Bench, Log};
use crate::command::kinds;
use crate::contrast::{Verdict, more};
use crate::error::TrialError;
use crate::paired::{Comparison, Gap, Pairing};
use crate::playing::Turn;
use crate::stage::Limits;
use crate::trial::{Told, Work};
use crate::{Command, Stage, Track};

/// Fraction of the whole time in which commands may run alone only for a comparison. If sharing doubles the speed, half
/// of this time is lost.
const SPENT: f64 = 0.05;
/// Minimum assumed duration, in seconds, of a run of unknown length.
const MINUTE: f64 = 60.0;
/// Length of a window in seconds: processor time is counted in hundredths of a second.
const WINDOW: f64 = 0.5;
/// Number of marks of every command before the first comparison, because the first steps are slower than later ones.
const WARM: u64 = 5;
/// Seconds since the first mark of a command after which its second one suffices: so rare a line covers many steps.
const RARE: f64 = 5.0;

/// Runs commands to their end.
///
/// # Errors
/// [`TrialError`] after a signal, or if this machine cannot run the commands. A failed command is not an error. No
/// process is left running.
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
    let mut stage = Stage::new(vec![Track::default(); commands.len()], limits);
    let mut working = Working::of(commands);
    let mut each = |turn: &mut Turn<'_>| working.turn(turn, commands);
    let seconds = bench.play(&who, &mut stage, Log::Work, tell, &mut each)?;
    let tracks = stage.tracks.into_iter();
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
    /// For each command, the index of the first command that is equal except for its name.
    kinds: Vec<usize>,
    rounds: Vec<Round>,
    /// The comparison in progress.
    comparing: Option<(Pairing, Comparison)>,
    /// Seconds in which a command ran alone for a comparison.
    alone_s: f64,
    /// Seconds of a command alone below which a probe would show nothing.
    least: f64,
    /// Whether further comparisons may still change the decision.
    open: bool,
    in_turns: Option<f64>,
    /// Commands that have been restarted.
    again: BTreeSet<usize>,
    /// Files about which the user was warned.
    told: BTreeSet<PathBuf>,
}

impl Working {
    fn of(commands: &[Command]) -> Self {
        Self {
            kinds: kinds(commands),
            rounds: Vec::new(),
            comparing: None,
            alone_s: 0.0,
            least: WINDOW,
            open: commands.len() > 1,
            in_turns: None,
            again: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    fn turn(&mut self, turn: &mut Turn<'_>, commands: &[Command]) {
        self.warn(turn);
        self.compare(turn);
        self.next(turn);
        self.restart(turn, commands);
        turn.is_over = have_ended(turn.stage);
    }

    /// Warns about files that several commands write, as soon as they are detected.
    fn warn(&mut self, turn: &mut Turn<'_>) {
        for path in turn.seen.files(&BTreeSet::new()) {
            let text = format!("more than one of the commands writes {}", path.display());
            if self.told.insert(path) {
                (turn.tell)(Told::Happened(text));
            }
        }
    }

    /// Compares, if it is due and cheap, and switches to one command after another if running together is not worth it.
    fn compare(&mut self, turn: &mut Turn<'_>) {
        let Some((pairing, comparison)) = &mut self.comparing else {
            return self.begin(turn);
        };
        let Some(found) = pairing.turn(comparison, turn) else {
            return;
        };
        self.alone_s += comparison.alone_s;
        match found {
            Ok(round) => {
                self.least = comparison.alone_s / pairing.count() as f64;
                self.rounds.push(round);
            }
            // Each probe is twice as long as the last one, so that together they take twice the time of the longest.
            Err(Gap::Rare) => self.least = 2.0 * pairing.probe.unwrap_or(0.0),
            // A command that waits for a stopped one can neither be compared nor run alone.
            Err(_) => self.open = false,
        }
        self.comparing = None;
        if self.settled(turn.now) {
            (turn.tell)(Told::Happened(
                "together is slower: one after another from now on; the others are held, not ended"
                    .to_owned(),
            ));
        }
    }

    /// Begins a comparison, if it is due and cheap.
    fn begin(&mut self, turn: &mut Turn<'_>) {
        let tracks = &mut turn.stage.tracks;
        self.open = self.open && tracks.iter().all(|track| track.ended.is_none());
        let warm = |track: &Track| {
            let count = track.detector.best().map_or(0, |best| best.marks.count());
            let is_rare = || track.first().is_some_and(|(at, _)| turn.now >= at + RARE);
            count >= WARM || count > 1 && is_rare()
        };
        if !self.open || !tracks.iter().all(warm) {
            return;
        }
        let Some(alone) = tracks.iter().map(known).collect::<Option<Vec<Alone>>>() else {
            return;
        };
        for track in tracks.iter_mut() {
            track.interval = track.mean_interval();
        }
        let mut pairing = Pairing {
            alone,
            kinds: self.kinds.clone(),
            window: WINDOW,
            probe: None,
        };
        let spare = |least: f64| SPENT * expected(tracks, turn.now, least) - self.alone_s;
        if pairing.cost(tracks) - pairing.length(tracks) > spare(MINUTE) {
            // A probe shows nothing of most commands, so a short run must not pay for one of a minute.
            let most = pairing.longest(spare(0.0));
            if most < self.least {
                return;
            }
            pairing.probe = Some(most);
        }
        let comparison = pairing.begin(self.rounds.len(), turn.now);
        self.comparing = Some((pairing, comparison));
    }

    /// Decides if the data suffice; returns whether the commands run one after another from now on. One comparison
    /// suffices if it shows a loss beyond its own interval, which is then a factor of two: no drift of the machine in
    /// the seconds of a comparison is as large, and it costs the user more than the next comparison could save.
    fn settled(&mut self, now: f64) -> bool {
        let samples: Vec<_> = self.rounds.iter().map(Round::sample).collect();
        let verdict = Compared::of(&self.rounds).map(|compared| compared.verdict());
        let is_plain = samples.len() == 1 && verdict == Some(Verdict::NotWorth);
        if !self.open || samples.is_empty() || more(&samples, false) && !is_plain {
            return false;
        }
        self.open = false;
        self.in_turns = (verdict == Some(Verdict::NotWorth)).then_some(now);
        self.in_turns.is_some()
    }

    /// If commands run one after another: lets the first unfinished command run, and stops the others.
    fn next(&self, turn: &mut Turn<'_>) {
        if self.in_turns.is_none() {
            return;
        }
        let mut tracks = turn.stage.tracks.iter();
        let first = tracks.position(|track| track.ended.is_none());
        turn.hold(|index| Some(index) != first);
    }

    /// Restarts a command that ran out of memory beside the others, or that another command ended by a fault of the
    /// device, once all others have ended. Its work was already lost.
    fn restart(&mut self, turn: &mut Turn<'_>, commands: &[Command]) {
        if self.kinds.len() < 2 || !have_ended(turn.stage) {
            return;
        }
        let why = |track: &Track| match &track.ended {
            Some(ended) if ended.lacked_memory => Some("lacked memory beside the others"),
            _ if track.is_victim() => Some("was ended by a fault of the GPU that it did not cause"),
            _ => None,
        };
        let tracks = turn.stage.tracks.iter().enumerate();
        let mut failed = tracks.filter_map(|(i, track)| Some((i, why(track)?)));
        let Some((index, why)) = failed.find(|(i, _)| !self.again.contains(i)) else {
            return;
        };
        self.again.insert(index);
        (turn.tell)(Told::Happened(format!(
            "{} {why}: it starts again, now that they have ended",
            commands[index].id
        )));
        turn.start(index);
    }
}

/// Whether all commands have ended.
fn have_ended(stage: &Stage) -> bool {
    stage.tracks.iter().all(|track| track.ended.is_some())
}

/// Expected seconds of the whole run, from the printed totals; without them, as long again, and at least `least`.
fn expected(tracks: &[Track], now: f64, least: f64) -> f64 {
    let ends: Option<Vec<f64>> = tracks.iter().map(Track::expected_end).collect();
    match ends {
        Some(ends) => ends.into_iter().fold(now, f64::max),
        None => least.max(2.0 * now),
    }
}

/// Data about a command that has only run beside others: its counter and its length.
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

    /// A comparison of two copies, each of which runs beside the other at this fraction of its speed alone.
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
        Working {
            kinds: vec![0, 0],
            open: true,
            rounds,
            ..Working::of(&[])
        }
    }

    #[test]
    fn only_a_clear_loss_ends_running_together_and_only_once() {
        assert!(
            !working(vec![round(0.3)]).settled(5.0),
            "once is not enough"
        );
        assert!(
            working(vec![round(0.1)]).settled(5.0),
            "unless it is five times as slow"
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
