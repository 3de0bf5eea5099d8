//! Connects the learner of shares with the rounds of a launch.

use std::path::PathBuf;

use cli::{Console, Failure, Input};
use doc::{Any, EventPayload, Learning, ShareChoice};
use units::{Seconds, Share, TaskId};

use super::{Choice, Learner, Lessons, Why};

/// The learner of a launch, with the rounds that it has learnt from.
#[derive(Debug, Clone)]
pub struct Course {
    learner: Learner,
    lessons: Lessons,
    rounds: u32,
    done: u32,
    /// Number of rounds from earlier launches.
    earlier: u64,
    /// Choice for the current round.
    choice: Option<Choice>,
}

impl Course {
    /// A course for `rounds` rounds of these tasks; the first round gets the shares `prior` if
    /// nothing is known.
    #[must_use]
    pub fn new(tasks: Vec<TaskId>, prior: Vec<Share>, rounds: u32) -> Self {
        Self {
            learner: Learner::new(prior, rounds),
            lessons: Lessons::new(tasks),
            rounds,
            done: 0,
            earlier: 0,
            choice: None,
        }
    }

    /// Learns from the documents of earlier launches; returns the number of rounds that it used.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be read or is no run.
    pub fn remember(&mut self, files: &[PathBuf], console: &Console) -> Result<u64, Failure> {
        if files.is_empty() {
            return Ok(0);
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
                    self.earlier += 1;
                }
            }
        }
        Ok(self.earlier)
    }

    /// Hears an event of this launch.
    pub(crate) fn hear(&mut self, event: &EventPayload) {
        // Only the end of a round yields a lesson, and `end` handles that event.
        self.lessons.hear(event);
    }

    /// Learns from a round that has ended, and adds to its event the reason for its shares and the
    /// state of learning.
    pub(crate) fn end(&mut self, event: &mut EventPayload) {
        self.done += 1;
        let taught = self.lessons.hear(event);
        let first_s = taught.and_then(|observed| self.learner.observe(observed));
        let (EventPayload::Round { learning, .. }, Some(choice)) = (event, &self.choice) else {
            return;
        };
        let seconds = |s: Option<f64>| s.and_then(|s| Seconds::new(s).ok());
        let (noise, drift) = self.learner.noise_and_drift();
        *learning = Some(Learning {
            choice: match choice.why {
                Why::Prior => ShareChoice::First,
                Why::Best => ShareChoice::Best,
                Why::Trial => ShareChoice::Trial,
            },
            earlier: self.earlier,
            expected: seconds(choice.expected_s),
            best: seconds(choice.best_s),
            first: seconds(first_s),
            saved_s: self.learner.saved_s(),
            noise,
            drift,
        });
    }

    /// Shares of the next round, and the reason as text for users.
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
        self.choice = Some(choice.clone());
        (choice, why)
    }
}
