//! Whether a profile holds enough for a verdict.

use std::collections::BTreeMap;

use doc::{Profile, Sample};

/// What a verdict on sharing would need and the profile does not have, with what to do; `None`
/// where it holds enough: every task alone, all of them together, and more than half of what was tried
/// (a profile of which most failed describes what did not fail, not the work).
pub fn missing(profile: &Profile) -> Option<String> {
    let tasks = &profile.header.workload.tasks;
    let (measured, failed) = (profile.samples.len(), profile.failures.len());
    let reasons = || {
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for failure in &profile.failures {
            *count.entry(&failure.reason).or_default() += 1;
        }
        let most = count.into_iter().max_by_key(|(_, n)| *n);
        most.map_or_else(String::new, |(why, _)| format!(", most because {why}"))
    };
    let of = |sample: &Sample, n: usize| sample.tasks.len() == n;
    for task in tasks {
        let alone = |s: &&Sample| of(s, 1) && s.tasks[0].id == task.id;
        if !profile.samples.iter().any(|s| alone(&s)) {
            return Some(format!(
                "{} was not measured alone{}; make it run by itself first",
                task.id,
                reasons()
            ));
        }
    }
    if tasks.len() > 1 && profile.header.workload.device.gpus == 1 {
        let together = profile.samples.iter().any(|s| of(s, tasks.len()));
        let pair = profile.samples.iter().any(|s| s.tasks.len() > 1);
        if !together && !pair {
            return Some(format!(
                "no co-run was measured ({failed} of {} configurations failed{}); make the tasks run beside \
                 each other first",
                failed + measured,
                reasons()
            ));
        }
    }
    (failed > measured).then(|| {
        format!(
            "{failed} of {} configurations failed{}; mend that first",
            failed + measured,
            reasons()
        )
    })
}
