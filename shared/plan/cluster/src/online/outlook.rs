//! Forecast for a running cluster: ends of jobs with their intervals, and why jobs wait.

use doc::{ExpectedEnd, JobState, JobStatus, TaskStatus};
use units::{Seconds, TaskId, UnitError, Weight};

use crate::state::{State, Underway};
use crate::{Assignment, Problem};

/// How far durations of tasks have deviated from expectations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deviations {
    tasks: f64,
    /// Sum of squared logarithms of measured over expected.
    squares: f64,
}

/// Prior standard deviation of the logarithm of durations, and the number of tasks that it counts for: an
/// estimate from a profile is seldom better than a tenth and seldom worse than a third. Chosen by hand.
const ASSUMED: f64 = 0.2;
const ASSUMED_TASKS: f64 = 4.0;

/// A normal variable is below this many standard deviations in 95 of 100 cases.
const NINETEEN_OF_TWENTY: f64 = 1.645;

impl Deviations {
    /// A task that was expected to train until `trained` has trained now.
    pub fn note(&mut self, task: &Underway, now: f64) {
        let (expected, measured) = (task.trained - task.started, now - task.started);
        if expected > 0.0 && measured > 0.0 {
            self.tasks += 1.0;
            self.squares += (measured / expected).ln().powi(2);
        }
    }

    /// In all but one of twenty cases, the rest of a job takes at most this many times as long, and at
    /// least this fraction.
    ///
    /// As if all its tasks deviated alike: that is so where an estimate is wrong for a whole job, and too
    /// wide where tasks deviate by chance, each on its own.
    #[must_use]
    pub fn factor(&self) -> f64 {
        let squares = ASSUMED_TASKS * ASSUMED * ASSUMED + self.squares;
        let spread = (squares / (ASSUMED_TASKS + self.tasks)).sqrt();
        (NINETEEN_OF_TWENTY * spread).exp()
    }
}

/// How far a job is.
#[derive(Debug, Clone, Copy)]
pub struct JobStanding {
    /// Rounds that are complete.
    pub round: usize,
    /// When it was complete.
    pub completed: Option<f64>,
    /// Whether it was cancelled or given up.
    pub abandoned: bool,
}

/// Names by numbers.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// For the jobs.
    pub jobs: &'a [TaskId],
    /// For the GPUs.
    pub gpus: &'a [String],
}

/// A cluster at a moment, and what is planned.
#[derive(Debug, Clone, Copy)]
pub struct Outlook<'a> {
    /// The jobs and the GPUs.
    pub problem: &'a Problem,
    /// GPUs that may be used.
    pub usable: &'a [bool],
    /// Tasks under way.
    pub running: &'a [Underway],
    /// How far each job is.
    pub jobs: &'a [JobStanding],
    /// Forecast of the running tasks.
    pub state: &'a State,
    /// The jobs as they are planned: rounds may be merged.
    pub planned: &'a Problem,
    /// Planned start.
    pub future: &'a [Assignment],
    /// How durations have deviated.
    pub deviations: &'a Deviations,
    /// The moment.
    pub now: f64,
}

impl Outlook<'_> {
    /// How far each job is, with its expected end and the reason where it waits.
    ///
    /// # Errors
    /// A moment that cannot be written.
    pub fn statuses(&self, names: &Names<'_>) -> Result<Vec<JobStatus>, UnitError> {
        let ahead = self.ahead();
        let all = 0..self.jobs.len();
        all.map(|n| self.status(n, &ahead[n], names)).collect()
    }

    fn ahead(&self) -> Vec<Ahead> {
        let mut ahead = vec![Ahead::default(); self.jobs.len()];
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
        let (job, standing) = (&self.problem.jobs[n], self.jobs[n]);
        let own = self.running.iter().filter(|r| r.job == n);
        let running: Vec<TaskStatus> = own
            .map(|r| TaskStatus {
                task: r.task as u32,
                gpu: names.gpus[r.gpu].clone(),
                trains: r.training,
            })
            .collect();
        let state = match (standing.abandoned, standing.completed, running.is_empty()) {
            (true, ..) => JobState::Cancelled,
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
            rounds_done: standing.round as u32,
            rounds: job.rounds as u32,
            waits: (state == JobState::Waiting).then(|| self.reason(n, first, names)),
            running: if open { running } else { Vec::new() },
            next: next.transpose()?,
            end: end.transpose()?,
            deadline: deadline.map(Seconds::new).transpose()?,
        })
    }

    /// Expected completion of a job, with an interval for most cases; `None` if what is left of it finds no
    /// GPU.
    fn end(&self, n: usize, ahead: &Ahead) -> Option<(f64, f64, f64)> {
        let (job, progress) = (&self.planned.jobs[n], &self.state.jobs[n]);
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
        let since = self.running.iter().filter(under_way).map(|r| r.started);
        let since = since.fold(self.now, f64::min);
        let (all, factor) = (end - since, self.deviations.factor());
        let low = (since + all / factor).max(self.now);
        whole.then_some((end, low, since + all * factor))
    }

    /// Why a job of which nothing is under way waits.
    fn reason(&self, n: usize, first: Option<(f64, usize)>, names: &Names<'_>) -> String {
        let job = &self.problem.jobs[n];
        if job.arrival > self.now {
            return format!("it arrives at {:.1} s", job.arrival);
        }
        let can = |m: &usize| job.train[self.problem.gpus[*m]].is_finite();
        let usable = |m: &usize| self.usable[*m];
        let able: Vec<usize> = (0..self.usable.len()).filter(can).filter(usable).collect();
        let runs = |m: usize| self.running.iter().find(|r| r.gpu == m && r.training);
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
        let before = |a: &&Assignment| a.gpu == gpu && a.start < start && a.job != n;
        let mut before: Vec<usize> = self.future.iter().filter(before).map(|a| a.job).collect();
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
