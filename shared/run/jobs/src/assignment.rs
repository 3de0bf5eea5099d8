use std::ffi::OsString;
use std::path::PathBuf;

use units::{Batch, Share};

use crate::{JobSpec, LogLimits, Passing, ProgressError, ProgressSource, Units};

/// The work of a job, passed to it through the environment (worker protocol).
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Batch size, samples per step: `MT_BATCH_SIZE`.
    pub batch: Option<Batch>,
    /// Share of the device: `MT_SHARE_PERCENT`.
    pub share: Option<Share>,
    /// Kind of device: `MT_DEVICE`.
    pub device: &'static str,
    /// Round, from 0: `MT_ROUND`.
    pub round: u32,
    /// Stop after this many samples: `MT_SAMPLES`; absent: run until told to stop.
    pub samples: Option<u64>,
    /// Whether it gets orders on standard input: `MT_POOL=1`.
    pub orders: bool,
}

impl Assignment {
    /// The variables of the worker protocol, in a fixed order.
    #[must_use]
    pub fn variables(&self, task: &str) -> Vec<(&'static str, String)> {
        let mut all = vec![("MT_TASK", task.to_owned())];
        all.extend(self.batch.map(|b| ("MT_BATCH_SIZE", b.to_string())));
        let share = self.share.map(|s| s.percent().to_string());
        all.extend(share.map(|s| ("MT_SHARE_PERCENT", s)));
        all.push(("MT_DEVICE", self.device.to_owned()));
        all.push(("MT_ROUND", self.round.to_string()));
        all.extend(self.samples.map(|n| ("MT_SAMPLES", n.to_string())));
        if self.orders {
            all.push(("MT_POOL", "1".to_owned()));
        }
        all
    }

    /// Arguments with `{batch}`, `{share}` and `{samples}` replaced if known; other text in braces is unchanged.
    pub fn arguments(&self, argv: &[String]) -> impl Iterator<Item = String> {
        let known = [
            ("{batch}", self.batch.map(|b| b.to_string())),
            ("{share}", self.share.map(|s| s.percent().to_string())),
            ("{samples}", self.samples.map(|n| n.to_string())),
        ];
        argv.iter().map(move |word| {
            let mut word = word.clone();
            for (name, value) in &known {
                if let Some(value) = value {
                    word = word.replace(name, value);
                }
            }
            word
        })
    }
}

impl JobSpec {
    /// The program `argv` of a task with its assignment. Its environment combines [`Passing::base_environment`], the
    /// variables of the workload, the variables set for every job, and those of the worker protocol; later ones
    /// override earlier ones.
    ///
    /// # Errors
    /// [`ProgressError`] if the task's progress expression is not usable.
    pub fn for_task(
        task: &doc::Task,
        argv: &[String],
        assignment: &Assignment,
        log: PathBuf,
        passing: &Passing,
    ) -> Result<Self, ProgressError> {
        let job = task.job.as_ref();
        let progress = job.map_or(Ok(ProgressSource::Protocol), |job| {
            let units = Units {
                step: assignment.batch.map(|batch| u64::from(batch.get())),
                epoch: assignment.samples.or(task.samples.map(units::Samples::get)),
            };
            ProgressSource::from_document(&job.progress, units)
        })?;
        let mut env = passing.base_environment();
        let own = job.iter().flat_map(|j| &j.env).chain(passing.set());
        env.extend(own.map(|(name, value)| (name.into(), value.into())));
        let protocol = assignment.variables(task.id.as_str());
        env.extend(protocol.into_iter().map(|(n, v)| (n.into(), v.into())));
        Ok(Self {
            task: task.id.clone(),
            argv: assignment.arguments(argv).map(OsString::from).collect(),
            env,
            cwd: job.and_then(|j| j.cwd.as_ref()).map(PathBuf::from),
            orders: assignment.orders,
            progress,
            cgroup_procs: None,
            cpus: Vec::new(),
            origin: None,
            log,
            log_limits: LogLimits::default(),
        })
    }
}
