//! Starting the processes of a training.

use std::net::TcpListener;
use std::time::Duration;

use doc::{EventPayload, Job, PhaseKind, Task};
use host::{Gpus, Grant, Work};
use jobs::Order;
use runner::{Limits, Reports, Start};
use units::{Batch, Share};

use super::member::{Key, Rank, Stage, Standby};
use super::session::{ElasticLaunch, Run};

/// Placeholders in arguments for values that are known only at the start.
const PROCESSES: &str = "{processes}";
const BATCH: &str = "{batch}";
const BATCHES: &str = "{batches}";

/// One program to start.
struct Program {
    argv: Vec<String>,
    /// Variables in addition to those of the worker protocol.
    env: Vec<(String, String)>,
    gpus: Gpus,
    log: String,
}

impl ElasticLaunch<'_> {
    /// Starts training `i` on free GPUs. A failed start counts as a failure of the training.
    pub(super) fn start(&mut self, run: &mut Run<'_>, i: usize, gpus: Vec<usize>) {
        match self.admit(run, i, &gpus) {
            Ok(next) => {
                self.members[i].next = Some(next);
                self.take_over(run, i);
            }
            Err(why) => {
                self.free.retain(|gpu| !gpus.contains(gpu));
                let member = &mut self.members[i];
                member.retry_at = None;
                member.stage = Stage::Starting;
                member.gpus = gpus;
                member.fault = Some(why);
                self.group_ended(run, i);
            }
        }
    }

    /// Gives the standby processes of training `i` their GPUs, which are now free, and lets them train.
    pub(super) fn take_over(&mut self, run: &mut Run<'_>, i: usize) {
        let Some(next) = self.members[i].next.take() else {
            return;
        };
        self.free.retain(|gpu| !next.gpus.contains(gpu));
        let task = &self.workload.tasks[self.members[i].task];
        if task.job.as_ref().is_some_and(|job| job.pool) {
            for rank in &next.ranks {
                // Errors need no handling: the end of a process is reported as its exit, and a process that does not
                // read will miss the deadline for becoming ready.
                run.order(rank.key, Order::Run).ok();
            }
        }
        let now = run.now();
        let first = next.ranks.first().map(|rank| rank.key);
        let pid = first.and_then(|key| run.pid(key));
        if let Some(key) = first {
            run.limit(key, self.limits(), false);
        }
        let member = &mut self.members[i];
        member.retry_at = None;
        member.since = now;
        member.stage = Stage::Starting;
        (member.gpus, member.batch, member.ranks) = (next.gpus, next.batch, next.ranks);
        (member.parked, member.done, member.fault) = (false, false, None);
        member.progress.steps_since_ready = 0;
        member.progress.last_step = None;
        member.progress.longest = Duration::ZERO;
        let batch = member.batch;
        run.tell(EventPayload::Start {
            round: 0,
            task: self.id(i),
            batch: Batch::new(batch).ok(),
            share: None,
            gpu: None,
            beside: None,
            pid,
            predicted: None,
        });
    }

    /// Starts the processes of training `i` for `gpus`: one for each, or one that starts them itself.
    pub(super) fn admit(
        &mut self,
        run: &mut Run<'_>,
        i: usize,
        gpus: &[usize],
    ) -> Result<Standby, String> {
        let member = &self.members[i];
        let task = &self.workload.tasks[member.task];
        let batches = member.batches(gpus.len() as u32, task.batch_sizes.first().copied());
        let total: u64 = batches.iter().sum();
        let batches = match self.parts {
            Some(_) => vec![total],
            None => batches,
        };
        let batch = Batch::new(total)
            .map_err(|_| format!("no batch size is known for {} processes", gpus.len()))?;
        self.members[i].starts += 1;
        let keys = self.admit_all(run, i, gpus, &batches, batch)?;
        Ok(Standby {
            gpus: gpus.to_vec(),
            batch: total,
            ranks: keys
                .into_iter()
                .map(|key| Rank { key, exit: None })
                .collect(),
            loaded: false,
        })
    }

    /// The share that corresponds to this many parts, rounded down so that the sum does not exceed the device.
    pub(super) fn share_of(&self, parts: usize) -> Share {
        let all = Share::FULL.hundredths() as usize;
        let part = all * parts / self.count() as usize;
        Share::from_hundredths(u32::try_from(part).unwrap_or(u32::MAX))
    }

    fn admit_all(
        &mut self,
        run: &mut Run<'_>,
        i: usize,
        gpus: &[usize],
        batches: &[u64],
        batch: Batch,
    ) -> Result<Vec<Key>, String> {
        let member = &self.members[i];
        let start = member.starts;
        let task = &self.workload.tasks[member.task];
        let Some(job) = &task.job else {
            return Err("it has no program".to_owned());
        };
        let restarted = member.progress.step > 0 && !job.resume.is_empty();
        let samples = member.samples(u64::from(batch.get()));
        // On parts of one device, a training is a single process with the share of its parts.
        let (devices, share) = match self.parts {
            Some(_) => (&[0][..], self.share_of(gpus.len())),
            None => (gpus, Share::FULL),
        };
        let programs =
            programs(task, job, restarted, devices, batches).map_err(|e| e.to_string())?;
        let mut admitted = Vec::new();
        for (rank, program) in programs.into_iter().enumerate() {
            let mut task = self.workload.tasks[self.members[i].task].clone();
            if let Some(job) = &mut task.job {
                job.env.extend(program.env);
                // If the batch grows with the GPUs, the number of samples is unknown.
                let steps = member.arrival.total_steps.map(|n| n.to_string());
                job.env.extend(steps.map(|n| ("MT_STEPS".to_owned(), n)));
            }
            let work = Work {
                task: &task,
                phase: PhaseKind::Compute,
                argv: &program.argv,
                batch: Some(batch),
                env: &[],
                round: 0,
                samples,
                orders: job.pool,
                log: self.logs.join(program.log),
                log_limits: self.settings.supervision.log_limits,
            };
            let grant = Grant {
                gpus: program.gpus,
                start,
                ..Grant::of(share)
            };
            let key = Key {
                member: i,
                start,
                rank,
            };
            // Only rank 0 reports for a training.
            let limits = match rank {
                0 => Limits {
                    reports: Reports::Loaded,
                    ..self.limits()
                },
                _ => Limits::default(),
            };
            let start = Start {
                work: &work,
                grant: &grant,
                limits,
            };
            let why = match run.start(key, &start) {
                Ok(true) => {
                    admitted.push(key);
                    continue;
                }
                Ok(false) => "it has no program".to_owned(),
                Err(error) => error.to_string(),
            };
            for key in admitted {
                run.stop_within(key, Duration::ZERO, why.clone());
            }
            return Err(why);
        }
        Ok(admitted)
    }

    fn limits(&self) -> Limits {
        Limits {
            ready: self.settings.ready,
            stall: self.settings.stall,
            ..Limits::default()
        }
    }
}

/// Whether a single process of the task's program gets all GPUs of its training.
pub(super) fn is_together(task: &Task) -> bool {
    let holds = |argv: &[String]| argv.iter().any(|a| a.contains(PROCESSES));
    task.job
        .as_ref()
        .is_some_and(|job| holds(&job.argv) || holds(&job.resume))
}

/// The programs of a training on `gpus`: a single one if an argument contains `{processes}`, otherwise one for each
/// GPU, rank 0 first, so that it listens before the others connect.
fn programs(
    task: &Task,
    job: &Job,
    restarted: bool,
    gpus: &[usize],
    batches: &[u64],
) -> std::io::Result<Vec<Program>> {
    let count = gpus.len();
    let argv = if restarted { &job.resume } else { &job.argv };
    let together = argv.iter().any(|a| a.contains(PROCESSES));
    let sizes: Vec<String> = batches.iter().map(u64::to_string).collect();
    let total: u64 = batches.iter().sum();
    let filled = |argument: &String| {
        argument
            .replace(PROCESSES, &count.to_string())
            .replace(BATCHES, &sizes.join(","))
            .replace(BATCH, &total.to_string())
    };
    let argv: Vec<String> = argv.iter().map(filled).collect();
    let processes = ("MT_PROCESSES".to_owned(), count.to_string());
    if together {
        return Ok(vec![Program {
            argv,
            env: vec![processes],
            gpus: Gpus::of(gpus).ok_or_else(|| std::io::Error::other("it has no GPU"))?,
            log: format!("{}.log", task.id),
        }]);
    }
    // The port is free now. If it is in use later, the rank tries again, as the contract of such a job requires.
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let rank = |(rank, gpu): (usize, &usize)| {
        let variables = [
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", count.to_string()),
            // Each process sees only one GPU, which has number 0 there; the variable distinguishes the processes.
            ("LOCAL_RANK", rank.to_string()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", port.to_string()),
        ];
        let named = variables.map(|(name, value)| (name.to_owned(), value));
        Program {
            argv: argv.clone(),
            env: named.into_iter().chain([processes.clone()]).collect(),
            gpus: Gpus::one(*gpu),
            log: match rank {
                0 => format!("{}.log", task.id),
                _ => format!("{}.{rank}.log", task.id),
            },
        }
    };
    Ok(gpus.iter().enumerate().map(rank).collect())
}
