//! The rounds of a launch, as they are learnt from.

use std::path::PathBuf;

use cli::{Console, Failure, Input};
use doc::{Any, EventPayload};
use units::{Share, TaskId};

use super::{Choice, Learner, Lessons, Why};

/// What a launch learns, and from what.
#[derive(Debug, Clone)]
pub struct Course {
    learner: Learner,
    lessons: Lessons,
    rounds: u32,
    done: u32,
}

impl Course {
    /// For rounds of tasks, of which the first has the given shares if nothing is known.
    #[must_use]
    pub fn new(tasks: Vec<TaskId>, prior: Vec<Share>, rounds: u32) -> Self {
        Self {
            learner: Learner::new(prior, rounds),
            lessons: Lessons::new(tasks),
            rounds,
            done: 0,
        }
    }

    /// Learns from the documents of earlier launches; returns how many of their rounds.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be read or is no run.
    pub fn remember(&mut self, files: &[PathBuf], console: &Console) -> Result<usize, Failure> {
        let mut learnt = 0;
        if files.is_empty() {
            return Ok(learnt);
        }
        for document in Input::open(files, "runs", console)?.any() {
            let Any::Run(events) = document? else {
                return Err(Failure::Input(
                    "--known: this is no run; give what mt-launch has written".to_owned(),
                ));
            };
            let mut lessons = Lessons::new(self.lessons.tasks().to_vec());
            for event in &events {
                if let Some(observed) = lessons.hear(&event.payload) {
                    self.learner.remember(observed);
                    learnt += 1;
                }
            }
        }
        Ok(learnt)
    }

    /// Hears an event of this launch.
    pub(crate) fn hear(&mut self, event: &EventPayload) {
        self.done += u32::from(matches!(event, EventPayload::Round { .. }));
        if let Some(observed) = self.lessons.hear(event) {
            self.learner.observe(observed);
        }
    }

    /// Shares of the next round, and why, for people.
    pub(crate) fn next(&mut self) -> (Choice, String) {
        let choice = self.learner.choose();
        let left = self.rounds.saturating_sub(self.done);
        let saved = match self.learner.saved_s() {
            saved if self.done == 0 || saved.abs() < 0.05 => String::new(),
            saved => format!("; {saved:.1} s saved so far"),
        };
        let (expected, best) = (
            choice.expected_s.unwrap_or(0.0),
            choice.best_s.unwrap_or(0.0),
        );
        let why = match choice.why {
            Why::Prior => "nothing is known yet".to_owned(),
            Why::Best => format!("the best so far: {best:.1} s expected{saved}"),
            Why::Trial => format!(
                "a trial: {expected:.1} s expected, {best:.1} s with the best so far; worth {:.1} s in the {left} \
                 rounds that remain{saved}",
                choice.saves_s
            ),
        };
        (choice, why)
    }
}
