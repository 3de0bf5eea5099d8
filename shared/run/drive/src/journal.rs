//! The state of a run on disk, so that the run can continue after this process was killed or the machine restarted.
//!
//! The start of a task is in the journal before the task starts, and its end before anything depends on it. A task that
//! was running at the kill has a start but no end: it is restarted, with its `resume` command if it has one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use doc::Cluster;
use jobs::{Records, RecordsError, RunDir, process};
use serde::{Deserialize, Serialize};

use crate::TaskPlace;

/// The properties by which the journal identifies a job: another schedule of the same jobs can continue the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    id: String,
    rounds: u32,
    tasks: u32,
}

/// A process has started the run, or continues it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opened {
    /// Time of the first launch of the run, seconds since 1970.
    launched_s: f64,
    boot: String,
    /// The run directory, by which processes that are left running are found.
    folder: PathBuf,
    jobs: Vec<Shape>,
}

/// A task of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    job: String,
    round: usize,
    task: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Record {
    Opened(Opened),
    /// A task is about to be started.
    Started(Task),
    /// A task has trained and synchronised.
    Done {
        task: Task,
        /// Seconds since the launch.
        at_s: f64,
    },
    /// A task of a gang has failed: completed tasks of the round are repeated.
    Undone {
        job: String,
    },
}

/// Progress of a run when its last process ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past {
    opened: Option<Opened>,
    /// Tasks that have been started, done or not.
    pub started: BTreeSet<TaskPlace>,
    /// Tasks that are done, with the time in seconds since the launch.
    pub done: BTreeMap<TaskPlace, f64>,
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The journal exists, but the user did not ask to continue it.
    #[error(
        "{path} is the journal of a run with {done} of {of} tasks done: go on with --resume, or name another file"
    )]
    Begun {
        path: String,
        done: usize,
        of: usize,
    },
    #[error("{0}: this journal belongs to other jobs than the schedule's; name another file")]
    OtherJobs(String),
    #[error("{0}")]
    Left(String),
}

/// The journal of a run; without a file it records nothing.
#[derive(Debug, Default)]
pub(crate) struct TaskJournal {
    records: Option<Records>,
    /// Records that are not on disk yet.
    owed: Vec<Record>,
}

impl Past {
    /// Seconds from the launch of the run until now, if an earlier process has started it.
    pub fn elapsed(&self) -> Option<f64> {
        let launched = self.opened.as_ref()?.launched_s;
        let last = self.done.values().copied().fold(0.0, f64::max);
        // The clock may have been set back.
        Some((since_1970() - launched).max(last))
    }

    fn apply(
        &mut self,
        record: Record,
        jobs: &[Shape],
        names: &BTreeMap<&str, usize>,
    ) -> Result<(), String> {
        let place = |t: &Task| {
            let job = names
                .get(t.job.as_str())
                .copied()
                .filter(|&n| t.round < jobs[n].rounds as usize && t.task < jobs[n].tasks as usize);
            let (round, task) = (t.round, t.task);
            let place = job.map(|job| TaskPlace { job, round, task });
            place.ok_or_else(|| format!("no task {task} of round {round} of job {:?}", t.job))
        };
        match record {
            Record::Opened(opened) => self.opened = Some(opened),
            Record::Started(task) => {
                self.started.insert(place(&task)?);
            }
            Record::Done { task, at_s } => {
                let place = place(&task)?;
                let before = place.round.checked_sub(1);
                let whole = before.is_none_or(|round| {
                    let mut own = 0..jobs[place.job].tasks as usize;
                    own.all(|task| {
                        self.done.contains_key(&TaskPlace {
                            round,
                            task,
                            ..place
                        })
                    })
                });
                if !whole || !self.started.contains(&place) {
                    let Task { job, round, task } = task;
                    return Err(format!(
                        "task {task} of round {round} of job {job:?} ends and was not to be started"
                    ));
                }
                self.done.insert(place, at_s);
            }
            Record::Undone { job } => {
                let n = names
                    .get(job.as_str())
                    .copied()
                    .ok_or_else(|| format!("no job {job:?}"))?;
                let tasks = jobs[n].tasks as usize;
                self.forget_part(n, tasks);
            }
        }
        Ok(())
    }

    /// Forgets the completed tasks of a job's last round if the round is incomplete.
    fn forget_part(&mut self, job: usize, tasks: usize) {
        let own = self.done.keys().filter(|p| p.job == job);
        let Some(round) = own.map(|p| p.round).max() else {
            return;
        };
        let of_round = |p: &TaskPlace| (p.job, p.round) == (job, round);
        if self.done.keys().filter(|p| of_round(p)).count() < tasks {
            self.done.retain(|p, _| !of_round(p));
        }
    }
}

impl TaskJournal {
    /// Opens the journal of a run and reads its progress; a new run has none.
    ///
    /// # Errors
    /// [`JournalError`]; without `resume`, also if the journal contains a run.
    pub fn open(
        path: &Path,
        resume: bool,
        cluster: &Cluster,
    ) -> Result<(Self, Past), JournalError> {
        let mut past = Past::default();
        let jobs = shapes(cluster);
        let numbers = jobs.iter().enumerate().map(|(n, j)| (j.id.as_str(), n));
        let names: BTreeMap<&str, usize> = numbers.collect();
        let mut other = false;
        let taken = |record: Record| {
            if let Record::Opened(opened) = &record {
                other |= opened.jobs != jobs;
            }
            // A journal of other jobs does not match.
            if other {
                Ok(())
            } else {
                past.apply(record, &jobs, &names)
            }
        };
        let records = Records::open(path, taken)?;
        let name = path.display().to_string();
        if other {
            return Err(JournalError::OtherJobs(name));
        }
        if past.opened.is_some() && !resume {
            let volume = cluster.jobs.iter().map(|j| j.volume() as usize);
            return Err(JournalError::Begun {
                path: name,
                done: past.done.len(),
                of: volume.sum(),
            });
        }
        for (n, job) in cluster.jobs.iter().enumerate() {
            // A gang completes a round only as a whole.
            if job.gang.is_some() {
                past.forget_part(n, job.tasks as usize);
            }
        }
        let own = Self {
            records: Some(records),
            owed: Vec::new(),
        };
        Ok((own, past))
    }

    /// Whether it is written to a file.
    pub fn is_kept(&self) -> bool {
        self.records.is_some()
    }

    /// Records that this process runs it in `folder`, after everything that the previous process left has ended.
    ///
    /// # Errors
    /// [`JournalError::Left`] if a process that was left does not end; [`JournalError::Records`].
    pub fn begin(
        &mut self,
        past: &Past,
        folder: &Path,
        cluster: &Cluster,
    ) -> Result<(), JournalError> {
        let Some(records) = &mut self.records else {
            return Ok(());
        };
        let boot = process::boot();
        if let Some(before) = past.opened.as_ref().filter(|o| o.boot == boot) {
            RunDir::put_away(&before.folder).map_err(JournalError::Left)?;
        }
        let opened = Opened {
            launched_s: since_1970() - past.elapsed().unwrap_or(0.0),
            boot,
            folder: folder.to_owned(),
            jobs: shapes(cluster),
        };
        Ok(records.append(&[Record::Opened(opened)])?)
    }

    /// A task is about to be started.
    pub fn started(&mut self, cluster: &Cluster, place: TaskPlace) -> Result<(), RecordsError> {
        self.note(Record::Started(task(cluster, place)))
    }

    /// A task is done; `at_s`: seconds since the launch.
    pub fn done(
        &mut self,
        cluster: &Cluster,
        place: TaskPlace,
        at_s: f64,
    ) -> Result<(), RecordsError> {
        let task = task(cluster, place);
        self.note(Record::Done { task, at_s })
    }

    /// A task of a gang has failed.
    pub fn undone(&mut self, cluster: &Cluster, job: usize) -> Result<(), RecordsError> {
        let job = cluster.jobs[job].id.to_string();
        self.note(Record::Undone { job })
    }

    /// Writes a record. Records that cannot be written (the disk may be full) are kept, and written before later ones.
    /// Of several consecutive failures, only the first is reported.
    fn note(&mut self, record: Record) -> Result<(), RecordsError> {
        let Some(records) = &mut self.records else {
            return Ok(());
        };
        let first = self.owed.is_empty();
        self.owed.push(record);
        match records.append(&self.owed) {
            Ok(()) => self.owed.clear(),
            Err(error) if first => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }
}

fn task(cluster: &Cluster, place: TaskPlace) -> Task {
    Task {
        job: cluster.jobs[place.job].id.to_string(),
        round: place.round,
        task: place.task,
    }
}

fn shapes(cluster: &Cluster) -> Vec<Shape> {
    let shape = |job: &doc::ClusterJob| Shape {
        id: job.id.to_string(),
        rounds: job.rounds,
        tasks: job.tasks,
    };
    cluster.jobs.iter().map(shape).collect()
}

fn since_1970() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |d| d.as_secs_f64())
}
