//! The slow twin of the event-driven placement: every moment looks at every waiting task again, and
//! every task at every GPU.

use cluster::{ClusterState, Priorities, Problem};

/// A started task: job, round, task, class of the GPU, and when.
pub type Placed = (usize, usize, usize, usize, f64);

/// Plays from `state` at `now` to the end.
pub fn play(
    problem: &Problem,
    state: &ClusterState,
    mut now: f64,
    priorities: &Priorities,
) -> Vec<Placed> {
    let mut state = state.clone();
    let mut out = Vec::new();
    loop {
        look(problem, &mut state, now, priorities, &mut out);
        let open = |n: &usize| state.jobs[*n].round < problem.jobs[*n].rounds;
        let waiting: Vec<f64> = (0..problem.jobs.len())
            .filter(open)
            .map(|n| state.jobs[n].ready)
            .collect();
        let gpus = state
            .free
            .iter()
            .filter(|_| waiting.iter().any(|&t| t <= now));
        let moments = waiting.iter().chain(gpus);
        let next = moments
            .filter(|&&t| t > now)
            .fold(f64::INFINITY, |a, &b| a.min(b));
        if next.is_infinite() {
            return out;
        }
        now = next;
    }
}

fn look(
    problem: &Problem,
    state: &mut ClusterState,
    now: f64,
    priorities: &Priorities,
    out: &mut Vec<Placed>,
) {
    let mut available: Vec<f64> = state.free.iter().map(|&t| t.max(now)).collect();
    for &n in &priorities.order {
        let job = &problem.jobs[n];
        let p = state.jobs[n];
        if p.round >= job.rounds || p.ready > now {
            continue;
        }
        for _ in p.started..job.tasks {
            if available
                .iter()
                .zip(&state.free)
                .all(|(_, &free)| free > now)
            {
                break;
            }
            let Some(gpu) = best(problem, n, &available, priorities.allowed[n]) else {
                break;
            };
            let starts = available[gpu] <= now && state.free[gpu] <= now;
            available[gpu] += job.train[problem.gpus[gpu]];
            if starts {
                start(problem, state, n, gpu, now, out);
            }
        }
    }
    spare(problem, state, now, priorities, out);
    // What has started its whole round waits for it.
    for (p, job) in state.jobs.iter_mut().zip(&problem.jobs) {
        if p.round < job.rounds && p.started == job.tasks {
            (p.round, p.started, p.ready, p.synced) = (p.round + 1, 0, p.synced, 0.0);
        }
    }
}

/// The GPU with the earliest synchronised end, of equals the faster; a mask that leaves nothing is none.
fn best(problem: &Problem, n: usize, available: &[f64], allowed: u64) -> Option<usize> {
    let job = &problem.jobs[n];
    for mask in [allowed, u64::MAX] {
        let end = |&m: &usize| {
            let g = problem.gpus[m];
            (available[m] + (job.train[g] + job.sync[g]), job.train[g], g)
        };
        let usable = (0..available.len()).filter(|m| mask >> problem.gpus[*m] & 1 == 1);
        let least = usable
            .filter(|m| end(m).0.is_finite())
            .min_by(|a, b| end(a).partial_cmp(&end(b)).expect("times are numbers"));
        if least.is_some() {
            return least;
        }
    }
    None
}

/// Idle GPUs that nobody took go to tasks that may not use them and would not be slower there.
fn spare(
    problem: &Problem,
    state: &mut ClusterState,
    now: f64,
    priorities: &Priorities,
    out: &mut Vec<Placed>,
) {
    for &n in &priorities.order {
        let job = &problem.jobs[n];
        let allowed = priorities.allowed[n];
        let span = |g: usize| job.train[g] + job.sync[g];
        let may = |g: usize| allowed >> g & 1 == 1;
        let own = (0..job.train.len())
            .filter(|&g| may(g))
            .map(span)
            .fold(f64::INFINITY, f64::min);
        let p = state.jobs[n];
        if p.round >= job.rounds || p.ready > now || own.is_infinite() {
            continue;
        }
        while state.jobs[n].started < job.tasks {
            let idle = (0..state.free.len()).filter(|&m| state.free[m] <= now);
            let faster = idle.filter(|&m| !may(problem.gpus[m]) && span(problem.gpus[m]) <= own);
            let least = faster.min_by(|&a, &b| {
                let key = |m: usize| (span(problem.gpus[m]), problem.gpus[m]);
                key(a).partial_cmp(&key(b)).expect("times are numbers")
            });
            let Some(gpu) = least else { break };
            start(problem, state, n, gpu, now, out);
        }
    }
}

fn start(
    problem: &Problem,
    state: &mut ClusterState,
    n: usize,
    gpu: usize,
    now: f64,
    out: &mut Vec<Placed>,
) {
    let job = &problem.jobs[n];
    let g = problem.gpus[gpu];
    let p = &mut state.jobs[n];
    out.push((n, p.round, p.started, g, now));
    let trained = now + job.train[g];
    state.free[gpu] = trained;
    p.started += 1;
    p.synced = p.synced.max(trained + job.sync[g]);
}
