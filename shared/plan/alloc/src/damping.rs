use units::Samples;

/// The load used for the mismatch, damped over rounds so that a spike of data does not make the batch sizes
/// oscillate: `lambda L_before + (1 - lambda) D_now`, rounded to whole samples. `lambda` is in `[0, 1)`; 0 means
/// no memory. Without a previous load, the current one is returned.
#[must_use]
pub fn damped_load(before: Option<Samples>, now: Samples, lambda: f64) -> Samples {
    let Some(before) = before else {
        return now;
    };
    let mean = lambda * before.as_f64() + (1.0 - lambda) * now.as_f64();
    // The mean of two valid counts is valid; the fallback is never used.
    Samples::new(mean.round().max(1.0) as u64).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(v: u64) -> Samples {
        Samples::new(v).unwrap()
    }

    #[test]
    fn a_spike_is_halved_each_round() {
        assert_eq!(damped_load(None, s(100), 0.5), s(100));
        assert_eq!(damped_load(Some(s(100)), s(900), 0.5), s(500));
        assert_eq!(damped_load(Some(s(500)), s(100), 0.5), s(300));
    }

    #[test]
    fn a_steady_load_is_reached() {
        let mut load = s(1000);
        for _ in 0..60 {
            load = damped_load(Some(load), s(200), 0.8);
        }
        assert!(load.get() <= 203, "{load:?}");
        assert_eq!(damped_load(Some(s(7)), s(3), 0.0), s(3));
    }
}
