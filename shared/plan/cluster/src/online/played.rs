//! Simulates a problem as time passes.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Decision, Live, OnlineSettings};
use crate::{Assignment, Problem, Schedule};

/// How a played cluster went.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// What happened.
    pub schedule: Schedule,
    /// Longest time that one event took to answer.
    pub slowest: Duration,
    /// Mean time to answer an event.
    pub mean: Duration,
}

/// An event at a given time: a job arrives, a task is trained or synchronised.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Arrival(usize),
    Trained(usize, usize),
    Finished(usize, usize),
}

/// Plays `problem` as time passes: a job is known from its arrival on, and a task takes its time
/// multiplied by a factor uniform in `1 +- noise` (0 to below 1).
pub fn play(problem: &Problem, noise: f64, settings: OnlineSettings) -> Played {
    let mut rng = SmallRng::seed_from_u64(settings.seed);
    let mut live = Live::new(
        problem.classes.clone(),
        problem.gpus.clone(),
        problem.nodes.clone(),
        settings,
    );
    let mut events: Vec<(f64, Event)> = Vec::new();
    for (n, job) in problem.jobs.iter().enumerate() {
        events.push((job.arrival, Event::Arrival(n)));
    }
    // The earliest last; of equals the job that is listed first.
    events.sort_by(|a, b| b.0.total_cmp(&a.0));
    // Numbers of jobs here and there.
    let mut theirs = vec![usize::MAX; problem.jobs.len()];
    let mut ours = Vec::new();
    let mut out: Vec<Assignment> = Vec::with_capacity(problem.volume());
    let (mut slowest, mut whole, mut answers) = (Duration::ZERO, Duration::ZERO, 0_u32);
    while let Some(&(now, _)) = events.last() {
        let mut again = false;
        let started = Instant::now();
        while let Some((_, event)) = events.pop_if(|e| e.0 <= now) {
            match event {
                Event::Arrival(n) => {
                    theirs[n] = live.arrive(problem.jobs[n].clone(), now);
                    ours.push(n);
                    again = true;
                }
                Event::Trained(n, task) => live.trained(theirs[n], task, now),
                Event::Finished(n, task) => {
                    let complete = live.finished(theirs[n], task, now);
                    // Only the end of a job changes much; rounds continue as planned.
                    again |= complete && live.jobs[theirs[n]].round >= problem.jobs[n].rounds;
                }
            }
        }
        if again {
            live.replan(now);
        }
        let decisions = live.decide(now);
        let mut gang: Option<(usize, (f64, f64))> = None;
        for d in &decisions {
            let n = ours[d.job];
            let mut stretch = || 1.0 + noise * rng.random_range(-1.0..=1.0);
            let is_gang = problem.jobs[n].gang.is_some();
            let (train, sync) = match gang {
                // In step with the first of its gang.
                Some((m, times)) if is_gang && m == n => times,
                _ => {
                    let beside = |o: &&Decision| is_gang && o.job == d.job;
                    let mut gpus: Vec<usize> =
                        decisions.iter().filter(beside).map(|o| o.gpu).collect();
                    gpus.push(d.gpu);
                    let (train, sync) = problem.pace(n, &gpus);
                    (train * stretch(), sync * stretch())
                }
            };
            gang = Some((n, (train, sync)));
            let trained = now + train;
            let synced = trained + sync;
            out.push(Assignment {
                job: n,
                round: d.round,
                task: d.task,
                gpu: d.gpu,
                switch: 0.0,
                start: now,
                trained,
                synced,
            });
            for (at, event) in [
                (trained, Event::Trained(n, d.task)),
                (synced, Event::Finished(n, d.task)),
            ] {
                let place = events.partition_point(|e| e.0 > at);
                events.insert(place, (at, event));
            }
        }
        let took = started.elapsed();
        slowest = slowest.max(took);
        whole += took;
        answers += 1;
    }
    Played {
        schedule: Schedule::new(problem.jobs.len(), out),
        slowest,
        mean: whole / answers.max(1),
    }
}
