//! Throughputs of tasks that run together, and when the last of them finishes.

use units::corun::{Setting, Throughput, seconds_to_finish};

/// Rates of all tasks running together.
pub(crate) fn together<C: Throughput + ?Sized>(rates: &C, settings: &[Setting]) -> Vec<f64> {
    let mut out = vec![0.0; settings.len()];
    rates.means(settings, &mut out);
    out
}

/// Seconds until every task has trained on its work, if all begin at once and keep their shares. Whenever a task
/// ends, the rates are predicted again for the remaining tasks. Rates are `deviations` standard deviations above
/// their means. `None` if a task makes no progress.
pub(crate) fn finish<C: Throughput + ?Sized>(
    rates: &C,
    settings: &[Setting],
    work: &[f64],
    deviations: f64,
) -> Option<f64> {
    seconds_to_finish(work, |left| {
        let active: Vec<Setting> = left.iter().map(|&i| settings[i]).collect();
        let mut speed = together(rates, &active);
        if deviations != 0.0 {
            for (speed, error) in speed.iter_mut().zip(rates.std_errors(&active)) {
                *speed += deviations * error;
            }
        }
        Some(speed)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use units::{Batch, Share};

    /// Two tasks of 100 samples/s alone; together each has `slow` times that.
    pub(crate) struct Law {
        pub(crate) slow: f64,
    }

    impl Throughput for Law {
        fn task_count(&self) -> usize {
            2
        }

        fn solo(&self, _: usize, batch: Batch) -> f64 {
            if batch.get() == 32 { 100.0 } else { 80.0 }
        }

        fn covers(&self, _: Setting, _: usize) -> bool {
            true
        }

        fn means(&self, active: &[Setting], out: &mut [f64]) {
            let speed = if active.len() == 1 { 1.0 } else { self.slow };
            out.fill(100.0 * speed);
        }

        fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
            vec![10.0; active.len()]
        }
    }

    fn settings() -> Vec<Setting> {
        let batch = Batch::new(32).unwrap();
        let setting = |task| Setting {
            task,
            batch,
            share: Share::FULL,
        };
        vec![setting(0), setting(1)]
    }

    #[test]
    fn what_is_left_runs_at_the_speed_of_those_left() {
        let law = Law { slow: 0.6 };
        // 60/s each until task 0 ends after 10 s; then 100/s for the 600 left.
        let time = finish(&law, &settings(), &[600.0, 1200.0], 0.0).unwrap();
        assert!((time - 16.0).abs() < 1e-9, "{time}");
        let sooner = finish(&law, &settings(), &[600.0, 1200.0], 1.96).unwrap();
        let later = finish(&law, &settings(), &[600.0, 1200.0], -1.96).unwrap();
        assert!(sooner < time && time < later);
    }

    #[test]
    fn a_rate_whose_interval_reaches_nought_has_no_upper_end() {
        let law = Law { slow: 0.1 };
        assert_eq!(finish(&law, &settings(), &[1.0, 1.0], -1.96), None);
    }
}
