//! Spread between repeated measurements of the same configuration.

use std::collections::BTreeMap;

use doc::{Profile, Sample};
use math::stats;
use units::SamplesPerSec;

/// Minimum degrees of freedom for estimating a spread: with fewer, it is off by more than a factor of two in one case
/// of ten (chi-squared with three degrees of freedom).
const LEAST: f64 = 3.0;

/// Relative standard deviation between measurements of the same configuration, beyond what their own standard errors
/// explain. A window does not contain changes that are slower than itself (other programs, clocks, the host), so a
/// standard error from its parts is too small. The estimate uses medians, so one wrong measurement does not affect
/// it. `None` with too few repeats.
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
    let mut deviations = Vec::new();
    let mut own = Vec::new();
    let mut repeats = 0.0;
    for group in groups.values().filter(|group| group.len() > 1) {
        let count = group.len() as f64;
        // Deviations from the mean of a few measurements are smaller than those from the true value: correct for
        // that.
        let scale = (count / (count - 1.0)).sqrt();
        for task in 0..group[0].tasks.len() {
            let each = || group.iter().map(|s| &s.tasks[task]);
            let mean = each().map(|t| t.throughput.get()).sum::<f64>() / count;
            if mean <= 0.0 {
                continue;
            }
            deviations.extend(each().map(|t| scale * (t.throughput.get() / mean - 1.0)));
            own.extend(each().map(|t| t.stderr.map_or(0.0, SamplesPerSec::get) / mean));
            repeats += count - 1.0;
        }
    }
    let spread = stats::mad_sigma(&deviations, 0.0)?;
    let own = stats::median(&own)?;
    (repeats >= LEAST).then(|| (spread * spread - own * own).max(0.0).sqrt())
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
        let far = [(90.0, 1.0), (110.0, 1.0), (90.0, 1.0), (110.0, 1.0)];
        let spread = between(&repeated(&far)).unwrap();
        let expected = (1.4826_f64.powi(2) * 0.01 * 4.0 / 3.0 - 1e-4).sqrt();
        assert!((spread - expected).abs() < 1e-12, "{spread}");
        let explained = far.map(|(rate, _)| (rate, 18.0));
        assert_eq!(between(&repeated(&explained)), Some(0.0));
    }

    #[test]
    fn one_wrong_measurement_does_not_count() {
        let mut runs: Vec<(f64, f64)> = (0..10).map(|i| (100.0 + f64::from(i % 2), 0.0)).collect();
        let sound = between(&repeated(&runs)).unwrap();
        runs.push((100.0, 0.0));
        runs[3].0 = 110.0;
        let spread = between(&repeated(&runs)).unwrap();
        assert!(spread < 3.0 * sound, "{spread} {sound}");
    }

    #[test]
    fn too_few_repeats_say_nothing() {
        assert_eq!(
            between(&repeated(&[(90.0, 1.0), (110.0, 1.0), (90.0, 1.0)])),
            None
        );
    }
}
