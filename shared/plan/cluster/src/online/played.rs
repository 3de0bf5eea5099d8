//! Simulates a problem as time passes.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Decision, Online, OnlineSettings};
use crate::state::{Underway, share};
use crate::{Assignment, Problem, Schedule, TaskPlace};

/// Result of a simulated online run.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// The resulting schedule.
    pub schedule: Schedule,
    /// Longest wall-clock time to answer an event.
    pub slowest: Duration,
    /// Mean wall-clock time to answer an event.
    pub mean: Duration,
}

/// An event at a given time: a job arrives, a task is trained or synchronised.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Arrival(usize),
    Trained(usize, usize),
    Finished(usize, usize),
}

/// The real state of the simulated cluster: its tasks in training and their true ends.
#[derive(Debug, Default)]
struct Truth {
    /// Future events, the earliest last; of simultaneous ones, the one known first is last.
    events: Vec<(f64, Event)>,
    /// Tasks in training; used only where GPUs are shared.
    running: Vec<Underway>,
    /// Their places in `out`, which has every task that has been started.
    places: Vec<usize>,
    out: Vec<Assignment>,
}

impl Truth {
    fn expect(&mut self, at: f64, event: Event) {
        let place = self.events.partition_point(|e| e.0 > at);
        self.events.insert(place, (at, event));
    }

    /// Starts a task that will take these seconds of training and synchronisation alone.
    fn start(&mut self, problem: &Problem, started: Assignment, train: f64, sync: f64) {
        let n = started.job;
        let task = started.task;
        let gpu = started.gpu;
        self.expect(started.trained, Event::Trained(n, task));
        self.expect(started.synced, Event::Finished(n, task));
        if problem.shares() {
            let mut own = Underway::new(problem, n, task, gpu, started.start);
            own.keep_pace(train, sync);
            self.running.push(own);
            self.places.push(self.out.len());
        }
        self.out.push(started);
    }

    fn trained(&mut self, n: usize, task: usize) {
        let own = |r: &Underway| (r.job, r.task) == (n, task);
        if let Some(at) = self.running.iter().position(own) {
            self.running.swap_remove(at);
            self.places.swap_remove(at);
        }
    }

    /// Moves the ends of the tasks whose company on their GPU has changed.
    fn share(&mut self, problem: &Problem, now: f64) {
        for at in share(problem, &mut self.running, now) {
            let own = self.running[at];
            let (trained, finished) = (
                Event::Trained(own.job, own.task),
                Event::Finished(own.job, own.task),
            );
            self.events.retain(|e| e.1 != trained && e.1 != finished);
            self.expect(own.trained, trained);
            self.expect(own.synced, finished);
            let told = &mut self.out[self.places[at]];
            (told.trained, told.synced) = (own.trained, own.synced);
        }
    }
}

/// Simulates online scheduling of `problem`. A job is known from its arrival on. A task takes its
/// time multiplied by a factor uniform in `1 +- noise` (0 to below 1); beside another task, it
/// trains at the known rates.
pub fn play(problem: &Problem, noise: f64, settings: OnlineSettings) -> Played {
    let mut rng = SmallRng::seed_from_u64(settings.seed);
    let mut live = Online::new(
        problem.classes.clone(),
        problem.gpus.clone(),
        problem.nodes.clone(),
        settings,
    )
    .sharing(problem.rates().clone());
    let mut truth = Truth::default();
    for (n, job) in problem.jobs.iter().enumerate() {
        truth.events.push((job.arrival, Event::Arrival(n)));
    }
    // The earliest last. The sort is stable, so of jobs that arrive together the last one listed is
    // taken first.
    truth.events.sort_by(|a, b| b.0.total_cmp(&a.0));
    // Job numbers in `live` by those in `problem`, and the reverse.
    let mut theirs = vec![usize::MAX; problem.jobs.len()];
    let mut ours = Vec::new();
    let mut slowest = Duration::ZERO;
    let mut whole = Duration::ZERO;
    let mut answers = 0_u32;
    while let Some(&(now, _)) = truth.events.last() {
        let mut again = false;
        let started = Instant::now();
        while let Some((_, event)) = truth.events.pop_if(|e| e.0 <= now) {
            let known = |live: &Online, n: usize, task| TaskPlace {
                job: theirs[n],
                round: live.round(theirs[n]),
                task,
            };
            match event {
                Event::Arrival(n) => {
                    theirs[n] = live.arrive(problem.jobs[n].clone(), problem.row(n), now);
                    ours.push(n);
                    again = true;
                }
                Event::Trained(n, task) => {
                    live.trained(known(&live, n, task), now);
                    truth.trained(n, task);
                }
                Event::Finished(n, task) => {
                    // Only the end of a job needs a new search; rounds continue as planned.
                    again |= live.synced(known(&live, n, task), now);
                }
            }
        }
        if again {
            live.replan(now);
        }
        let decisions = live.decide(now);
        let mut gang: Option<(usize, (f64, f64))> = None;
        for d in &decisions {
            let n = ours[d.place.job];
            let mut stretch = || 1.0 + noise * rng.random_range(-1.0..=1.0);
            let is_gang = problem.jobs[n].gang.is_some();
            let (train, sync) = match gang {
                // Every task of a gang takes the times of its first task.
                Some((m, times)) if is_gang && m == n => times,
                _ => {
                    let beside = |o: &&Decision| is_gang && o.place.job == d.place.job;
                    let mut gpus: Vec<usize> =
                        decisions.iter().filter(beside).map(|o| o.gpu).collect();
                    gpus.push(d.gpu);
                    let (train, sync) = problem.pace(n, &gpus);
                    (train * stretch(), sync * stretch())
                }
            };
            gang = Some((n, (train, sync)));
            let trained = now + train;
            let place = TaskPlace { job: n, ..d.place };
            let started = Assignment::new(place, d.gpu, now, trained, trained + sync);
            truth.start(problem, started, train, sync);
        }
        truth.share(problem, now);
        let took = started.elapsed();
        slowest = slowest.max(took);
        whole += took;
        answers += 1;
    }
    Played {
        schedule: Schedule::new(problem.jobs.len(), truth.out),
        slowest,
        mean: whole / answers.max(1),
    }
}
