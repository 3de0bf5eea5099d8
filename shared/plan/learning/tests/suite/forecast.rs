//! Forecasts on recorded trainings of the AlgoPerf benchmark.

use std::path::Path;

use learning::{History, Point, REACHED_REPORTS, remaining};

/// The recorded losses of every training, or `None` if the data are not beside the workspace.
pub fn curves() -> Option<Vec<Vec<Point>>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../../shared/data/algoperf/loss_curves.csv");
    let text = std::fs::read_to_string(file).ok()?;
    let mut curves: Vec<Vec<Point>> = Vec::new();
    let mut last = None;
    for line in text.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        if last != Some(cells[0].to_owned()) {
            last = Some(cells[0].to_owned());
            curves.push(Vec::new());
        }
        let loss: f64 = cells[3].parse().unwrap();
        if loss.is_finite() {
            let step = cells[2].parse().unwrap();
            curves.last_mut().unwrap().push(Point { step, loss });
        }
    }
    Some(curves)
}

/// The mean of the last reports is the target; the training ends when it is first reached.
pub fn target_and_end(curve: &[Point]) -> (f64, f64) {
    let mean = |to: usize| {
        let window = &curve[to + 1 - REACHED_REPORTS..=to];
        window.iter().map(|p| p.loss).sum::<f64>() / REACHED_REPORTS as f64
    };
    let target = mean(curve.len() - 1);
    let hit = (REACHED_REPORTS - 1..curve.len()).find(|&i| mean(i) <= target);
    (target, curve[hit.unwrap()].step)
}

/// Over all trainings at `part` of their length: the percentage forecast within a factor of two, the percentage whose
/// remaining length is in the 90 % interval, and their number.
fn score(curves: &[Vec<Point>], part: f64) -> (f64, f64, usize) {
    let (mut within, mut inside, mut all) = (0, 0, 0);
    for curve in curves.iter().filter(|c| c.len() >= 40) {
        let (target, end) = target_and_end(curve);
        let seen: Vec<Point> = curve
            .iter()
            .take_while(|p| p.step <= part * end)
            .copied()
            .collect();
        let Some(now) = seen.last().map(|p| p.step).filter(|_| seen.len() >= 8) else {
            continue;
        };
        let truth = end - now;
        all += 1;
        if let Some(r) = remaining(&history(&seen).curve(), target, None) {
            within += usize::from((r.steps / truth).ln().abs() <= 2f64.ln());
            inside += usize::from(r.low <= truth && truth <= r.high);
        }
    }
    let percent = |n: i32| 100.0 * f64::from(n) / all as f64;
    (percent(within as i32), percent(inside as i32), all)
}

fn history(points: &[Point]) -> History {
    let mut history = History::default();
    for point in points {
        let _ = history.push(point.step as u64, Some(point.loss));
    }
    history
}

/// Bounds a few percent below the measured values. A forecast that ignores the losses and only uses the steps made is
/// good at one moment and fails at another: all three count.
#[test]
fn remaining_steps_are_within_a_factor_of_two_and_intervals_hold_the_truth() {
    let Some(curves) = curves() else {
        testkit::skipped(
            "data",
            "../shared/data/algoperf is not beside the workspace",
        );
        return;
    };
    for (part, least, held) in [
        (0.25, 40.0, 79.0),
        (0.5, 67.0, 89.0),
        (0.75, 57.0, 86.0),
        (0.9, 28.0, 78.0),
    ] {
        let (within, inside, all) = score(&curves, part);
        println!("at {part} of {all}: {within:.0} % within a factor of two, {inside:.0} % inside");
        assert!(
            within >= least && inside >= held,
            "at {part}: {within} {inside}"
        );
    }
}

/// Deterministic noise, uniform in -1..1.
fn noise(k: u64) -> f64 {
    2.0 * (k as f64 * 12.9898).sin().fract()
}

fn reported(steps: u64, loss: impl Fn(u64) -> f64) -> History {
    let mut history = History::default();
    for k in 1..=steps {
        let _ = history.push(k, Some(loss(k)));
    }
    history
}

fn law(k: u64) -> f64 {
    1.0 / (0.01 * k as f64 + 0.5) + 0.3
}

#[test]
fn noise_widens_the_interval_and_keeps_the_truth_inside() {
    let target = law(800);
    for level in [0.0, 0.01, 0.05, 0.1] {
        let seen = reported(400, |k| law(k) + level * noise(k));
        let r = remaining(&seen.curve(), target, None).unwrap();
        assert!(r.low <= 400.0 && 400.0 <= r.high, "noise {level}: {r:?}");
        assert!(
            (r.steps / 400.0).ln().abs() < 4f64.ln(),
            "noise {level}: {r:?}"
        );
    }
}

#[test]
fn towards_the_end_a_forecast_is_not_twice_too_long() {
    let law = |k: f64| 2.0 / (1.0 + k / 800.0);
    let end = 2400.0;
    let seen = 0.9 * end;
    let forecast = |phase: u64| {
        let mut history = History::default();
        for report in 1..=(seen / 10.0) as u64 {
            let step = 10 * report;
            let loss = law(step as f64) * (1.0 + 0.02 * noise(report + 1000 * phase));
            let _ = history.push(step, Some(loss));
        }
        remaining(&history.curve(), law(end), None).unwrap()
    };
    let truth = end - seen;
    let all: Vec<_> = (0..20).map(forecast).collect();
    let longer = all.iter().map(|r| (r.steps / truth).ln()).sum::<f64>() / 20.0;
    assert!(longer.abs() < 2f64.ln(), "{longer}");
    let held = all.iter().filter(|r| r.low <= truth && truth <= r.high);
    assert!(held.count() >= 18, "{all:?}");
}

#[test]
fn a_plateau_above_the_target_lasts_longer_than_a_fall() {
    let falling = reported(400, |k| 2.0 - 0.002 * k as f64 + 0.01 * noise(k));
    let flat = reported(400, |k| (2.0 - 0.004 * k as f64).max(1.2) + 0.01 * noise(k));
    let left = |h: &History| remaining(&h.curve(), 0.8, None).unwrap();
    let (falling, flat) = (left(&falling), left(&flat));
    assert!(flat.steps > 1.5 * falling.steps, "{flat:?} {falling:?}");
    assert!(flat.steps.is_finite() && flat.high.is_finite());
}

#[test]
fn a_rising_loss_has_no_short_rest() {
    let seen = reported(400, |k| 1.0 + 0.002 * k as f64 + 0.01 * noise(k));
    if let Some(r) = remaining(&seen.curve(), 0.8, None) {
        assert!(r.steps > 400.0 && r.high.is_finite(), "{r:?}");
    }
}

#[test]
fn losses_that_are_no_numbers_change_no_forecast() {
    let clean = reported(400, law);
    let dirty = reported(400, |k| match k % 7 {
        0 => f64::NAN,
        3 => f64::INFINITY,
        _ => law(k),
    });
    let left = |h: &History| remaining(&h.curve(), 0.4, None).unwrap().steps;
    let ratio = left(&dirty) / left(&clean);
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
}

#[test]
fn a_cut_learning_rate_shortens_the_forecast() {
    let before = |k: u64| 2.0 + 0.3 * (-(k as f64) / 400.0).exp() + 0.01 * noise(k);
    let steady = reported(700, before);
    let cut = reported(700, |k| match k {
        0..600 => before(k),
        _ => 1.4 + 0.2 * (-((k - 600) as f64) / 100.0).exp() + 0.01 * noise(k),
    });
    assert_eq!((steady.drops(), cut.drops()), (0, 1));
    let left = |h: &History| remaining(&h.curve(), 1.38, None).unwrap().steps;
    assert!(left(&cut) < 0.5 * left(&steady));
}
