//! Schedules in which equal rounds are one entry.

use std::collections::BTreeMap;

use super::Agenda;
use crate::{Assignment, Problem, Schedule};

/// Whether a schedule can be followed: [`Agenda::plays_out`], where entries of several rounds count as one round each.
///
/// Such entries are those of all tasks of a job for the same rounds, as a reader leaves them, and a GPU has to be done
/// with an entry of a job before that of another begins; `mt-cluster plan` makes no others.
///
/// # Errors
/// The entry at which it gets stuck.
pub fn followed(mut problem: Problem, schedule: &Schedule) -> Result<(), String> {
    if schedule.assignments.iter().all(|a| a.rounds == 1) {
        return Agenda::new(problem, schedule, 0).plays_out();
    }
    let mut until: BTreeMap<usize, &Assignment> = BTreeMap::new();
    for a in &schedule.assignments {
        let before = until.insert(a.gpu, a).filter(|b| {
            let same = (a.job, a.round) == (b.job, b.round);
            !same && b.last_trained() > a.start * (1.0 + 1e-9)
        });
        if let Some(before) = before {
            return Err(format!(
                "round {} of job {} begins at {} s, in the middle of {} rounds of job {} on its GPU, and such entries are \
                 only followed one after another",
                a.round, a.job, a.start, before.rounds, before.job
            ));
        }
    }
    let mut numbers: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for a in &schedule.assignments {
        numbers.insert((a.job, a.round), 0);
    }
    for (n, job) in problem.jobs.iter_mut().enumerate() {
        let own = numbers.range_mut((n, 0)..(n + 1, 0));
        job.rounds = own.zip(0..).map(|((_, number), k)| *number = k).count();
    }
    let entries = schedule.assignments.iter().map(|a| Assignment {
        round: numbers[&(a.job, a.round)],
        rounds: 1,
        ..*a
    });
    if entries.len() != problem.volume() {
        return Err("tasks are missing".to_owned());
    }
    let entries = Schedule::new(problem.jobs.len(), entries.collect());
    Agenda::new(problem, &entries, 0).plays_out()
}
