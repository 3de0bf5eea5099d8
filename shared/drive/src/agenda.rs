//! What is next on every GPU.

use std::collections::VecDeque;

use cluster::{
    Assignment, Budget, Decoder, Player, Priorities, Problem, Schedule, Search, Standing, State,
    Underway, by,
};

/// A task of a schedule: its job, its round, and which of the round's tasks it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the job.
    pub job: usize,
    /// Round, from 0.
    pub round: usize,
    /// Task of the round, from 0.
    pub task: usize,
}

impl Place {
    /// Whether a task under way is this one: only the present round of a job is under way.
    fn is(self, task: &Underway) -> bool {
        (self.job, self.task) == (task.job, task.task)
    }
}

#[derive(Debug, Clone)]
struct JobState {
    round: usize,
    /// For each task of the present round.
    started: Vec<bool>,
    synced: usize,
    /// When the present round became ready, its arrival at first.
    ready: f64,
    given_up: bool,
    completed: Option<f64>,
}

/// The order of tasks on every GPU, and how far they are. Times are seconds since the start.
#[derive(Debug)]
pub struct Agenda {
    problem: Problem,
    /// Planned order of what has not started, with planned starts.
    queues: Vec<VecDeque<(Place, f64)>>,
    running: Vec<Underway>,
    jobs: Vec<JobState>,
    usable: Vec<bool>,
    seed: u64,
    /// Starts of tasks that a new plan may simulate.
    effort: u64,
}

/// About 50 ms for a new plan: short against a task that is worth scheduling.
const REPLAN_EFFORT: u64 = 100_000;

impl Agenda {
    /// The agenda of a feasible schedule of `problem`.
    #[must_use]
    pub fn new(problem: Problem, schedule: &Schedule, seed: u64) -> Self {
        let fresh = |job: &cluster::Job| JobState {
            round: 0,
            started: vec![false; job.tasks],
            synced: 0,
            ready: job.arrival,
            given_up: false,
            completed: None,
        };
        let mut agenda = Self {
            queues: vec![VecDeque::new(); problem.gpus.len()],
            running: Vec::new(),
            jobs: problem.jobs.iter().map(fresh).collect(),
            usable: vec![true; problem.gpus.len()],
            problem,
            seed,
            effort: REPLAN_EFFORT,
        };
        agenda.fill(schedule.assignments.iter().map(|a| (*a, a.task)));
        agenda
    }

    /// Puts tasks into the queues, in order of their starts.
    fn fill(&mut self, tasks: impl Iterator<Item = (Assignment, usize)>) {
        for queue in &mut self.queues {
            queue.clear();
        }
        for (a, task) in tasks {
            let place = Place {
                job: a.job,
                round: a.round,
                task,
            };
            self.queues[a.gpu].push_back((place, a.start));
        }
    }

    /// Tasks that may start now, with their GPUs: the next of each idle GPU, if its round is ready.
    #[must_use]
    pub fn startable(&self, now: f64) -> Vec<(Place, usize)> {
        let idle = (0..self.queues.len())
            .filter(|&gpu| self.usable[gpu])
            .filter(|&gpu| !self.running.iter().any(|r| r.gpu == gpu && r.training));
        idle.filter_map(|gpu| {
            let &(place, _) = self.queues[gpu].front()?;
            let job = &self.jobs[place.job];
            (job.round == place.round && job.ready <= now).then_some((place, gpu))
        })
        .collect()
    }

    /// When the next job arrives whose first round is the next of some GPU.
    #[must_use]
    pub fn next_arrival(&self, now: f64) -> Option<f64> {
        let ready = self.jobs.iter().filter(|j| j.round == 0 && !j.given_up);
        ready.map(|j| j.ready).filter(|&t| t > now).reduce(f64::min)
    }

    /// How many tasks the GPU runs before the next one of a job; `None`: it has none of it.
    #[must_use]
    pub fn next_use(&self, gpu: usize, job: usize) -> Option<usize> {
        let mut queue = self.queues[gpu].iter();
        queue.position(|(place, _)| place.job == job)
    }

    /// The task at the head of the GPU's queue has been started.
    pub fn start(&mut self, gpu: usize, now: f64) {
        let Some((place, _)) = self.queues[gpu].pop_front() else {
            return;
        };
        self.jobs[place.job].started[place.task] = true;
        let task = (place.job, place.task);
        self.running
            .push(Underway::new(&self.problem, task, gpu, now));
    }

    /// Training of a task has ended: its GPU is free. Answers how long it took over what was
    /// planned; `None` if the task does not train.
    pub fn trained(&mut self, place: Place, now: f64) -> Option<f64> {
        let mut running = self.running.iter_mut();
        let r = running.find(|r| place.is(r) && r.training)?;
        r.end_training(now);
        let planned = self.problem.jobs[place.job].train[self.problem.gpus[r.gpu]];
        Some((now - r.started) / planned)
    }

    /// A task has been synchronised; answers whether its job is complete.
    pub fn synced(&mut self, place: Place, now: f64) -> bool {
        self.running.retain(|r| !place.is(r));
        if self.jobs[place.job].given_up {
            return false;
        }
        let problem = &self.problem.jobs[place.job];
        let job = &mut self.jobs[place.job];
        job.synced += 1;
        if job.synced < problem.tasks {
            return false;
        }
        job.round += 1;
        job.synced = 0;
        job.started = vec![false; problem.tasks];
        job.ready = now;
        if job.round == problem.rounds {
            job.completed = Some(now);
        }
        job.completed.is_some()
    }

    /// A task has failed: it is the next of its GPU again, or of another if its GPU is out.
    pub fn failed(&mut self, place: Place, now: f64) {
        let Some(at) = self.running.iter().position(|r| place.is(r)) else {
            return;
        };
        let r = self.running.swap_remove(at);
        if self.jobs[place.job].given_up {
            return;
        }
        self.jobs[place.job].started[place.task] = false;
        self.queues[r.gpu].push_front((place, now));
        if !self.usable[r.gpu] {
            self.elsewhere(place, r.gpu, now);
        }
    }

    /// Moves a task that waits for a GPU to the head of another that can run it, the one that is
    /// expected to complete it first; answers whether there is one.
    pub fn elsewhere(&mut self, place: Place, gpu: usize, now: f64) -> bool {
        let free = self.expected(now).free;
        let job = &self.problem.jobs[place.job];
        let end = |m: &usize| {
            let class = self.problem.gpus[*m];
            free[*m] + job.train[class] + job.sync[class]
        };
        let others = (0..free.len()).filter(|&m| m != gpu && end(&m).is_finite());
        let Some(other) = others.min_by(|a, b| end(a).total_cmp(&end(b))) else {
            return false;
        };
        for queue in &mut self.queues {
            queue.retain(|(p, _)| *p != place);
        }
        self.queues[other].push_front((place, now));
        true
    }

    /// Takes a job out: what has not started of it will not.
    pub fn give_up(&mut self, job: usize) {
        self.jobs[job].given_up = true;
        for queue in &mut self.queues {
            queue.retain(|(place, _)| place.job != job);
        }
    }

    /// Takes a GPU out; answers the jobs that no GPU can run any more, which are given up.
    pub fn lose(&mut self, gpu: usize) -> Vec<usize> {
        self.usable[gpu] = false;
        let open = |n: &usize| self.jobs[*n].completed.is_none() && !self.jobs[*n].given_up;
        let can = |n: usize| {
            let mut usable = (0..self.usable.len()).filter(|&m| self.usable[m]);
            usable.any(|m| self.problem.jobs[n].train[self.problem.gpus[m]].is_finite())
        };
        let stuck: Vec<usize> = (0..self.jobs.len())
            .filter(open)
            .filter(|&n| !can(n))
            .collect();
        for &n in &stuck {
            self.give_up(n);
        }
        stuck
    }

    /// The job's tasks take `factor` times as long as planned from now on.
    pub fn drifted(&mut self, job: usize, factor: f64) {
        self.problem.drifted(job, factor);
    }

    /// Plans what has not started anew, from the order that it has now.
    pub fn replan(&mut self, now: f64) {
        let state = self.expected(now);
        let first = |n: usize| {
            let own = self.queues.iter().flatten().filter(|(p, _)| p.job == n);
            own.map(|&(_, start)| start).fold(f64::INFINITY, f64::min)
        };
        let priorities = Priorities::new(by(&self.problem, first));
        self.seed = self.seed.wrapping_add(1);
        let budget = Budget {
            starts: self.effort,
            deadline: None,
        };
        let search = Search {
            problem: &self.problem,
            state: &state,
            now,
            decoder: Decoder::Events,
            budget,
            seed: self.seed,
            fixed: 0,
        };
        let better = search.improve(priorities, None).priorities;
        let mut planned = Vec::new();
        Player::new(&self.problem).record(&state, now, &better, &mut planned);
        // The tasks of a round are alike: the plan counts those that have started first.
        let numbered: Vec<(Assignment, usize)> = planned
            .into_iter()
            .map(|a| (a, self.unstarted(&a).unwrap_or(a.task)))
            .collect();
        self.fill(numbered.into_iter());
    }

    /// The task of a round under way that an assignment of a new plan stands for.
    fn unstarted(&self, a: &Assignment) -> Option<usize> {
        let job = &self.jobs[a.job];
        if a.round != job.round {
            return None;
        }
        let before = job.started.iter().filter(|s| **s).count();
        let mut open = (0..job.started.len()).filter(|&t| !job.started[t]);
        open.nth(a.task.checked_sub(before)?)
    }

    /// The state that is expected.
    fn expected(&self, now: f64) -> State {
        let standing = self.jobs.iter().zip(&self.problem.jobs);
        let standing = standing.map(|(job, problem)| Standing {
            round: if job.given_up {
                problem.rounds
            } else {
                job.round
            },
            started: job.started.iter().filter(|s| **s).count(),
            ready: job.ready,
        });
        State::expected(&self.problem, &self.usable, &self.running, standing, now)
    }

    /// Plays the queues out with the planned times, so that a document whose order cannot be
    /// followed (a task twice, a round before the one before) is refused before anything starts.
    ///
    /// # Errors
    /// The task at which it gets stuck.
    pub fn plays_out(mut self) -> Result<(), String> {
        let whole: usize = self.problem.volume();
        for _ in 0..whole {
            // Whatever waits for an arrival has arrived at infinity.
            let Some(&(place, gpu)) = self.startable(f64::INFINITY).first() else {
                let heads = self.queues.iter().filter_map(|q| q.front());
                let stuck = heads.map(|(p, _)| p).next();
                return Err(stuck.map_or_else(
                    || "tasks are missing".to_owned(),
                    |p| {
                        let id = p.job;
                        format!("round {} of job {id} never becomes ready", p.round)
                    },
                ));
            };
            if self.jobs[place.job].started[place.task] {
                return Err(format!("a task of job {} is there twice", place.job));
            }
            self.start(gpu, 0.0);
            self.trained(place, 0.0);
            self.synced(place, 0.0);
        }
        Ok(())
    }

    /// Whether nothing runs and nothing is left to start.
    #[must_use]
    pub fn done(&self) -> bool {
        let closed = |j: &JobState| j.given_up || j.completed.is_some();
        self.running.is_empty() && self.jobs.iter().all(closed)
    }

    /// When each job was completed.
    #[must_use]
    pub fn completions(&self) -> Vec<Option<f64>> {
        self.jobs.iter().map(|j| j.completed).collect()
    }
}

#[cfg(test)]
mod tests;
