//! The interface of a policy.

use std::fmt;
use std::time::{Duration, Instant};

use host::Gpus;
use jobs::Happening;
use units::TaskId;

use crate::happened::{Ended, Happened, Stop};
use crate::runner::Runner;
use crate::status::RunState;

/// Decides what runs next, and with which resources.
///
/// A turn of the loop consists of: signals, the state of the device, [`Policy::decide`], a wait, events, deadlines,
/// [`Policy::turned`].
pub trait Policy {
    /// Identifies a process.
    type Key: Copy + Ord + fmt::Debug;

    /// The current round, if it counts rounds.
    fn round(&self) -> Option<u32> {
        None
    }

    /// Name of the task that a process works for.
    fn task(&self, key: Self::Key) -> TaskId;

    /// Starts processes that may start, and ends processes that should not run any more.
    fn decide(&mut self, run: &mut Runner<'_, Self::Key>);

    /// An event of a process; `at` is the time on the host's clock.
    fn happened(
        &mut self,
        run: &mut Runner<'_, Self::Key>,
        key: Self::Key,
        at: Instant,
        what: &Happened,
    );

    /// A message for the user about a process, for events that are shown nowhere else.
    fn told(&mut self, run: &mut Runner<'_, Self::Key>, key: Self::Key, what: &Happening) {
        let text = what.told(self.task(key).as_str());
        text.into_iter().for_each(|text| run.warn(&text));
    }

    /// A process has ended with all its descendants. `Err` means that its work is not done; the runner then checks the
    /// device and calls [`Policy::failed`].
    ///
    /// # Errors
    /// A description why the work is not done.
    fn ended(
        &mut self,
        run: &mut Runner<'_, Self::Key>,
        key: Self::Key,
        ended: &Ended,
    ) -> Result<(), String>;

    /// A process has ended without finishing its work; `why` is the reason.
    fn failed(&mut self, run: &mut Runner<'_, Self::Key>, key: Self::Key, why: String);

    /// GPUs have stopped working for the reason `why`; no process runs there. Returns whether the policy continues
    /// without them; otherwise everything ends.
    fn gpus_lost(&mut self, _: &mut Runner<'_, Self::Key>, _gpus: &Gpus, _why: &str) -> bool {
        false
    }

    /// Nothing may start any more. Processes that this call does not end are ended after it, with the usual grace
    /// period.
    fn stopped(&mut self, run: &mut Runner<'_, Self::Key>, why: &Stop);

    /// The end of a turn.
    fn turned(&mut self, _: &mut Runner<'_, Self::Key>) {}

    /// Time at which it must be called again, even if nothing happens.
    fn due(&self, run: &Runner<'_, Self::Key>) -> Option<Instant>;

    /// The loop was suspended for this duration and did not read the jobs' output: the policy must move its own
    /// deadlines.
    fn postpone(&mut self, _pause: Duration) {}

    /// Whether nothing is left to start. The loop ends when in addition no process runs.
    fn is_over(&self, run: &Runner<'_, Self::Key>) -> bool;

    /// The state for display and monitoring.
    fn state(&self, _: &Runner<'_, Self::Key>) -> RunState {
        RunState::default()
    }
}
