//! Events of jobs and requests of clients, and when the server ends.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use host::Gpus;
use jobs::{Exit, Happening};
use runner::{Ended, Happened, Policy, Stop, Verdict};
use units::TaskId;

use super::{Keeper, Run};
use crate::book::{Id, JobEnd, Record};
use crate::policy::{Fault, Gone};

/// A server without jobs ends after this time; the next client starts a new one.
const IDLE: Duration = Duration::from_secs(60);

impl Policy for Keeper {
    type Key = Id;

    fn task(&self, id: Id) -> TaskId {
        TaskId::new(&id.to_string()).unwrap_or_else(|_| self.unnamed.clone())
    }

    fn decide(&mut self, run: &mut Run<'_>) {
        self.see_faults(run);
        if self.owed.is_empty() && !self.stopping {
            self.start_what_may(run);
        }
    }

    /// Not used: the server reads progress from the output of jobs itself, in any form.
    fn happened(&mut self, _: &mut Run<'_>, _: Id, _: Instant, _: &Happened) {}

    /// Writes the message to the job's log or, if that fails, into the state of the queue.
    fn told(&mut self, _: &mut Run<'_>, id: Id, what: &Happening) {
        if let Some(told) = what.told(&format!("job {id}")) {
            self.note(id, told);
        }
    }

    fn ended(&mut self, run: &mut Run<'_>, id: Id, ended: &Ended) -> Result<(), String> {
        self.read_lines();
        // A job that is ended with the queue waits for the next server. Processes that it left behind were killed with
        // it.
        if run.is_stopping() {
            return Ok(());
        }
        if let Some(told) = jobs::strays_told(&ended.strays) {
            self.note(id, format!("job {id}: {told}"));
        }
        self.live.remove(&id);
        self.graces.remove(&id);
        let (on_gpus, of_machine) = self.peaks.take(id, ended.peak_bytes);
        let shown = on_gpus.or(of_machine);
        self.owed
            .extend(shown.map(|bytes| Record::Peak { id, bytes }));
        let Some(entry) = self.book.entries.get(&id).cloned() else {
            return Ok(());
        };
        let outcome = match (&ended.verdict, ended.exit) {
            // The runner ends jobs of a queue only for their time limit.
            (Verdict::Ended, _) => JobEnd::TimedOut,
            (_, Exit::Code(0)) => JobEnd::Done,
            (_, Exit::Code(code)) => JobEnd::Failed(code),
            (_, Exit::Signal(signal)) => JobEnd::Killed(signal),
        };
        let out_of_memory = matches!(ended.verdict, Verdict::OutOfMemory(_));
        let fault = match (ended.culprit, &ended.verdict) {
            (true, _) => Fault::Own,
            (_, Verdict::Fault) => Fault::Foreign,
            _ => Fault::None,
        };
        let gone = Gone {
            out_of_memory,
            fault,
            peak: match self.is_on_gpu(id) {
                true => on_gpus,
                false => of_machine,
            },
            ..Gone::from(outcome)
        };
        let promised = self.book.demand(&entry).at_most_slower.is_some();
        let slower = self.policy.slower(id).filter(|_| promised);
        self.owed.extend(slower.map(|percent| Record::Slower {
            id,
            percent: percent.max(0.0).round() as u32,
        }));
        let now = self.now();
        let record = self.policy.exited(&self.book, &entry, gone, now);
        self.owed.push(record);
        Ok(())
    }

    /// Tells the policy that these GPUs cannot be used.
    fn gpus_lost(&mut self, run: &mut Run<'_>, gpus: &Gpus, why: &str) -> bool {
        for &at in gpus.numbers() {
            self.gone.insert(at, why.to_owned());
        }
        self.see_faults(run);
        true
    }

    fn failed(&mut self, _: &mut Run<'_>, _: Id, _: String) {}

    fn stopped(&mut self, run: &mut Run<'_>, why: &Stop) {
        self.stopping = true;
        let live: Vec<Id> = self.live.keys().copied().collect();
        for id in live {
            run.stop_within(id, self.grace(id), why.to_string());
        }
    }

    fn turned(&mut self, run: &mut Run<'_>) {
        self.read_lines();
        if run.is_stopping() {
            return;
        }
        self.look_at_others();
        self.look_at_processors(run);
        self.look_at_devices(run);
        self.answer_calls();
        self.pay();
        self.keep_learnt();
        let idle = !self.book.is_busy();
        if !idle {
            self.busy = Instant::now();
        }
        self.stopping |= idle && self.busy.elapsed() > IDLE;
        // If the folder was removed, no client can reach this server, and nothing it writes would be kept.
        self.stopping |= !self.has_folder();
        if self.stopping {
            run.give_up("the queue ends".to_owned());
        }
    }

    fn due(&self, _: &Run<'_>) -> Option<Instant> {
        None
    }

    fn is_over(&self, _: &Run<'_>) -> bool {
        self.stopping
    }
}

impl Keeper {
    fn is_on_gpu(&self, id: Id) -> bool {
        let devices = self.policy.spot(id).map(|spot| &spot.devices);
        let mut own = devices.into_iter().flatten();
        own.any(|&at| self.place.devices[at].cores.is_none())
    }

    fn answer_calls(&mut self) {
        while let Ok((request, answer)) = self.calls.try_recv() {
            self.busy = Instant::now();
            // Answers come from the book, so pending records must be written to it first.
            self.pay();
            let reply = self.answer(request);
            if self.handing_over {
                // Without an answer the client starts a new server, as if this one had died.
                return;
            }
            self.has_answered = true;
            // A client that has gone gets no reply, but its request is done.
            answer.send(reply).ok();
        }
    }

    /// Writes a message for the user into a job's log.
    fn note(&mut self, id: Id, told: String) {
        let log = fs::OpenOptions::new().append(true).open(self.log(id));
        if log.and_then(|mut log| writeln!(log, "mt: {told}")).is_err() {
            self.unlogged = Some(told);
        }
    }
}
