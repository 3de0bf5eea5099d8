//! Tests the decision on simulated machines with known gains: how often it is wrong, and how often it is undecided.

use super::*;

/// A small generator of random numbers (xorshift64*), so that every run of the test sees the same machines.
struct Chance(u64);

impl Chance {
    /// Uniform in 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately standard normal: the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A machine with other programs.
#[derive(Clone, Copy)]
struct Machine {
    /// Relative noise of the rate in one window.
    noise: f64,
    /// Step of the random walk of the speed from window to window, as from clocks and heat.
    drift: f64,
    /// Probability that the other programs start or end before a window.
    changes: f64,
    /// Fraction of the processors that the other programs use.
    taken: f64,
}

/// One trial: alone and together in turns, like `Pairing` and `Trying::repeated`. The other programs slow down commands
/// that run together by the fraction that they use, and commands that run alone, which leave a processor idle, by a
/// third of it.
fn tried(machine: Machine, gain: f64, chance: &mut Chance) -> Verdict {
    let (mut speed, mut busy) = (0.0, chance.uniform() < 0.5);
    let mut samples = Vec::new();
    while more(&samples, false) {
        let (mut rates, mut others) = ([0.0; 2], 0.0f64);
        let order = [[1, 0], [0, 1]][samples.len() % 2];
        for side in order {
            busy ^= chance.uniform() < machine.changes;
            speed += machine.drift * chance.normal();
            let lost = if busy { machine.taken } else { 0.0 };
            let slowed = (1.0 - lost * [1.0 / 3.0, 1.0][side]).ln();
            others = others.max(lost);
            rates[side] = speed + slowed + machine.noise * chance.normal();
        }
        samples.push(Sample {
            ln_gain: (1.0 + gain).ln() + rates[1] - rates[0],
            others,
        });
    }
    Judged::of(&samples).unwrap().verdict()
}

/// Fractions of trials with *worth it* and *not worth it*.
fn fractions(machine: Machine, gain: f64) -> (f64, f64) {
    const TRIALS: u32 = 4000;
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let (mut worth, mut not) = (0u32, 0u32);
    for _ in 0..TRIALS {
        match tried(machine, gain, &mut chance) {
            Verdict::Worth => worth += 1,
            Verdict::NotWorth => not += 1,
            Verdict::WithinNoise => {}
        }
    }
    let part = |n: u32| f64::from(n) / f64::from(TRIALS);
    (part(worth), part(not))
}

const MACHINES: [(&str, Machine); 7] = [
    (
        "quiet",
        Machine {
            noise: 0.01,
            drift: 0.002,
            changes: 0.0,
            taken: 0.0,
        },
    ),
    (
        "noisy",
        Machine {
            noise: 0.05,
            drift: 0.01,
            changes: 0.0,
            taken: 0.0,
        },
    ),
    (
        "very noisy",
        Machine {
            noise: 0.08,
            drift: 0.02,
            changes: 0.0,
            taken: 0.0,
        },
    ),
    (
        "crowded",
        Machine {
            noise: 0.15,
            drift: 0.02,
            changes: 0.05,
            taken: 0.4,
        },
    ),
    (
        "drifting",
        Machine {
            noise: 0.02,
            drift: 0.05,
            changes: 0.0,
            taken: 0.0,
        },
    ),
    (
        "neighbours that come and go",
        Machine {
            noise: 0.03,
            drift: 0.01,
            changes: 0.2,
            taken: 0.4,
        },
    ),
    (
        "neighbours that stay",
        Machine {
            noise: 0.03,
            drift: 0.01,
            changes: 0.02,
            taken: 0.4,
        },
    ),
];

#[test]
fn sharing_that_changes_nothing_is_rarely_called_better_or_worse() {
    for (name, machine) in MACHINES {
        let (worth, not) = fractions(machine, 0.0);
        assert!(
            worth + not <= 0.05,
            "{name}: worth it {worth}, not worth it {not}"
        );
    }
}

#[test]
fn a_difference_of_a_tenth_or_more_rarely_has_the_wrong_sign() {
    for (name, machine) in MACHINES {
        for gain in [0.1, 0.3, 0.9] {
            let (_, wrong) = fractions(machine, gain);
            assert!(wrong <= 0.05, "{name} at {gain}: {wrong}");
        }
        for gain in [-0.1, -0.3] {
            let (wrong, _) = fractions(machine, gain);
            assert!(wrong <= 0.05, "{name} at {gain}: {wrong}");
        }
    }
}

#[test]
fn a_quiet_machine_tells_a_difference_of_a_tenth() {
    let (_, quiet) = MACHINES[0];
    let (_, noisy) = MACHINES[1];
    assert!(fractions(quiet, 0.1).0 > 0.95 && fractions(quiet, -0.1).1 > 0.95);
    assert!(fractions(noisy, 0.3).0 > 0.95 && fractions(noisy, -0.3).1 > 0.95);
}

#[test]
fn quiet_comparisons_take_precedence_and_a_loaded_machine_is_not_called_bad() {
    let sample = |ln_gain, others| Sample { ln_gain, others };
    let mixed = [sample(0.5, 0.0), sample(-0.9, 0.4), sample(0.52, 0.01)];
    let judged = Judged::of(&mixed).unwrap();
    assert_eq!((judged.count, judged.verdict()), (2, Verdict::Worth));
    let busy = [sample(-0.3, 0.4); 6];
    assert_eq!(Judged::of(&busy).unwrap().verdict(), Verdict::WithinNoise);
    let quiet = [sample(-0.3, 0.01); 6];
    assert_eq!(Judged::of(&quiet).unwrap().verdict(), Verdict::NotWorth);
    assert!(Judged::of(&[]).is_none());
}
