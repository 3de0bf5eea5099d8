//! The best fixed shares in hindsight, and rivals.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use units::Share;

use super::Failure;
use super::world::World;
use launch::learn::{Learner, Observed, Why, prior};

/// One stretch of rounds: how much slower each task is in each of them than without noise and drift.
pub(crate) type Weather = Vec<Vec<f64>>;

/// Noise in percent on each task in each round; with drift all tasks become slower and faster by a tenth within 40
/// rounds, and one needs a quarter more from some round on.
pub(crate) fn weather(tasks: usize, rounds: usize, noise: f64, drifts: bool, seed: u64) -> Weather {
    let mut rng = StdRng::seed_from_u64(seed);
    let phase = rng.random_range(0.0..std::f64::consts::TAU);
    let (from, which) = (
        rng.random_range(rounds / 4..=3 * rounds / 4),
        rng.random_range(0..tasks),
    );
    let mut normal = || (0..12).map(|_| rng.random_range(0.0..1.0)).sum::<f64>() - 6.0;
    let mut all = Vec::new();
    for k in 0..rounds {
        let one = |task: usize| {
            let mut ln = noise / 100.0 * normal();
            if drifts {
                ln += 0.1 * (phase + std::f64::consts::TAU * k as f64 / 40.0).sin();
                ln += if task == which && k >= from {
                    1.25f64.ln()
                } else {
                    0.0
                };
            }
            ln.exp()
        };
        all.push((0..tasks).map(one).collect());
    }
    all
}

pub(crate) fn longest(ends: &[f64]) -> f64 {
    ends.iter().copied().fold(0.0, f64::max)
}

/// Seconds of all rounds with the same shares.
pub(crate) fn fixed(
    world: &mut World,
    shares: &[Share],
    weather: &Weather,
) -> Result<f64, Failure> {
    weather
        .iter()
        .map(|slower| Ok(longest(&world.round(shares, slower)?)))
        .sum()
}

pub(crate) fn equal(tasks: usize, hundredths: u32) -> Vec<Share> {
    vec![Share::from_hundredths(hundredths.min(10_000)); tasks]
}

/// The best fixed shares on a grid of 10 %: by moves of single tasks from the best of several starts in a round
/// without noise, then by moves from there in all the rounds.
pub(crate) fn best(world: &mut World, weather: &Weather) -> Result<(Vec<Share>, f64), Failure> {
    let n = world.tasks();
    let even = vec![vec![1.0; n]];
    let mut found = (Vec::new(), f64::INFINITY);
    for start in [10_000, 7_000, 6_000, (20_000 / n as u32).min(10_000)] {
        let (at, time) = descend(world, &equal(n, start), &even)?;
        if time < found.1 {
            found = (at, time);
        }
    }
    descend(world, &found.0, weather)
}

/// Moves single tasks until no move saves more than a thousandth.
fn descend(
    world: &mut World,
    from: &[Share],
    weather: &Weather,
) -> Result<(Vec<Share>, f64), Failure> {
    let mut at = from.to_vec();
    let mut time = fixed(world, &at, weather)?;
    loop {
        let before = time;
        for i in 0..at.len() {
            for level in (1_000..=10_000).step_by(1_000) {
                let mut next = at.clone();
                next[i] = Share::from_hundredths(level);
                let t = fixed(world, &next, weather)?;
                if t < time {
                    (at, time) = (next, t);
                }
            }
        }
        if before <= time * 1.001 {
            return Ok((at, time));
        }
    }
}

/// Seconds of all rounds if they are learnt from, and in how many something was tried.
pub(crate) fn learnt(world: &mut World, weather: &Weather) -> Result<(f64, usize), Failure> {
    let n = world.tasks();
    let mut learner = Learner::new(prior(n), weather.len() as u32);
    let (mut all, mut trials) = (0.0, 0);
    for slower in weather {
        let choice = learner.choose();
        let seconds = world.round(&choice.shares, slower)?;
        all += longest(&seconds);
        trials += usize::from(choice.why == Why::Trial);
        let transfers = vec![0.0; n];
        learner.observe(Observed {
            shares: choice.shares,
            seconds,
            transfers,
        });
    }
    Ok((all, trials))
}

/// Random shares in the first third of the rounds, at most twenty, then the best of them.
pub(crate) fn random(world: &mut World, weather: &Weather, seed: u64) -> Result<f64, Failure> {
    let n = world.tasks();
    let mut rng = StdRng::seed_from_u64(seed);
    let trials = (weather.len() / 3).min(20);
    let (mut all, mut best) = (0.0, (equal(n, 10_000), f64::INFINITY));
    for (k, slower) in weather.iter().enumerate() {
        let shares = match k {
            0 => equal(n, 10_000),
            _ if k <= trials => (0..n)
                .map(|_| Share::from_hundredths(1_000 * rng.random_range(1..=10u32)))
                .collect(),
            _ => best.0.clone(),
        };
        let took = longest(&world.round(&shares, slower)?);
        all += took;
        if took < best.1 {
            best = (shares, took);
        }
    }
    Ok(all)
}
