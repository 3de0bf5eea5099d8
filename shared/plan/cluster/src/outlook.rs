//! Forecast for a running cluster: ends of jobs with their intervals, and why jobs wait.

use doc::{ExpectedEnd, JobState, JobStatus, TaskStatus};
use units::{Seconds, TaskId, UnitError, Weight};

use crate::live::Live;
use crate::state::{ClusterState, Underway};
use crate::{Assignment, Problem};

/// The names of jobs and GPUs, by their numbers.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// Names of the jobs.
    pub jobs: &'a [TaskId],
    /// Names of the GPUs.
    pub gpus: &'a [String],
}

/// A cluster at one moment, and its plan.
pub(crate) struct Outlook<'a, N> {
    pub live: &'a Live<N>,
    /// Forecast of the running tasks.
    pub state: &'a ClusterState,
    /// The jobs as they are planned: rounds may be merged.
    pub planned: &'a Problem,
    /// The assignments expected from now on.
    pub future: &'a [Assignment],
    pub now: f64,
}

impl<N> Outlook<'_, N> {
    /// Status of every job: its progress, its expected end and, if it waits, the reason.
    ///
    /// # Errors
    /// [`UnitError`] if a time is out of range for a document.
    pub fn statuses(&self, names: &Names<'_>) -> Result<Vec<JobStatus>, UnitError> {
        let ahead = self.ahead();
        let all = 0..ahead.len();
        all.map(|n| self.status(n, &ahead[n], names)).collect()
    }

    fn ahead(&self) -> Vec<Ahead> {
        let mut ahead = vec![Ahead::default(); self.live.jobs.len()];
        for a in self.future {
            let own = &mut ahead[a.job];
            own.tasks += a.rounds;
            own.end = own.end.max(a.last_synced());
            if own.first.is_none_or(|(start, _)| a.start < start) {
                own.first = Some((a.start, a.gpu));
            }
        }
        ahead
    }

    fn status(&self, n: usize, ahead: &Ahead, names: &Names<'_>) -> Result<JobStatus, UnitError> {
        let job = &self.live.problem.jobs[n];
        let standing = &self.live.jobs[n];
        let own = self.live.running.iter().filter(|r| r.job == n);
        let running: Vec<TaskStatus> = own
            .map(|r| TaskStatus {
                task: r.task as u32,
                gpu: names.gpus[r.gpu].clone(),
                trains: r.training,
            })
            .collect();
        let state = match (standing.abandoned, standing.completed, running.is_empty()) {
            (Some(_), ..) => JobState::Cancelled,
            (_, Some(_), _) => JobState::Done,
            (_, _, false) => JobState::Running,
            (_, _, true) => JobState::Waiting,
        };
        let open = matches!(state, JobState::Running | JobState::Waiting);
        let first = ahead.first.filter(|_| open);
        let next = first.map(|(at, gpu)| Ok((Seconds::new(at)?, names.gpus[gpu].clone())));
        let end = match standing.completed {
            Some(at) => Some((at, at, at)),
            None if open => self.end(n, ahead),
            None => None,
        };
        let end = end.map(|(at, low, high)| {
            Ok(ExpectedEnd {
                at: Seconds::new(at)?,
                low: Seconds::new(low)?,
                high: Seconds::new(high)?,
            })
        });
        let deadline = Some(job.deadline).filter(|d| d.is_finite());
        Ok(JobStatus {
            job: names.jobs[n].clone(),
            state,
            weight: Weight::new(job.weight)?,
            rounds_done: standing.abandoned.unwrap_or(standing.round) as u32,
            rounds: job.rounds as u32,
            waits: (state == JobState::Waiting).then(|| self.reason(n, first, names)),
            running: if open { running } else { Vec::new() },
            next: next.transpose()?,
            end: end.transpose()?,
            deadline: deadline.map(Seconds::new).transpose()?,
        })
    }

    /// Expected completion of a job, with the bounds of its likely range; `None` if not all its
    /// remaining tasks have a planned GPU.
    fn end(&self, n: usize, ahead: &Ahead) -> Option<(f64, f64, f64)> {
        let job = &self.planned.jobs[n];
        let progress = &self.state.jobs[n];
        let rounds = job.rounds.saturating_sub(progress.round);
        let left = (rounds * job.tasks).saturating_sub(progress.started);
        let under_way = match rounds {
            0 => progress.ready,
            _ => progress.synced,
        };
        let end = ahead.end.max(under_way).max(self.now);
        let whole = ahead.tasks == left && end.is_finite();
        // For a running task the whole duration deviates, not only the rest of it.
        let under_way = |r: &&Underway| {
            let before = ahead
                .first
                .is_some_and(|(_, gpu)| r.gpu == gpu && r.training);
            r.job == n || before
        };
        let since = self
            .live
            .running
            .iter()
            .filter(under_way)
            .map(|r| r.started)
            .fold(self.now, f64::min);
        let all = end - since;
        let factor = self.live.deviations.factor();
        let low = (since + all / factor).max(self.now);
        whole.then_some((end, low, since + all * factor))
    }

    /// Why a job without tasks under way waits.
    fn reason(&self, n: usize, first: Option<(f64, usize)>, names: &Names<'_>) -> String {
        let (live, job) = (self.live, &self.live.problem.jobs[n]);
        if job.arrival > self.now {
            return format!("it arrives at {:.1} s", job.arrival);
        }
        let can = |m: &usize| job.train[live.problem.gpus[*m]].is_finite();
        let usable = |m: &usize| live.usable[*m];
        let able: Vec<usize> = (0..live.usable.len()).filter(can).filter(usable).collect();
        let runs = |m: usize| live.training_on(m).next();
        let free: Vec<usize> = able
            .iter()
            .copied()
            .filter(|&m| runs(m).is_none())
            .collect();
        let at_once = if job.gang.is_some() { job.tasks } else { 1 };
        if able.len() < at_once {
            let left = able.len();
            return format!("it needs {at_once} GPUs that can run it, and {left} are usable");
        }
        let Some((start, gpu)) = first else {
            return "no set of GPUs that is left can run it".to_owned();
        };
        if job.gang.is_some() {
            let free = free.len();
            return format!("it needs {at_once} GPUs at once, and {free} that can run it are free");
        }
        let starts_before = |a: &&Assignment| a.gpu == gpu && a.start < start && a.job != n;
        let mut before: Vec<usize> = self
            .future
            .iter()
            .filter(starts_before)
            .map(|a| a.job)
            .collect();
        before.sort_unstable();
        before.dedup();
        let at = &names.gpus[gpu];
        let mut text = match runs(gpu) {
            Some(other) => format!("{at} runs {}", names.jobs[other.job]),
            None => format!("{at} is kept for others"),
        };
        match before.len() {
            0 => text += ", and it is next there",
            1 => text += &format!(", and {} goes before it there", names.jobs[before[0]]),
            k => text += &format!(", and {k} jobs go before it there"),
        }
        if let Some(other) = free.iter().find(|&&m| m != gpu) {
            text += &format!(
                "; on {}, which is free, it would cost more",
                names.gpus[*other]
            );
        }
        text
    }
}

/// Plan for a job.
#[derive(Debug, Clone, Copy, Default)]
struct Ahead {
    tasks: usize,
    end: f64,
    first: Option<(f64, usize)>,
}
