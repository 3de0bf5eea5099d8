//! Applies a decision to the trainings.

use std::time::Duration;

use doc::{Allocation, EventPayload, TrainingNews};
use host::Regrants;

use super::member::{Allotment, Key, Leaving, Member, Stage};
use super::session::{ElasticLaunch, Run, TOLD};

/// How long a training without a GPU waits for a decision while GPUs are free. A controller usually answers within
/// milliseconds, and even one that plans for seconds on a loaded machine is faster than this.
const PATIENCE: Duration = Duration::from_secs(10);

impl ElasticLaunch<'_> {
    /// Applies the newest decision when no training is moving. After the previous decision it waits at least as long as
    /// that one paused a training, so at least half of the time is spent on training, whatever the controller decides.
    pub(super) fn take_decision(&mut self, run: &mut Run<'_>) {
        let moving = self.members.iter().any(Member::is_moving);
        let early = run.now() < self.decided + self.last_pause;
        if self.pending.is_none() || moving || early {
            return;
        }
        let Some(decision) = self.pending.take() else {
            return;
        };
        match self.check(&decision) {
            Ok(()) => self.apply(run, &decision),
            Err(why) => {
                self.refusals += 1;
                if self.refusals <= TOLD {
                    let seq = decision.seq;
                    let text = format!("decision {seq} of the controller is refused: {why}");
                    run.warn(&text);
                }
            }
        }
    }

    fn check(&self, decision: &Allocation) -> Result<(), String> {
        if decision.seq <= self.seq {
            return Err(format!("decision {} has been taken already", self.seq));
        }
        let has = self.count() - self.lost.len() as u32;
        let mut sum = 0;
        for member in self.members.iter().filter(|m| m.stage != Stage::Ended) {
            let (id, arrival) = (&member.arrival.task, &member.arrival);
            let gpus = match decision.trainings.get(id) {
                Some(allotment) => allotment.gpus,
                None => member.wanted_gpus(),
            };
            sum += u64::from(gpus);
            let least = arrival.min_gpus.unwrap_or(1);
            if gpus > 0 && gpus < least {
                return Err(format!("{id} needs {least} GPUs and is given {gpus}"));
            }
            if arrival.max_gpus.is_some_and(|most| gpus > most) {
                return Err(format!("{id} cannot use {gpus} GPUs"));
            }
        }
        if sum > u64::from(has) {
            return Err(format!("it allocates {sum} GPUs, but there are {has}"));
        }
        Ok(())
    }

    fn apply(&mut self, run: &mut Run<'_>, decision: &Allocation) {
        self.seq = decision.seq;
        self.decided = run.now();
        self.told_silent = false;
        self.tell_controller(run, TrainingNews::Ack { seq: decision.seq });
        for i in 0..self.members.len() {
            let Some(allotment) = decision.trainings.get(&self.id(i)) else {
                continue;
            };
            if self.members[i].stage == Stage::Ended || self.members[i].leaving.is_some() {
                continue;
            }
            if allotment.reached {
                self.leave(run, i, Leaving::Reached);
                continue;
            }
            let changed = self.members[i].wanted_gpus() != allotment.gpus;
            self.members[i].wanted = Some(Allotment {
                gpus: allotment.gpus,
                batches: allotment.batches.clone(),
                expected: allotment.expected,
            });
            if changed {
                let reason = format!("decision {}: {}", decision.seq, decision.reason);
                self.tell_gpus(run, i, reason);
            }
        }
    }

    pub(super) fn tell_gpus(&mut self, run: &mut Run<'_>, i: usize, reason: String) {
        let wanted = self.members[i].wanted.clone().unwrap_or_default();
        run.tell(EventPayload::Reshare {
            round: 0,
            task: self.id(i),
            share: None,
            gpus: Some(wanted.gpus),
            expected_end: wanted.expected.map(|e| e.end),
            reason,
        });
    }

    /// Gives free GPUs to trainings without a decision: the controller is gone, has not mentioned them for a while,
    /// or changes nothing.
    pub(super) fn help_the_forgotten(&mut self, run: &mut Run<'_>) {
        let now = run.now();
        let idle = !self.members.iter().any(Member::runs);
        let quiet = now >= self.decided + PATIENCE && self.pending.is_none();
        let alive = self.controller.is_alive();
        let forgotten: Vec<usize> = (0..self.members.len())
            .filter(|&i| {
                let m = &self.members[i];
                let waits = m.stage == Stage::Waiting && m.leaving.is_none();
                let alone = !alive || (quiet && (m.wanted.is_none() || idle));
                waits && m.wanted_gpus() == 0 && alone
            })
            .collect();
        // When one training has waited long enough, trainings that arrived a moment later share the GPUs with it;
        // otherwise the first would take all of them.
        let overdue = |&i: &usize| now >= self.members[i].arrived + PATIENCE;
        if forgotten.is_empty() || (alive && !forgotten.iter().any(overdue)) {
            return;
        }
        // GPUs that a training waits for, or is about to get, are not free.
        let open = self.members.iter().filter(|m| m.stage != Stage::Ended);
        let promised: usize = open
            .map(|m| (m.wanted_gpus() as usize).saturating_sub(m.gpus.len()))
            .sum();
        let mut free = self.free.len().saturating_sub(promised);
        for (at, &i) in forgotten.iter().enumerate() {
            let arrival = &self.members[i].arrival;
            let least = arrival.min_gpus.unwrap_or(1);
            let most = arrival.max_gpus;
            let fair = (free / (forgotten.len() - at)) as u32;
            let gpus = fair.max(least).min(most.unwrap_or(u32::MAX));
            if gpus as usize > free {
                continue;
            }
            free -= gpus as usize;
            if alive && !self.told_silent {
                self.told_silent = true;
                let text = "the controller does not decide; trainings that wait get free GPUs";
                run.warn(text);
            }
            self.members[i].wanted = Some(Allotment {
                gpus,
                ..Allotment::default()
            });
            self.tell_gpus(
                run,
                i,
                "free GPUs, because the controller does not answer".to_owned(),
            );
        }
    }

    /// Moves parts of a device between running processes without stopping them, if shares can change at run time.
    /// Trainings that give up parts go first.
    fn regrant(&mut self, run: &mut Run<'_>) {
        if self.parts.is_none() || run.regrants() != Regrants::Now {
            return;
        }
        for grows in [false, true] {
            for i in 0..self.members.len() {
                let member = &self.members[i];
                let wanted = member.wanted_gpus() as usize;
                let held = member.gpus.len();
                let more = wanted.saturating_sub(held);
                let differs = wanted > 0 && wanted != held && (more > 0) == grows;
                if differs && member.stage == Stage::Training && more <= self.free.len() {
                    self.reshare(run, i, wanted);
                }
            }
        }
    }

    fn reshare(&mut self, run: &mut Run<'_>, i: usize, parts: usize) {
        // Reports the progress so far, which was made at the previous share.
        self.report_one(run, i, true);
        let share = self.share_of(parts);
        let keys: Vec<Key> = self.members[i].ranks.iter().map(|r| r.key).collect();
        for key in keys {
            if let Err(error) = run.regrant(key, share) {
                let held = u32::try_from(self.members[i].gpus.len()).unwrap_or(u32::MAX);
                self.members[i].wanted = Some(Allotment {
                    gpus: held,
                    ..Allotment::default()
                });
                self.tell_gpus(run, i, format!("its share stays: {error}"));
                return self.release_promises(run);
            }
        }
        let member = &mut self.members[i];
        while member.gpus.len() > parts {
            self.free.extend(member.gpus.pop());
        }
        while member.gpus.len() < parts
            && let Some(part) = self.free.pop_first()
        {
            member.gpus.push(part);
        }
        member.worked_on = u32::try_from(parts).ok();
    }

    /// Stops the trainings whose GPUs must change, and starts those that can start. While processes of the next
    /// allocation load, their predecessors continue to train.
    pub(super) fn reconcile(&mut self, run: &mut Run<'_>) {
        self.regrant(run);
        let open = !run.is_stopping() && !run.is_faulted();
        if open {
            self.stand_by(run);
        }
        let loads = |m: &Member| m.next.as_ref().is_some_and(|next| !next.loaded);
        let loading = self.members.iter().any(loads);
        for i in 0..self.members.len() {
            let member = &self.members[i];
            let runs = matches!(member.stage, Stage::Starting | Stage::Training);
            let differs = member.wanted_gpus() as usize != member.gpus.len();
            if runs && differs && (!loading || member.leaving.is_some()) {
                self.stop(run, i);
            }
        }
        let now = run.now();
        for i in (0..self.members.len()).filter(|_| open) {
            let member = &self.members[i];
            let wanted = member.wanted_gpus() as usize;
            let waits = member.stage == Stage::Waiting && wanted > 0;
            if !waits || member.retry_at.is_some_and(|at| at > now) {
                continue;
            }
            if let Some(next) = &member.next {
                if next.gpus.iter().all(|gpu| self.free.contains(gpu)) {
                    self.take_over(run, i);
                }
                continue;
            }
            let open = self.unreserved();
            if wanted <= open.len() {
                self.start(run, i, open.into_iter().take(wanted).collect());
            }
        }
    }
}
