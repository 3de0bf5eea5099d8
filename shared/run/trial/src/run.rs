//! Runs the stages of a trial.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jobs::Signals;

use crate::bench::Bench;
use crate::command::kinds;
use crate::comparing::Trying;
use crate::contrast::Verdict;
use crate::error::TrialError;
use crate::trial::{Pair, Told, Trial, TrialSettings};
use crate::{Command, CommandError};

/// Tries commands: each distinct one alone, then all together and alone in turns.
///
/// # Errors
/// [`TrialError`]. No process is left running in any case.
pub fn run(
    commands: &[Command],
    settings: &TrialSettings,
    signals: Signals,
    tell: &mut dyn FnMut(Told<'_>),
) -> Result<Trial, TrialError> {
    let mut trying = Trying {
        bench: Bench::open(&settings.folder, signals)?,
        settings,
        commands,
        kinds: kinds(commands),
        known: Vec::new(),
        waits: Vec::new(),
    };
    tell(Told::Place(trying.bench.place.clone()));
    let stages = trying.kinds.iter().collect::<BTreeSet<_>>().len() + 1;
    for (index, command) in commands.iter().enumerate() {
        let kind = trying.kinds[index];
        if kind != index {
            trying.known.push(trying.known[kind].clone());
            continue;
        }
        let before = &trying.kinds[..=index];
        let number = before.iter().enumerate().filter(|(i, k)| i == *k).count();
        tell(Told::Begins(number, stages, vec![command]));
        let (found, _) = trying.alone(index, tell)?;
        tell(Told::Alone(command, &found.0));
        trying.known.push(found);
    }
    trying.together(stages, tell)
}

impl Trying<'_> {
    /// Runs all commands together and, if that gains nothing, in pairs.
    fn together(
        mut self,
        stages: usize,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<Trial, TrialError> {
        let everyone: Vec<usize> = (0..self.commands.len()).collect();
        tell(Told::Begins(stages, stages, self.commands.iter().collect()));
        let all = match self.group(&everyone, tell) {
            Ok(all) => all,
            Err(TrialError::Failed(mut failed)) => {
                failed.pairs = self.pairs(stages, tell)?;
                return Err(TrialError::Failed(failed));
            }
            Err(error) => return Err(error),
        };
        let mut waits = self.bench.seen.waits();
        waits.extend(std::mem::take(&mut self.waits));
        waits.dedup_by(|b, a| a.id == b.id);
        let has_copy = |&i: &usize| self.kinds.iter().filter(|k| **k == self.kinds[i]).count() > 1;
        let copies: BTreeSet<_> = everyone
            .iter()
            .copied()
            .filter(has_copy)
            .map(|i| self.commands[i].id.clone())
            .collect();
        let mut files = self.bench.seen.files(&copies);
        // Files with locks are already reported as waits.
        let is_lock = |path: &PathBuf| {
            waits
                .iter()
                .any(|w| w.what.as_deref().map(Path::new) == Some(path))
        };
        files.retain(|path| !is_lock(path));
        let pairs = match all.compared.verdict() {
            Verdict::Worth => Vec::new(),
            _ => self.pairs(stages, tell)?,
        };
        Ok(Trial {
            commands: self.commands.to_vec(),
            alone: all
                .alone
                .iter()
                .copied()
                .zip(self.known.into_iter().map(|(_, track)| track))
                .collect(),
            all,
            pairs,
            waits,
            files,
        })
    }

    /// Every pair of distinct commands among three or four. With more commands the pairs would take minutes, and users
    /// can start with those that are likely to fit.
    fn pairs(
        &mut self,
        stages: usize,
        tell: &mut dyn FnMut(Told<'_>),
    ) -> Result<Vec<Pair>, TrialError> {
        let n = self.commands.len();
        if !(3..=4).contains(&n) {
            return Ok(Vec::new());
        }
        let mut chosen: BTreeMap<[usize; 2], [usize; 2]> = BTreeMap::new();
        for (i, j) in (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))) {
            chosen
                .entry([self.kinds[i], self.kinds[j]])
                .or_insert([i, j]);
        }
        let of = stages + chosen.len();
        let mut pairs = Vec::new();
        for (number, members) in chosen.into_values().enumerate() {
            let both: Vec<&Command> = members.iter().map(|&i| &self.commands[i]).collect();
            let ids = [both[0].id.clone(), both[1].id.clone()];
            tell(Told::Begins(stages + number + 1, of, both));
            let compared = match self.group(&members, tell) {
                Ok(group) => Some(group.compared),
                Err(TrialError::Failed(_) | TrialError::Unknown { .. }) => None,
                Err(error) => return Err(error),
            };
            pairs.push(Pair { ids, compared });
        }
        Ok(pairs)
    }
}

/// Checks that the program and the script of every command exist.
///
/// # Errors
/// [`TrialError::Commands`] with all missing files.
pub fn check(commands: &[Command]) -> Result<(), TrialError> {
    let kinds = kinds(commands);
    let faults: Vec<CommandError> = commands
        .iter()
        .enumerate()
        .filter(|(index, _)| kinds[*index] == *index)
        .filter_map(|(_, command)| command.check().err())
        .collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(TrialError::Commands(faults)),
    }
}

/// A new folder for the logs: `NAME`, `NAME-2`, ...
#[must_use]
pub fn free_folder(name: &str) -> PathBuf {
    let numbered = (2..).map(|n| PathBuf::from(format!("{name}-{n}")));
    let is_free = |path: &PathBuf| std::fs::symlink_metadata(path).is_err();
    let mut all = std::iter::once(Path::new(name).to_owned()).chain(numbered);
    all.find(is_free).unwrap_or_else(|| name.into())
}
