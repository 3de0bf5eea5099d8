//! Schedules in which one entry stands for several equal rounds.

use std::collections::BTreeMap;

use super::Agenda;
use crate::{Assignment, Problem, Schedule};

/// Checks with [`Agenda::plays_out`] that a schedule can be followed; an entry of several rounds
/// counts as one round.
///
/// The document reader makes sure that such entries of a job cover the same rounds for all its
/// tasks. Here, a GPU must also complete an entry before an entry of another job or of later rounds
/// begins. `mt-cluster plan` writes no other schedules.
///
/// # Errors
/// Names the entry at which the simulation gets stuck.
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
