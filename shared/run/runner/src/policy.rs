//! What is asked of a policy.

use std::fmt;
use std::time::{Duration, Instant};

use host::Gpus;
use jobs::Happening;
use units::TaskId;

use crate::happened::{Ended, Happened, Stop};
use crate::runner::Runner;
use crate::status::State;

/// Decides what runs next, and under what.
///
/// A turn of the loop is: signals, the device, [`Policy::decide`], a wait, what happened, deadlines,
/// [`Policy::turned`].
pub trait Policy {
    /// What it calls a process by.
    type Key: Copy + Ord + fmt::Debug;

    /// The round under way, if it counts rounds.
    fn round(&self) -> Option<u32> {
        None
    }

    /// Name of the task that a process works for.
    fn task(&self, key: Self::Key) -> TaskId;

    /// Starts what may start, and ends what should not run any more.
    fn decide(&mut self, run: &mut Runner<'_, Self::Key>);

    /// Something happened to a process, at a time of the host's clock.
    fn happened(
        &mut self,
        run: &mut Runner<'_, Self::Key>,
        key: Self::Key,
        at: Instant,
        what: &Happened,
    );

    /// What a user must hear of a process that nothing else shows.
    fn told(&mut self, run: &mut Runner<'_, Self::Key>, key: Self::Key, what: &Happening) {
        let text = what.told(self.task(key).as_str());
        text.into_iter().for_each(|text| run.warn(&text));
    }

    /// A process has ended with everything that it started. `Err`: why its work is not done; [`Policy::failed`]
    /// follows, after a look at the device.
    ///
    /// # Errors
    /// The reason, in words.
    fn ended(
        &mut self,
        run: &mut Runner<'_, Self::Key>,
        key: Self::Key,
        ended: &Ended,
    ) -> Result<(), String>;

    /// The work of a process that has ended is not done.
    fn failed(&mut self, run: &mut Runner<'_, Self::Key>, key: Self::Key, why: String);

    /// GPUs do not work any more, and `why`; no process runs there. Returns whether the policy goes on without them;
    /// otherwise everything ends.
    fn gpus_lost(&mut self, _: &mut Runner<'_, Self::Key>, _gpus: &Gpus, _why: &str) -> bool {
        false
    }

    /// Nothing starts any more. Processes that this does not end are ended after it, with the usual grace.
    fn stopped(&mut self, run: &mut Runner<'_, Self::Key>, why: &Stop);

    /// The end of a turn.
    fn turned(&mut self, _: &mut Runner<'_, Self::Key>) {}

    /// When it must be asked again, even if nothing happens.
    fn due(&self, run: &Runner<'_, Self::Key>) -> Option<Instant>;

    /// This process, and with it the jobs' output, was not looked at for a while: moves its own deadlines.
    fn postpone(&mut self, _pause: Duration) {}

    /// Whether nothing is left to start. The loop ends when no process runs either.
    fn is_over(&self, run: &Runner<'_, Self::Key>) -> bool;

    /// The state for people and monitors, if it is shown.
    fn state(&self, _: &Runner<'_, Self::Key>) -> State {
        State::default()
    }
}
