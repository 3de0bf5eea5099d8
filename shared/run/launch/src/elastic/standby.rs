//! Processes of the next allocation, started while their predecessors still train, so that the pause is shorter than
//! a start: importing PyTorch takes seconds, reading a checkpoint a tenth of one.
//!
//! Only programs that take orders (`pool` of their job) support this: the program prints `loaded` after all start-up
//! work that does not depend on the checkpoint, and waits for `run`. If it fails before that, its training is
//! unaffected.

use std::collections::BTreeSet;
use std::time::Duration;

use runner::{Ended, Happened};

use super::member::{Allotment, Key, Member, Stage, why_ended};
use super::session::{ElasticLaunch, Run};

impl ElasticLaunch<'_> {
    /// Dismisses standby processes that are no longer wanted, and starts those that can be started.
    pub(super) fn stand_by(&mut self, run: &mut Run<'_>) {
        for i in 0..self.members.len() {
            let member = &self.members[i];
            let wanted = member.wanted_gpus() as usize;
            if member.next.as_ref().is_some_and(|n| n.gpus.len() != wanted) {
                self.dismiss(run, i);
            }
        }
        let now = run.now();
        for i in 0..self.members.len() {
            let member = &self.members[i];
            let wanted = member.wanted_gpus() as usize;
            let needed = match member.stage {
                Stage::Training => wanted != member.gpus.len(),
                // If enough GPUs are free, the training starts on them directly, without standby.
                Stage::Waiting => wanted > self.unreserved().len(),
                _ => false,
            };
            let job = self.workload.tasks[member.task].job.as_ref();
            let may = needed
                && wanted > 0
                && member.next.is_none()
                && !member.cold
                && job.is_some_and(|job| job.pool)
                && member.retry_at.is_none_or(|at| at <= now);
            if let Some(gpus) = may.then(|| self.to_be_free(i, wanted)).flatten() {
                match self.admit(run, i, &gpus) {
                    Ok(next) => self.members[i].next = Some(next),
                    Err(why) => self.not_standing_by(run, i, gpus.len(), &why),
                }
            }
        }
    }

    /// Free GPUs that are not reserved for standby processes.
    pub(super) fn unreserved(&self) -> BTreeSet<usize> {
        let reserved: BTreeSet<usize> = self
            .members
            .iter()
            .filter_map(|m| m.next.as_ref())
            .flat_map(|n| n.gpus.iter().copied())
            .collect();
        self.free.difference(&reserved).copied().collect()
    }

    /// `count` GPUs for training `i` that will be free when all changes are complete; its current ones first. `None` if
    /// there are not enough.
    fn to_be_free(&self, i: usize, count: usize) -> Option<Vec<usize>> {
        let changes = |m: &&Member| m.wanted_gpus() as usize != m.gpus.len();
        let held = self.members.iter().filter(changes);
        let mut open: BTreeSet<usize> = held.flat_map(|m| m.gpus.iter().copied()).collect();
        open.extend(&self.free);
        for next in self.members.iter().filter_map(|m| m.next.as_ref()) {
            open.retain(|gpu| !next.gpus.contains(gpu));
        }
        let own = &self.members[i].gpus;
        let (own, others): (Vec<usize>, Vec<usize>) =
            open.into_iter().partition(|gpu| own.contains(gpu));
        let gpus: Vec<usize> = own.into_iter().chain(others).take(count).collect();
        (gpus.len() == count).then_some(gpus)
    }

    /// Handles an event of a standby process.
    pub(super) fn standby_happened(&mut self, run: &mut Run<'_>, key: Key, what: &Happened) {
        let i = key.member;
        match what {
            Happened::Loaded if key.rank == 0 => {
                run.suspend(key);
                if let Some(next) = &mut self.members[i].next {
                    next.loaded = true;
                }
            }
            Happened::Ready | Happened::Steps { .. } => {
                // It started to train without an order, so it repeats steps that its predecessors still train.
                self.members[i].cold = true;
                let text = format!(
                    "{} does not wait for `run`, so its processes are started once the previous ones have stopped",
                    self.id(i)
                );
                run.warn(&text);
                // No time to save is needed, because its predecessors save a checkpoint.
                self.end_standby(run, i, Duration::ZERO);
            }
            _ => {}
        }
    }

    /// A standby process has ended.
    pub(super) fn standby_ended(&mut self, run: &mut Run<'_>, key: Key, ended: &Ended) {
        let i = key.member;
        let Some(next) = &mut self.members[i].next else {
            return;
        };
        let count = next.gpus.len();
        next.ranks.retain(|rank| rank.key != key);
        let why = why_ended(key.rank, ended);
        self.not_standing_by(run, i, count, &why);
    }

    /// Standby processes for `count` GPUs failed and cannot take over. The training stays on its GPUs; if it is not
    /// running, this counts as a failure of the training.
    pub(super) fn not_standing_by(&mut self, run: &mut Run<'_>, i: usize, count: usize, why: &str) {
        self.dismiss(run, i);
        let member = &mut self.members[i];
        if member.stage == Stage::Waiting {
            let tried = u32::try_from(count).unwrap_or(u32::MAX);
            return self.try_again(run, i, why.to_owned(), true, tried);
        }
        let held = u32::try_from(member.gpus.len()).unwrap_or(u32::MAX);
        if member.leaving.is_none() {
            member.wanted = Some(Allotment {
                gpus: held,
                ..Allotment::default()
            });
            let text = format!("not ready on {count} GPUs ({why}); it stays on {held}");
            run.warn(&format!("{}: {text}", self.id(i)));
            self.tell_gpus(run, i, text);
            self.release_promises(run);
        }
    }

    /// Withdraws promises to waiting trainings if all promises together exceed the number of GPUs, because some GPUs
    /// were not released as expected. These trainings get GPUs from the next decision, or free ones.
    pub(super) fn release_promises(&mut self, run: &mut Run<'_>) {
        for i in (0..self.members.len()).rev() {
            let open = self.members.iter().filter(|m| m.stage != Stage::Ended);
            let all: u64 = open.map(|m| u64::from(m.wanted_gpus())).sum();
            let member = &mut self.members[i];
            let waits = member.stage == Stage::Waiting && member.wanted_gpus() > 0;
            if all > u64::from(self.count()) && waits {
                self.dismiss(run, i);
                self.members[i].wanted = None;
                self.tell_gpus(run, i, "its GPUs were not given up".to_owned());
            }
        }
    }

    /// Ends the standby processes of training `i`.
    pub(super) fn dismiss(&mut self, run: &mut Run<'_>, i: usize) {
        self.end_standby(run, i, self.settings.supervision.grace);
    }

    fn end_standby(&mut self, run: &mut Run<'_>, i: usize, grace: Duration) {
        let next = self.members[i].next.take();
        for rank in next.into_iter().flat_map(|next| next.ranks) {
            run.stop_within(rank.key, grace, "it is not needed any more".to_owned());
        }
    }
}
