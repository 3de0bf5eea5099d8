//! Checks whether a profile contains enough measurements for a verdict.

use std::collections::BTreeMap;

use doc::{Profile, Sample};

/// Data that a verdict on sharing needs but the profile lacks, with advice; `None` if it suffices: every task alone,
/// all of them together, and more than half of the attempted configurations (if most of a profile failed, the rest
/// does not represent the work).
pub fn missing(profile: &Profile) -> Option<String> {
    let tasks = &profile.header.workload.tasks;
    let measured = profile.samples.len();
    let failed = profile.failures.len();
    let reasons = || {
        // Failures are grouped by cause, since their texts contain seconds and names and so differ.
        let mut count: BTreeMap<String, (usize, &str)> = BTreeMap::new();
        for failure in &profile.failures {
            let cause = failure.cause.map(|cause| doc::name_of(&cause));
            let key = cause.unwrap_or_else(|| failure.reason.clone());
            count.entry(key).or_insert((0, &failure.reason)).0 += 1;
        }
        let most = count.into_values().max_by_key(|(n, _)| *n);
        most.map_or_else(String::new, |(_, why)| format!(", most because {why}"))
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
            "{failed} of {} configurations failed{}; fix that first",
            failed + measured,
            reasons()
        )
    })
}

#[cfg(test)]
mod tests {
    use doc::{Any, AnyDocuments, Frames};

    use super::*;

    /// A profile of two tasks with some configurations, given by their tasks and whether they succeeded.
    fn of(configs: &[(&[&str], bool)]) -> Profile {
        let mut text = r#"{"schema":"mt.profile/1","record":"header","workload":{"schema":"mt.workload/1",
            "device":{"kind":"sim","gpu":"rtx-3090"},"tasks":[{"id":"a","model":"vgg16","batch_sizes":[64]},
            {"id":"b","model":"vgg16","batch_sizes":[64]}]},"device":{"kind":"sim","name":"rtx-3090",
            "simulated":true},"design":"adaptive","seed":1,"provenance":[]}"#
            .replace('\n', "");
        for (number, (tasks, measured)) in configs.iter().enumerate() {
            let rate = if *measured {
                r#","samples_per_s":9"#
            } else {
                ""
            };
            let one =
                |id: &&str| format!(r#"{{"id":"{id}","batch":64,"share_percent":100{rate}}}"#);
            let tasks: Vec<String> = tasks.iter().map(one).collect();
            let rest = match measured {
                true => r#""record":"sample","window_s":1,"repeats":1"#,
                false => r#""record":"failure","reason":"it ran out of memory""#,
            };
            text += &format!(
                "\n{{\"schema\":\"mt.profile/1\",\"config\":{number},\"tasks\":[{}],{rest}}}",
                tasks.join(",")
            );
        }
        let mut all = AnyDocuments::new(Frames::new(text.as_bytes(), "test"));
        match all.next() {
            Some(Ok(Any::Profile(profile))) => *profile,
            other => panic!("no profile: {other:?}"),
        }
    }

    #[test]
    fn a_verdict_needs_every_task_alone_a_co_run_and_most_of_what_was_tried() {
        let (a, b, both) = (&["a"][..], &["b"][..], &["a", "b"][..]);
        let enough = [(a, true), (b, true), (both, true)];
        assert_eq!(missing(&of(&enough)), None);
        let why = |configs: &[(&[&str], bool)]| missing(&of(configs)).unwrap();
        let alone = why(&[(a, true), (b, false), (both, true)]);
        assert!(
            alone.starts_with("b was not measured alone, most because it ran out"),
            "{alone}"
        );
        let together = why(&[(a, true), (b, true), (both, false)]);
        assert!(
            together.starts_with("no co-run was measured (1 of 3"),
            "{together}"
        );
        let mut most = enough.to_vec();
        most.extend([(both, false); 4]);
        assert!(why(&most).starts_with("4 of 7 configurations failed"));
    }
}
