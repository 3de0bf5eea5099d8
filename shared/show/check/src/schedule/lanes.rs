//! Checks that a GPU trains one task at a time.

use doc::{Schedule, ScheduledTask};

use crate::judge::{Judge, ROUNDING};

/// Limit for the number of rounds that are compared one by one, which takes seconds. Only entries of different periods
/// that alternate on a GPU need such a comparison.
const MOST_COMPARED: u64 = 100_000_000;

pub fn one_at_a_time(schedule: &Schedule, j: &mut Judge) {
    let mut lanes: Vec<Vec<usize>> = vec![Vec::new(); schedule.cluster.gpu_groups().len()];
    let all = &schedule.assignments;
    for (i, task) in all.iter().enumerate() {
        lanes[task.gpu].push(i);
    }
    // Every pair of entries counts at least once, since there can be many pairs.
    let mut left = MOST_COMPARED;
    for mut lane in lanes {
        // If two start at once, the one that takes no time comes first, since it does not delay the other.
        lane.sort_by(|&a, &b| {
            let starts = all[a].start.get().total_cmp(&all[b].start.get());
            starts.then(all[a].last_trained().total_cmp(&all[b].last_trained()))
        });
        // Earlier entries that may not have ended yet.
        let mut there: Vec<usize> = Vec::new();
        for i in lane {
            let start = all[i].start.get();
            there.retain(|&k| start < all[k].last_trained() * (1.0 - ROUNDING));
            let mut hit = None;
            for &k in &there {
                let least = match collision(&all[k], &all[i], &mut left) {
                    Collision::None => continue,
                    Collision::Unknown => {
                        let text = "too many rounds alternate on a GPU to compare each with each";
                        return j.unjudged("assignments", text);
                    }
                    Collision::At(start, end) => (start, end),
                };
                let text = format!("at least {}, when the GPU is free", least.1);
                j.field("assignments", |j| {
                    j.index(i, |j| j.contradiction("start_s", least.0, text));
                });
                hit = Some(k);
                break;
            }
            // Keep only one of two colliding entries, so that a document with collisions everywhere takes no longer.
            if let Some(k) = hit {
                there.retain(|&other| other != k);
            }
            there.push(i);
        }
    }
}

enum Collision {
    None,
    /// A round begins at the first time, before another round ends at the second.
    At(f64, f64),
    Unknown,
}

/// Finds whether any rounds of two entries train at the same time. Every round of the entry with fewer rounds is
/// compared with the rounds of the other entry around it. If both have the same period, each round keeps its place
/// between the rounds of the other, and the distances change only linearly, by rounding; then the first and the last
/// rounds are enough.
fn collision(a: &ScheduledTask, b: &ScheduledTask, left: &mut u64) -> Collision {
    let (few, many) = if a.rounds <= b.rounds { (a, b) } else { (b, a) };
    let (first, last) = (many.start.get(), many.last_trained());
    let number = |t: f64, task: &ScheduledTask| match task.rounds {
        1 => 0,
        rounds => ((t - task.start.get()) / task.period).clamp(0.0, f64::from(rounds - 1)) as u32,
    };
    // One more round on each side, because of rounding.
    let length = few.trained.get() - few.start.get();
    let from = number(first - length, few).saturating_sub(1);
    let to = (number(last, few) + 1).min(few.rounds - 1);
    let drift = (few.period - many.period).abs() * f64::from(to - from);
    let alike = drift <= ROUNDING * last;
    let steps = if alike { 1 } else { u64::from(to - from) + 1 };
    if steps > *left {
        return Collision::Unknown;
    }
    *left -= steps;
    let mut ends = [
        from,
        from + 1,
        from + 2,
        to.saturating_sub(2),
        to.saturating_sub(1),
        to,
    ]
    .into_iter();
    let found = match alike {
        true => ends.find_map(|k| at(few, k.clamp(from, to), many, number)),
        false => (from..=to).find_map(|k| at(few, k, many, number)),
    };
    found.unwrap_or(Collision::None)
}

/// A collision of round `k` of an entry with one of the rounds of the other entry around it.
fn at(
    few: &ScheduledTask,
    k: u32,
    many: &ScheduledTask,
    number: impl Fn(f64, &ScheduledTask) -> u32,
) -> Option<Collision> {
    let span = |task: &ScheduledTask, k: u32| {
        let moved = f64::from(k) * task.period;
        (task.start.get() + moved, task.trained.get() + moved)
    };
    let own = span(few, k);
    let around = number(own.0, many);
    let others = around.saturating_sub(1)..=around.saturating_add(2).min(many.rounds - 1);
    others.into_iter().find_map(|i| {
        let other = span(many, i);
        let (before, after) = if own.0 <= other.0 {
            (own, other)
        } else {
            (other, own)
        };
        // A task that takes no time does not collide with a task that starts at the same time.
        let meets =
            after.0 < before.1 * (1.0 - ROUNDING) && (after.1 > after.0 || after.0 > before.0);
        meets.then_some(Collision::At(after.0, before.1))
    })
}

#[cfg(test)]
mod tests {
    use units::Seconds;

    use super::*;

    fn entry(start: u32, train: u32, rounds: u32, gap: u32) -> ScheduledTask {
        let second = |s: u32| Seconds::new(f64::from(s)).expect("a small number");
        ScheduledTask {
            job: 0,
            round: 0,
            task: 0,
            gpu: 0,
            start: second(start),
            switch: Seconds::ZERO,
            trained: second(start + train),
            synced: second(start + train),
            rounds,
            period: if rounds > 1 {
                f64::from(train + gap)
            } else {
                0.0
            },
        }
    }

    /// Reference: compares every round with every round.
    fn plain(a: &ScheduledTask, b: &ScheduledTask) -> bool {
        let spans = |t: &ScheduledTask| {
            let span = |k| {
                let moved = f64::from(k) * t.period;
                (t.start.get() + moved, t.trained.get() + moved)
            };
            (0..t.rounds).map(span).collect::<Vec<_>>()
        };
        let others = spans(b);
        let mut own = spans(a).into_iter();
        own.any(|(s, e)| others.iter().any(|&(t, f)| s < f && t < e))
    }

    #[test]
    fn a_collision_is_found_wherever_it_is() {
        // Many pairs have the same period, for which not every round is compared.
        let shapes = |starts: std::ops::Range<u32>| {
            starts.flat_map(|start| {
                let sizes = [1, 2, 5, 12].into_iter();
                let all =
                    sizes.flat_map(|n| (1..4).flat_map(move |t| (0..4).map(move |g| (n, t, g))));
                all.map(move |(rounds, train, gap)| entry(start, train, rounds, gap))
            })
        };
        let mut met = 0;
        for a in shapes(0..1) {
            for b in shapes(0..20) {
                let found = collision(&a, &b, &mut 1_000);
                assert!(!matches!(found, Collision::Unknown));
                let found = matches!(found, Collision::At(..));
                assert_eq!(found, plain(&a, &b), "{a:?} {b:?}");
                met += u32::from(found);
            }
        }
        assert!((10_000..40_000).contains(&met), "{met} of 46,080");
    }

    #[test]
    fn too_many_rounds_are_not_compared() {
        let (a, b) = (entry(0, 1, 4_000_000, 2), entry(1, 1, 4_000_000, 3));
        assert!(matches!(collision(&a, &b, &mut 1_000), Collision::Unknown));
    }
}
