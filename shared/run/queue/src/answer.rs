//! The server's answers to its clients.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::book::{Demand, Group, Id, JobEnd, JobState, QueuedJob, Record};
use crate::message::{Reply, Request, ServerStatus, Status};
use crate::server::Keeper;

impl Keeper {
    /// Carries out a request; changes are on disk before the reply confirms them.
    pub(crate) fn answer(&mut self, request: Request) -> Reply {
        let done = match request {
            Request::Add { group, jobs } => self.add(group, jobs),
            Request::Status(ids) => Ok(Reply::Status(Box::new(self.status(&ids)))),
            Request::Overview => Ok(Reply::Status(Box::new(
                self.seen(Status::overview(&self.book)),
            ))),
            Request::Why(ids) => self
                .known(&ids)
                .map(|()| Reply::Told(self.why(&ids)))
                .map_err(Reply::Refused),
            Request::Cancel { ids, grace_ms } => {
                let grace = grace_ms.map(Duration::from_millis);
                self.graces
                    .extend(grace.iter().flat_map(|g| ids.iter().map(|id| (*id, *g))));
                self.cancel(&ids)
            }
            Request::Retry(ids) => self.retry(&ids),
            Request::Pause { ids, on } => self.pause(ids, on),
            Request::Wishes(wishes) => {
                let written = self.write(&[Record::Wishes(wishes)]);
                written.map_err(Reply::Failed).map(|()| {
                    self.policy.limit(self.place.limits(&self.book.wishes));
                    Reply::Jobs(Vec::new())
                })
            }
            Request::Stop => {
                self.stop();
                Ok(Reply::Jobs(Vec::new()))
            }
        };
        done.unwrap_or_else(|reply| reply)
    }

    fn add(&mut self, group: Group, mut jobs: Vec<QueuedJob>) -> Result<Reply, Reply> {
        // A client that got no answer has sent the request again.
        let known = self.book.of_token(&group.token);
        if !known.is_empty() {
            return Ok(Reply::Jobs(known));
        }
        let parts = self.parts(&group, &jobs)?;
        for (demand, _) in &parts {
            self.can_ever_run(demand)?;
        }
        let lacks = group.origin.as_ref().map_or_else(Vec::new, |o| o.refused());
        if !lacks.is_empty() {
            if self.may_hand_over() {
                self.hand_over();
            }
            return Err(format!(
                "its server cannot give the jobs what they would have from you: {}; stop it (mt queue --stop) and start it from here",
                lacks.join("; ")
            )
            .into());
        }
        self.known(&group.demand.after)?;
        let ids = self.book.next_ids(jobs.len());
        for (job, id) in jobs.iter_mut().zip(&ids) {
            job.id = *id;
        }
        let templates: Vec<String> = jobs.iter().map(|job| job.template.clone()).collect();
        let at_s = self.now();
        let first = ids.first().copied();
        let records: Vec<Record> = (parts.into_iter())
            .map(|(demand, count)| Record::Added {
                group: Group {
                    demand,
                    first,
                    ..group.clone()
                },
                jobs: jobs.drain(..count).collect(),
                at_s,
            })
            .collect();
        self.write(&records)
            .map_err(|error| Reply::Failed(format!("nothing was added: {error}")))?;
        for template in templates {
            self.policy.added(&template);
        }
        Ok(Reply::Jobs(ids))
    }

    /// The jobs of a request in consecutive parts: the jobs of one part may use the same devices. For each part its
    /// requirements and number of jobs.
    fn parts(&self, group: &Group, jobs: &[QueuedJob]) -> Result<Vec<(Demand, usize)>, String> {
        let mut parts: Vec<(Demand, usize)> = Vec::new();
        for job in jobs {
            let only = self.place.only(group, job)?;
            match parts.last_mut() {
                Some((demand, count)) if demand.only == only => *count += 1,
                _ => {
                    let demand = Demand {
                        only,
                        ..group.demand.clone()
                    };
                    parts.push((demand, 1));
                }
            }
        }
        Ok(parts)
    }

    /// Refuses requirements that none of the allowed devices can ever meet.
    fn can_ever_run(&self, demand: &Demand) -> Result<(), String> {
        let may = |at: &usize| self.policy.may_use(demand, *at);
        let allowed: Vec<usize> = (0..self.place.devices.len()).filter(may).collect();
        let gpus = |at: &&usize| self.place.devices[**at].cores.is_none();
        let count = allowed.iter().filter(gpus).count();
        if let Some(asked) = demand.gpus.filter(|&asked| asked > count) {
            return Err(format!(
                "a job requests {asked} whole GPUs, and it may use {count} ({}); request fewer, or name more in CUDA_VISIBLE_DEVICES",
                self.place.name
            ));
        }
        let most = allowed
            .iter()
            .map(|&at| self.policy.memory(at))
            .max()
            .unwrap_or(0);
        if let Some(asked) = demand.memory.filter(|&asked| asked > most) {
            return Err(format!(
                "a job requests {:.2} GB of memory, but {:.2} GB are available ({}); request less, or raise the limit with `mt queue --memory`",
                asked as f64 * 1e-9,
                most as f64 * 1e-9,
                self.place.name
            ));
        }
        Ok(())
    }

    /// Refuses numbers of unknown jobs.
    fn known(&self, ids: &[Id]) -> Result<(), String> {
        let unknown: Vec<String> = ids
            .iter()
            .filter(|id| !self.book.entries.contains_key(id))
            .map(ToString::to_string)
            .collect();
        match unknown.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "there is no job {}; `mt status` lists them",
                unknown.join(", ")
            )),
        }
    }

    fn cancel(&mut self, ids: &[Id]) -> Result<Reply, Reply> {
        self.known(ids)?;
        let at_s = self.now();
        let record = |id: &Id| {
            let entry = self.book.entries.get(id)?;
            match entry.state {
                JobState::Waiting => Some(Record::Ended {
                    id: *id,
                    at_s,
                    outcome: JobEnd::Cancelled,
                }),
                JobState::Running(_) => Some(Record::Cancelled(*id)),
                JobState::Ended { .. } => None,
            }
        };
        let ids: BTreeSet<&Id> = ids.iter().collect();
        let records: Vec<(Id, Record)> = ids
            .into_iter()
            .filter_map(|id| Some((*id, record(id)?)))
            .collect();
        let (changed, records): (Vec<Id>, Vec<Record>) = records.into_iter().unzip();
        self.write(&records).map_err(Reply::Failed)?;
        Ok(Reply::Jobs(changed))
    }

    fn retry(&mut self, ids: &[Id]) -> Result<Reply, Reply> {
        self.known(ids)?;
        // Admitted programs are started by other programs, which must also restart them.
        let may = |id: &&Id| {
            let entry = self.book.entries.get(id);
            entry.is_some_and(|entry| entry.is_ended() && entry.job.process.is_none())
        };
        let ids: BTreeSet<&Id> = ids.iter().collect();
        let changed: Vec<Id> = ids.into_iter().filter(may).copied().collect();
        let records: Vec<Record> = changed.iter().map(|id| Record::Retried(*id)).collect();
        self.write(&records).map_err(Reply::Failed)?;
        for id in &changed {
            if let Some(entry) = self.book.entries.get(id) {
                self.policy.added(&entry.job.template);
            }
        }
        Ok(Reply::Jobs(changed))
    }

    fn pause(&mut self, ids: Vec<Id>, on: bool) -> Result<Reply, Reply> {
        if ids.is_empty() {
            self.write(&[Record::Paused(on)]).map_err(Reply::Failed)?;
            return Ok(Reply::Jobs(ids));
        }
        self.known(&ids)?;
        let waits = |id: &Id| {
            self.book
                .entries
                .get(id)
                .is_some_and(|e| e.state == JobState::Waiting)
        };
        let ids: BTreeSet<Id> = ids.into_iter().collect();
        let changed: Vec<Id> = ids.into_iter().filter(waits).collect();
        let records: Vec<Record> = changed.iter().map(|&id| Record::Held { id, on }).collect();
        self.write(&records).map_err(Reply::Failed)?;
        Ok(Reply::Jobs(changed))
    }

    fn status(&self, ids: &[Id]) -> Status {
        self.seen(Status::of(&self.book, ids))
    }

    /// Adds what only the server knows: its own state, shares, progress, reasons to wait.
    fn seen(&self, mut status: Status) -> Status {
        for job in &mut status.jobs {
            let running = self.book.entries.get(&job.id).filter(|e| e.is_running());
            job.share_percent = running.map(|entry| self.book.share(entry).percent());
            job.env = self.lent.get(&job.id).cloned().unwrap_or_default();
            job.waits = self.policy.wait(&self.book, job.id);
            if let Some((progress, unit)) = self.progress(job.id) {
                (job.progress, job.unit) = (Some(progress), Some(unit.to_owned()));
            }
        }
        let limits = self.policy.limits();
        let usual =
            (0..self.place.devices.len()).filter(|&at| self.policy.may_use(&Demand::default(), at));
        let learnt = self
            .policy
            .learnt()
            .filter(|(_, all)| !all.is_empty())
            .map(|(kind, all)| (kind.clone(), all.clone()));
        status.server = Some(ServerStatus {
            pid: std::process::id(),
            device: self.place.name.clone(),
            most: limits.most,
            memory: usual
                .map(|at| self.policy.memory(at))
                .fold(0, u64::saturating_add),
            tries: Some(self.policy.tries().join("; ")).filter(|tries| !tries.is_empty()),
            trouble: self
                .trouble
                .clone()
                .or_else(|| self.unlogged.clone())
                .or_else(|| self.unreadable()),
            learnt: learnt.collect(),
            devices: self.devices(),
        });
        status
    }
}
