use crate::problem::{Active, Problem};

/// Completion times, in seconds, if `allocate` determines the GPUs of every job at the start and whenever a job has
/// finished. Between two completions the allocation is constant. A job that never gets a GPU has an infinite
/// completion time.
pub fn play(
    problem: &Problem,
    mut allocate: impl FnMut(Active, &[f64], &mut Vec<u32>),
) -> Vec<f64> {
    let mut left: Vec<f64> = problem.jobs().iter().map(|j| j.work).collect();
    let mut completions = vec![0.0; left.len()];
    let mut active = Active::of(problem);
    let mut gpus = Vec::with_capacity(left.len());
    let mut now = 0.0;
    while !active.is_empty() {
        allocate(active, &left, &mut gpus);
        let rate = |i: usize| problem.jobs()[i].rates[gpus[i] as usize];
        let ends = active.iter().map(|i| left[i] / rate(i));
        let phase = ends.fold(f64::INFINITY, f64::min);
        if !phase.is_finite() {
            active.iter().for_each(|i| completions[i] = f64::INFINITY);
            return completions;
        }
        now += phase;
        for i in active.iter() {
            // Jobs that end at the same moment up to rounding end a phase together.
            let after = left[i] - rate(i) * phase;
            if after <= 1e-12 * problem.jobs()[i].work {
                left[i] = 0.0;
                completions[i] = now;
                active = active.without(i);
            } else {
                left[i] = after;
            }
        }
    }
    completions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Objective, RemainingTraining};

    fn linear(work: f64, gpus: u32) -> RemainingTraining {
        RemainingTraining {
            work,
            weight: 1.0,
            rates: (0..=gpus).map(f64::from).collect(),
            delta: 0.0,
        }
    }

    #[test]
    fn the_survivor_gets_what_is_given() {
        let jobs = vec![linear(8.0, 4), linear(8.0, 4)];
        let problem = Problem::new(4, Objective::Completion, jobs).unwrap();
        let done = play(&problem, |active, _, gpus| {
            *gpus = if active.len() == 2 {
                vec![1, 3]
            } else {
                vec![4, 0]
            };
        });
        assert!((done[1] - 8.0 / 3.0).abs() < 1e-12);
        assert!((done[0] - 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_job_that_never_runs_never_ends() {
        let problem = Problem::new(4, Objective::Makespan, vec![linear(8.0, 4)]).unwrap();
        assert_eq!(
            play(&problem, |_, _, gpus| *gpus = vec![0]),
            [f64::INFINITY]
        );
    }
}
