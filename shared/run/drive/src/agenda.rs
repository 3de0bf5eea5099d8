//! What is next on every GPU.

use std::collections::BTreeMap;

use cluster::{
    Assignment, Budget, Decoder, Deviations, JobStanding, Names, Outlook, Priorities, Problem,
    Schedule, Search, Standing, State, Underway, player, retime, share,
};
use doc::JobStatus;
use units::UnitError;

use crate::lane::{Lane, Place};

#[derive(Debug, Clone)]
struct JobState {
    round: usize,
    /// For each task of the present round.
    started: Vec<bool>,
    /// Its tasks that have been started, with their GPUs.
    seats: Vec<(usize, usize)>,
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
    /// Planned order of what has not started.
    queues: Vec<Lane>,
    /// The task that is planned to train on the GPU when another joins it there.
    beside: BTreeMap<Place, Place>,
    running: Vec<Underway>,
    jobs: Vec<JobState>,
    usable: Vec<bool>,
    deviations: Deviations,
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
        let fresh = |job: &cluster::TrainingJob| JobState {
            round: 0,
            started: vec![false; job.tasks],
            seats: Vec::new(),
            synced: 0,
            ready: job.arrival,
            given_up: false,
            completed: None,
        };
        let mut agenda = Self {
            queues: vec![Lane::default(); problem.gpus.len()],
            beside: BTreeMap::new(),
            running: Vec::new(),
            jobs: problem.jobs.iter().map(fresh).collect(),
            usable: vec![true; problem.gpus.len()],
            problem,
            deviations: Deviations::default(),
            seed,
            effort: REPLAN_EFFORT,
        };
        agenda.fill(schedule.assignments.iter().map(|a| (*a, a.task)));
        agenda
    }

    /// Goes on after tasks that were done before, each with the second of its end: whole rounds of a job, and
    /// single tasks of the round after them.
    pub fn resume(&mut self, done: &BTreeMap<Place, f64>, now: f64) {
        if done.is_empty() {
            return;
        }
        for queue in &mut self.queues {
            queue.remove_done(|place| done.contains_key(place));
        }
        let mut ends: Vec<(Place, f64)> = done.iter().map(|(p, at)| (*p, *at)).collect();
        // A round is ready when the last task of the previous one has ended.
        ends.sort_by(|(p, a), (q, b)| (p.job, p.round).cmp(&(q.job, q.round)).then(a.total_cmp(b)));
        for (place, at) in ends {
            self.jobs[place.job].started[place.task] = true;
            self.synced(place, at);
        }
        self.replan(now);
    }

    /// Puts tasks into the queues, in order of their starts.
    fn fill(&mut self, tasks: impl Iterator<Item = (Assignment, usize)>) {
        for queue in &mut self.queues {
            queue.clear();
        }
        self.beside.clear();
        // What trains on each GPU, and until when.
        let mut there: Vec<Vec<(Place, f64)>> = vec![Vec::new(); self.queues.len()];
        for r in self.running.iter().filter(|r| r.training) {
            there[r.gpu].push((self.place(r), r.trained));
        }
        for (a, task) in tasks {
            let place = Place {
                job: a.job,
                round: a.round,
                task,
            };
            self.queues[a.gpu].push(&a, task);
            if self.problem.shares() {
                let there = &mut there[a.gpu];
                // An end that exceeds the start only by rounding does not overlap it.
                there.retain(|&(_, end)| end > a.start * (1.0 + 1e-9));
                if let [(other, _)] = there[..] {
                    self.beside.insert(place, other);
                }
                there.push((place, a.trained));
            }
        }
    }

    fn place(&self, r: &Underway) -> Place {
        Place {
            job: r.job,
            round: self.jobs[r.job].round,
            task: r.task,
        }
    }

    /// Whether a GPU is open to the task at the head of its queue: idle, or with the one task beside which it
    /// is planned to start.
    fn open_to(&self, gpu: usize, place: Place) -> bool {
        let mut there = self.running.iter().filter(|r| r.gpu == gpu && r.training);
        match (there.next(), there.next()) {
            (None, _) => true,
            (Some(one), None) => self.beside.get(&place) == Some(&self.place(one)),
            _ => false,
        }
    }

    /// Tasks that may start now, with their GPUs: the next of each GPU that is open to it, if its round is ready.
    #[must_use]
    pub fn startable(&self, now: f64) -> Vec<(Place, usize)> {
        let usable = (0..self.queues.len()).filter(|&gpu| self.usable[gpu]);
        let next = usable.filter_map(|gpu| {
            let place = self.queues[gpu].front()?;
            let job = &self.jobs[place.job];
            let ready = job.round == place.round && job.ready <= now;
            (ready && self.open_to(gpu, place)).then_some((place, gpu))
        });
        let next: Vec<(Place, usize)> = next.collect();
        // A gang starts when all its tasks can.
        let whole = |place: Place| {
            let beside = next.iter().filter(|(p, _)| p.job == place.job).count();
            beside == self.problem.jobs[place.job].tasks
        };
        let gang = |place: Place| self.problem.jobs[place.job].gang.is_some();
        let all = next.iter().copied();
        all.filter(|&(p, _)| !gang(p) || whole(p)).collect()
    }

    /// The GPUs of a gang that is being started, by the number of the task; none of another job.
    #[must_use]
    pub fn peers(&self, place: Place) -> Option<Vec<usize>> {
        let job = &self.jobs[place.job];
        let planned = (0..self.queues.len()).filter_map(|gpu| {
            let p = self.queues[gpu].front()?;
            let own = (p.job, p.round) == (place.job, place.round);
            own.then_some((p.task, gpu))
        });
        let mut all: Vec<(usize, usize)> = job.seats.iter().copied().chain(planned).collect();
        all.sort_unstable();
        let gpus = all.into_iter().map(|s| s.1);
        self.is_gang(place.job).then(|| gpus.collect())
    }

    /// Whether the tasks of a job's round run at the same time.
    #[must_use]
    pub fn is_gang(&self, job: usize) -> bool {
        self.problem.jobs[job].gang.is_some()
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
        let Some(place) = self.queues[gpu].pop() else {
            return;
        };
        let job = &mut self.jobs[place.job];
        job.started[place.task] = true;
        job.seats.push((place.task, gpu));
        let task = (place.job, place.task);
        let mut own = Underway::new(&self.problem, task, gpu, now);
        if self.is_gang(place.job) {
            let gpus: Vec<usize> = self.jobs[place.job].seats.iter().map(|s| s.1).collect();
            let pace = self.problem.pace(place.job, &gpus);
            own.keep_pace(pace);
            let others = self.running.iter_mut().filter(|r| r.job == place.job);
            others.for_each(|r| r.keep_pace(pace));
        }
        self.running.push(own);
        share(&self.problem, &mut self.running, now);
    }

    /// Training of a task has ended: its GPU is free. Answers how long it took over what was
    /// planned; `None` if the task does not train.
    pub fn trained(&mut self, place: Place, now: f64) -> Option<f64> {
        let mut running = self.running.iter_mut();
        let r = running.find(|r| place.is(r) && r.training)?;
        self.deviations.note(r, now);
        if self.problem.shares() {
            // Beside another it is expected to take longer than the plan's time alone.
            let ratio = (now - r.started) / (r.trained - r.started);
            r.end_training(now);
            share(&self.problem, &mut self.running, now);
            return Some(ratio);
        }
        r.end_training(now);
        // For a gang, those of the slowest.
        let gang = self.problem.jobs[place.job].gang.is_some();
        let beside = |s: &&(usize, usize)| gang || s.1 == r.gpu;
        let seats = self.jobs[place.job].seats.iter().filter(beside);
        let gpus: Vec<usize> = seats.map(|s| s.1).collect();
        let planned = self.problem.pace(place.job, &gpus).0;
        Some((now - r.started) / planned)
    }

    /// A task has been synchronised; returns whether its job is complete.
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
        job.seats.clear();
        job.started = vec![false; problem.tasks];
        job.ready = now;
        if job.round == problem.rounds {
            job.completed = Some(now);
        }
        job.completed.is_some()
    }

    /// A task has failed: it is next on its GPU again, or on another if its GPU is out. For a gang the
    /// whole round is, whichever of its tasks have ended.
    pub fn failed(&mut self, place: Place, now: f64) {
        if self.is_gang(place.job) {
            return self.gang_failed(place, now);
        }
        let Some(at) = self.running.iter().position(|r| place.is(r)) else {
            return;
        };
        let r = self.running.swap_remove(at);
        // Whoever trained beside it has the GPU to itself.
        share(&self.problem, &mut self.running, now);
        if self.jobs[place.job].given_up {
            return;
        }
        let mut others = self.running.iter().filter(|o| o.gpu == r.gpu && o.training);
        let other = others.next().filter(|_| r.training).map(|o| self.place(o));
        self.jobs[place.job].started[place.task] = false;
        self.jobs[place.job].seats.retain(|s| s.0 != place.task);
        self.queues[r.gpu].push_front(place, now);
        if !self.usable[r.gpu] {
            self.elsewhere(place, r.gpu, now);
        } else if let Some(other) = other {
            // It starts again beside the task that it left.
            self.beside.insert(place, other);
        }
    }

    fn gang_failed(&mut self, place: Place, now: f64) {
        if self.jobs[place.job].round != place.round {
            return;
        }
        let seats = std::mem::take(&mut self.jobs[place.job].seats);
        self.running.retain(|r| r.job != place.job);
        if self.jobs[place.job].given_up {
            return;
        }
        let job = &mut self.jobs[place.job];
        job.started.fill(false);
        job.synced = 0;
        let lost = seats.iter().any(|&(_, gpu)| !self.usable[gpu]);
        for (task, gpu) in seats {
            self.queues[gpu].push_front(Place { task, ..place }, now);
        }
        if lost {
            // Another GPU alone would not help: it has to be free at the same time as the others.
            self.replan(now);
        }
    }

    /// Moves a task that waits for a GPU to the head of another that can run it, the one that is expected
    /// to complete it first; returns whether there is one. A gang's task is not moved: it has to start
    /// with the others.
    pub fn elsewhere(&mut self, place: Place, gpu: usize, now: f64) -> bool {
        if self.is_gang(place.job) {
            return false;
        }
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
            queue.remove(place);
        }
        self.beside.remove(&place);
        self.queues[other].push_front(place, now);
        true
    }

    /// Removes a job: its tasks that have not started never will.
    pub fn give_up(&mut self, job: usize) {
        self.jobs[job].given_up = true;
        for queue in &mut self.queues {
            queue.remove_job(job);
        }
    }

    /// Takes a GPU out, or back in.
    pub fn use_gpu(&mut self, gpu: usize, usable: bool) {
        self.usable[gpu] = usable;
    }

    /// The jobs that are open and that the usable GPUs cannot run.
    #[must_use]
    pub fn stuck(&self) -> Vec<usize> {
        let open = |n: &usize| self.jobs[*n].completed.is_none() && !self.jobs[*n].given_up;
        let free = |&usable: &bool| if usable { 0.0 } else { f64::INFINITY };
        let free: Vec<f64> = self.usable.iter().map(free).collect();
        let can = |n: usize| {
            if self.is_gang(n) {
                return self.problem.together(n, u64::MAX, &free).is_some();
            }
            let mut usable = (0..self.usable.len()).filter(|&m| self.usable[m]);
            usable.any(|m| self.problem.jobs[n].train[self.problem.gpus[m]].is_finite())
        };
        let all = 0..self.jobs.len();
        all.filter(open).filter(|&n| !can(n)).collect()
    }

    /// Whether a job has neither ended nor been given up.
    #[must_use]
    pub fn is_open(&self, job: usize) -> bool {
        self.jobs[job].completed.is_none() && !self.jobs[job].given_up
    }

    /// A job has another weight.
    pub fn reweigh(&mut self, job: usize, weight: f64) {
        self.problem.jobs[job].weight = weight;
    }

    /// A job should be complete by a moment; infinity: by none.
    pub fn due(&mut self, job: usize, deadline: f64) {
        self.problem.jobs[job].deadline = deadline;
    }

    /// Tasks of a job train for so long on the classes for which that is given.
    pub fn estimate(&mut self, job: usize, train: &[Option<f64>]) {
        let mut known = self.problem.jobs[job].clone();
        known.learn(train);
        self.problem.replace(job, known);
        retime(&self.problem, job, &mut self.running);
    }

    /// What runs, what waits and why, and when each job is expected to be complete.
    ///
    /// # Errors
    /// A moment that cannot be written.
    pub fn outlook(&self, now: f64, names: &Names<'_>) -> Result<Vec<JobStatus>, UnitError> {
        let state = self.expected(now);
        let future = self.ahead(&state, now);
        let jobs = self.jobs.iter().map(|j| JobStanding {
            round: j.round,
            completed: j.completed,
            abandoned: j.given_up,
        });
        let outlook = Outlook {
            problem: &self.problem,
            usable: &self.usable,
            running: &self.running,
            jobs: &jobs.collect::<Vec<_>>(),
            planned: &self.problem,
            state: &state,
            future: &future,
            deviations: &self.deviations,
            now,
        };
        outlook.statuses(names)
    }

    /// Forecast of the queues with the times known now.
    fn ahead(&self, state: &State, now: f64) -> Vec<Assignment> {
        let decoder = Decoder::of(&self.problem, state);
        if self.problem.shares() || decoder == Decoder::Blocks {
            let mut out = Vec::new();
            let mut player = player(&self.problem, state, decoder);
            player.record(state, now, &self.order(), &mut out);
            return out;
        }
        let mut free: Vec<f64> = state.free.iter().map(|f| f.max(now)).collect();
        let mut jobs = state.jobs.clone();
        let mut heads = vec![0; self.queues.len()];
        let mut out = Vec::new();
        loop {
            let next = (0..heads.len()).filter_map(|gpu| {
                let place = self.queues[gpu].get(heads[gpu])?;
                let job = &jobs[place.job];
                let start = free[gpu].max(job.ready);
                let can = job.round == place.round && start.is_finite();
                can.then_some((start, place, gpu))
            });
            let next: Vec<(f64, Place, usize)> = next.collect();
            // For a gang all tasks have to be next, and it starts when the last of its GPUs is
            // free.
            let seats = |n: usize| next.iter().filter(move |s| s.1.job == n);
            let whole = |s: &&(f64, Place, usize)| {
                !self.is_gang(s.1.job) || seats(s.1.job).count() == self.problem.jobs[s.1.job].tasks
            };
            let start = |s: &(f64, Place, usize)| match self.is_gang(s.1.job) {
                true => seats(s.1.job).map(|s| s.0).fold(0.0, f64::max),
                false => s.0,
            };
            let first = next
                .iter()
                .filter(whole)
                .min_by(|a, b| start(a).total_cmp(&start(b)));
            let Some(first) = first else {
                return out;
            };
            let (start, n) = (start(first), first.1.job);
            let begun: Vec<(Place, usize)> = match self.is_gang(n) {
                true => seats(n).map(|s| (s.1, s.2)).collect(),
                false => vec![(first.1, first.2)],
            };
            let gpus: Vec<usize> = begun.iter().map(|b| b.1).collect();
            let (train, sync) = self.problem.pace(n, &gpus);
            for (place, gpu) in begun {
                heads[gpu] += 1;
                free[gpu] = start + train;
                out.push(Assignment {
                    job: n,
                    round: place.round,
                    task: place.task,
                    gpu,
                    switch: 0.0,
                    start,
                    trained: start + train,
                    synced: start + train + sync,
                    rounds: 1,
                    period: 0.0,
                });
                let progress = &mut jobs[n];
                progress.started += 1;
                progress.synced = progress.synced.max(start + train + sync);
                if progress.started == self.problem.jobs[n].tasks {
                    progress.round += 1;
                    progress.ready = progress.synced;
                    (progress.started, progress.synced) = (0, 0.0);
                }
            }
        }
    }

    /// The job's tasks take `factor` times as long as planned from now on.
    pub fn drifted(&mut self, job: usize, factor: f64) {
        self.problem.drifted(job, factor);
    }

    /// The jobs in the order in which they are planned to go on.
    fn order(&self) -> Priorities {
        let first = |n: usize| {
            let own = self.queues.iter().flat_map(Lane::iter);
            let own = own.filter(|(p, _)| p.job == n);
            own.map(|(_, start)| start).fold(f64::INFINITY, f64::min)
        };
        Priorities::new(self.problem.jobs_by(first))
    }

    /// Plans again what has not started, from the order that it has now.
    pub fn replan(&mut self, now: f64) {
        share(&self.problem, &mut self.running, now);
        let state = self.expected(now);
        let priorities = self.order();
        self.seed = self.seed.wrapping_add(1);
        let budget = Budget {
            starts: self.effort,
            deadline: None,
        };
        let search = Search {
            problem: &self.problem,
            state: &state,
            now,
            decoder: Decoder::of(&self.problem, &state),
            budget,
            seed: self.seed,
            fixed: 0,
        };
        let better = search.improve(priorities, None).priorities;
        let mut planned = Vec::new();
        player(&self.problem, &state, search.decoder).record(&state, now, &better, &mut planned);
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

    /// Simulates the queues with the planned times, so that a document whose order cannot be
    /// followed (a task twice, a round before its predecessor) is refused before anything starts.
    ///
    /// # Errors
    /// The task at which it gets stuck.
    pub fn plays_out(mut self) -> Result<(), String> {
        let whole: usize = self.problem.volume();
        let mut gang: Vec<(Place, usize)> = Vec::new();
        for _ in 0..whole {
            // Whatever waits for an arrival has arrived at infinity. When a gang has begun, its other
            // tasks come before anything else.
            let begun = std::mem::take(&mut gang);
            let mut startable = if begun.is_empty() {
                self.startable(f64::INFINITY)
            } else {
                begun
            };
            let first = (!startable.is_empty()).then(|| startable.remove(0));
            let Some((place, gpu)) = first else {
                let mut heads = self.queues.iter().filter_map(|q| q.front());
                let stuck = heads.next();
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
            if self.is_gang(place.job) {
                startable.retain(|(p, _)| p.job == place.job);
                gang = startable;
            }
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
