//! Measured co-runs that a model contains, from which plans may choose.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use doc::{Corun, Measured, Profile, Sample};
use units::{Batch, SamplesPerSec, Share, TaskId};

use crate::repeats::between;

/// Maximum number of co-runs in a model. They take less space than the model's parameters, and a profile with the
/// default budget has only 40.
const MOST: usize = 256;

/// The co-runs of all tasks that a plan may choose from. If there are more than 256, the best are taken, in turn by
/// total throughput, by the sum of throughputs relative to alone, and by the minimum of these. Runs of some of the
/// tasks at the batch sizes of one of these co-runs are included, too, because they show how a round continues after
/// a task has ended. Standard errors contain the spread between repeats of the profile ([`between`]).
#[must_use]
pub fn candidates(profile: &Profile) -> Vec<Corun> {
    let tasks = &profile.header.workload.tasks;
    let batches = |id: &TaskId| {
        let known = tasks.iter().find(|t| t.id == *id);
        known.map_or(&[][..], |t| &t.batch_sizes)
    };
    let usable = |s: &&Sample| {
        let advances = |m: &Measured| m.throughput.get() > 0.0 && batches(&m.id).contains(&m.batch);
        s.tasks.iter().all(advances)
    };
    let (mut whole, parts): (Vec<&Sample>, Vec<&Sample>) = profile
        .samples
        .iter()
        .filter(usable)
        .partition(|s| s.tasks.len() == tasks.len());
    if whole.len() > MOST {
        whole = best(whole, &alone(profile));
    }
    let spread = between(profile).unwrap_or(0.0);
    let sizes: BTreeSet<Vec<_>> = whole.iter().map(|s| sizes(s)).collect();
    let is_part = |s: &&Sample| {
        let among = |whole: &Vec<_>| s.tasks.iter().all(|m| whole.contains(&(&m.id, m.batch)));
        sizes.iter().any(among)
    };
    let mut all: Vec<&Sample> = parts.into_iter().filter(is_part).take(MOST).collect();
    all.append(&mut whole);
    all.sort_by_key(|s| s.config);
    all.into_iter()
        .map(|sample| {
            let of = |t: &doc::Task| {
                let known = sample.tasks.iter().find(|m| m.id == t.id);
                known.map(|m| widened(m, spread))
            };
            Corun {
                config: sample.config,
                tasks: tasks.iter().filter_map(of).collect(),
            }
        })
        .collect()
}

/// A measurement whose standard error contains the relative spread between repeats.
fn widened(measured: &Measured, spread: f64) -> Measured {
    let rate = measured.throughput.get();
    let own = measured.stderr.map_or(0.0, SamplesPerSec::get);
    let error = SamplesPerSec::new(own.hypot(spread * rate)).ok();
    Measured {
        stderr: error.filter(|_| spread > 0.0).or(measured.stderr),
        ..measured.clone()
    }
}

fn sizes(sample: &Sample) -> Vec<(&TaskId, Batch)> {
    let mut all: Vec<_> = sample.tasks.iter().map(|m| (&m.id, m.batch)).collect();
    all.sort();
    all
}

/// Largest throughput of each task alone on the whole device.
fn alone(profile: &Profile) -> BTreeMap<&TaskId, f64> {
    let mut best = BTreeMap::new();
    for sample in &profile.samples {
        if let [one] = &sample.tasks[..]
            && one.share == Share::FULL
        {
            let most: &mut f64 = best.entry(&one.id).or_default();
            *most = most.max(one.throughput.get());
        }
    }
    best
}

/// [`MOST`] of the samples, in the order of the profile.
fn best<'a>(all: Vec<&'a Sample>, alone: &BTreeMap<&TaskId, f64>) -> Vec<&'a Sample> {
    let relative = |m: &Measured| {
        let solo = alone.get(&m.id).copied().filter(|s| *s > 0.0);
        solo.map_or(0.0, |solo| m.throughput.get() / solo)
    };
    let worths: [&dyn Fn(&Sample) -> f64; 3] = [
        &|s| s.tasks.iter().map(|m| m.throughput.get()).sum(),
        &|s| s.tasks.iter().map(relative).sum(),
        &|s| s.tasks.iter().map(relative).fold(f64::INFINITY, f64::min),
    ];
    let orders = worths.map(|worth| {
        let mut order: Vec<usize> = (0..all.len()).collect();
        // Rates are finite and not negative, so their bit patterns have the same order.
        order.sort_by_key(|&i| Reverse(worth(all[i]).to_bits()));
        order
    });
    let mut kept = BTreeSet::new();
    for rank in 0..all.len() {
        for order in &orders {
            if kept.len() < MOST {
                kept.insert(order[rank]);
            }
        }
    }
    kept.into_iter().map(|i| all[i]).collect()
}

#[cfg(test)]
mod tests {
    use doc::{Frames, Profiles};

    use super::*;

    /// `n` co-runs of two tasks and one solo run; in the last co-run, one task makes no progress.
    fn profile(n: u32) -> Profile {
        let mut text = String::from(
            r#"{"schema":"mt.profile/1","record":"header","workload":{"schema":"mt.workload/1","tasks":[{"id":"a","batch_sizes":[8],"model":"vgg16"},{"id":"b","batch_sizes":[8],"model":"vgg16"}]},"device":{"kind":"sim","name":"x","simulated":true},"design":"given","seed":0}"#,
        );
        let task = |id: &str, share: u32, rate: u32| {
            format!(r#"{{"id":"{id}","batch":8,"share_percent":{share},"samples_per_s":{rate}}}"#)
        };
        let mut sample = |config: u32, tasks: &[String]| {
            text += &format!(
                "\n{{\"schema\":\"mt.profile/1\",\"record\":\"sample\",\"config\":{config},\"tasks\":[{}],\"window_s\":1,\"repeats\":1}}",
                tasks.join(",")
            );
        };
        sample(0, &[task("a", 100, 1000)]);
        sample(1, &[task("b", 100, 1000)]);
        for i in 1..=n {
            let last = if i == n { 0 } else { 900 - i };
            // The tasks are not in the order of the workload.
            sample(1 + i, &[task("b", 50, i), task("a", 50, last)]);
        }
        let frames = Frames::new(text.as_bytes(), "test");
        Profiles::new(frames).next().unwrap().unwrap()
    }

    #[test]
    fn co_runs_of_all_tasks_that_advanced_and_their_parts_are_kept_in_the_order_of_the_workload() {
        let kept = candidates(&profile(3));
        assert_eq!(
            kept.iter().map(|c| c.config).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        assert_eq!(kept[2].tasks[0].id.as_str(), "a");
    }

    #[test]
    fn a_standard_error_contains_the_spread_between_repeats() {
        let profile = profile(1);
        let mut measured = profile.samples[0].tasks[0].clone();
        assert_eq!(widened(&measured, 0.0), measured);
        let error = |m: &Measured| m.stderr.map(SamplesPerSec::get);
        assert_eq!(error(&widened(&measured, 0.04)), Some(40.0));
        measured.stderr = SamplesPerSec::new(30.0).ok();
        assert_eq!(error(&widened(&measured, 0.04)), Some(50.0));
    }

    #[test]
    fn of_many_the_best_by_each_measure_are_kept() {
        let mut kept = candidates(&profile(600));
        kept.retain(|c| c.tasks.len() == 2);
        assert_eq!(kept.len(), MOST);
        // The totals are equal, so the first co-runs are taken; the minimum is largest in the middle.
        let configs: BTreeSet<u64> = kept.iter().map(|c| c.config).collect();
        assert!(configs.contains(&2) && configs.contains(&451));
        assert!(!configs.contains(&600));
    }
}
