//! How far repeats of the same co-run differ.

use std::collections::BTreeMap;

use doc::{Profile, Sample};

/// Fewest differences between repeats that a spread is computed from: of fewer, it is off by more than a factor of two
/// in one case of ten (chi-squared with three degrees of freedom).
const LEAST: f64 = 3.0;

/// Relative standard deviation between measurements of the same configuration, beyond what their own standard errors
/// explain. A window sees no change that is slower than itself (other programs, clocks, the host), so the standard
/// error of its stretches is too small. `None` if too few were repeated.
#[must_use]
pub fn between(profile: &Profile) -> Option<f64> {
    let key = |s: &Sample| -> Vec<_> {
        let each = s.tasks.iter().map(|t| (t.id.clone(), t.batch, t.share));
        each.collect()
    };
    let mut groups: BTreeMap<_, Vec<&Sample>> = BTreeMap::new();
    for sample in &profile.samples {
        groups.entry(key(sample)).or_default().push(sample);
    }
    let (mut squares, mut own, mut differences) = (0.0, 0.0, 0.0);
    for repeats in groups.values().filter(|repeats| repeats.len() > 1) {
        let free = (repeats.len() - 1) as f64;
        for task in 0..repeats[0].tasks.len() {
            let each = || repeats.iter().map(|s| &s.tasks[task]);
            let mean = each().map(|t| t.throughput.get()).sum::<f64>() / (free + 1.0);
            if mean <= 0.0 {
                continue;
            }
            let relative = |value: f64| (value / mean).powi(2);
            squares += each()
                .map(|t| relative(t.throughput.get() - mean))
                .sum::<f64>();
            let errors = each().map(|t| relative(t.stderr.map_or(0.0, units::SamplesPerSec::get)));
            own += errors.sum::<f64>() * free / (free + 1.0);
            differences += free;
        }
    }
    (differences >= LEAST).then(|| ((squares - own) / differences).max(0.0).sqrt())
}

#[cfg(test)]
mod tests {
    use doc::{Frames, Profiles};

    use super::*;

    /// A profile of repeated runs of one task alone: each a throughput and its standard error.
    fn repeated(runs: &[(f64, f64)]) -> Profile {
        let mut text = String::from(
            r#"{"schema":"mt.profile/1","record":"header","workload":{"schema":"mt.workload/1","tasks":[{"id":"a","batch_sizes":[8],"model":"vgg16"}]},"device":{"kind":"cpu","name":"x","simulated":false},"design":"given","seed":0}"#,
        );
        for (config, (rate, error)) in runs.iter().enumerate() {
            text += &format!(
                "\n{{\"schema\":\"mt.profile/1\",\"record\":\"sample\",\"config\":{config},\"tasks\":[{{\"id\":\"a\",\
                 \"batch\":8,\"share_percent\":100,\"samples_per_s\":{rate},\"stderr_samples_per_s\":{error}}}],\
                 \"window_s\":1,\"repeats\":1}}"
            );
        }
        let frames = Frames::new(text.as_bytes(), "test");
        Profiles::new(frames).next().unwrap().unwrap()
    }

    #[test]
    fn what_own_errors_explain_is_not_counted() {
        // The sample variance of 90, 110, 90, 110 is 400/3, so 11.5 %.
        let far = [(90.0, 1.0), (110.0, 1.0), (90.0, 1.0), (110.0, 1.0)];
        let spread = between(&repeated(&far)).unwrap();
        let expected = (400.0_f64 / 3.0 - 1.0).sqrt() / 100.0;
        assert!((spread - expected).abs() < 1e-12, "{spread}");
        let explained = far.map(|(rate, _)| (rate, 12.0));
        assert_eq!(between(&repeated(&explained)), Some(0.0));
    }

    #[test]
    fn too_few_repeats_say_nothing() {
        assert_eq!(
            between(&repeated(&[(90.0, 1.0), (110.0, 1.0), (90.0, 1.0)])),
            None
        );
    }
}
