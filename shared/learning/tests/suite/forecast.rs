//! Forecasts on recorded trainings of the AlgoPerf benchmark.

use std::path::Path;

use learning::{History, Point, Prior, REACHED_REPORTS, remaining};

/// The recorded losses of every training, or `None` where the data is not beside the workspace.
fn curves() -> Option<Vec<Vec<Point>>> {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/algoperf/loss_curves.csv");
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
fn target_and_end(curve: &[Point]) -> (f64, f64) {
    let mean = |to: usize| {
        let window = &curve[to + 1 - REACHED_REPORTS..=to];
        window.iter().map(|p| p.loss).sum::<f64>() / REACHED_REPORTS as f64
    };
    let target = mean(curve.len() - 1);
    let hit = (REACHED_REPORTS - 1..curve.len()).find(|&i| mean(i) <= target);
    (target, curve[hit.unwrap()].step)
}

#[test]
fn remaining_steps_at_half_are_within_a_factor_of_two_and_intervals_hold_the_truth() {
    let Some(curves) = curves() else {
        println!("skipped: ../shared/data/algoperf is not beside the workspace");
        return;
    };
    let (mut within, mut inside, mut all) = (0, 0, 0);
    for curve in curves.iter().filter(|c| c.len() >= 40) {
        let (target, end) = target_and_end(curve);
        let seen: Vec<Point> = curve
            .iter()
            .take_while(|p| p.step <= 0.5 * end)
            .copied()
            .collect();
        let Some(now) = seen.last().map(|p| p.step).filter(|_| seen.len() >= 8) else {
            continue;
        };
        let mut history = History::default();
        for point in &seen {
            let _ = history.push(point.step as u64, Some(point.loss));
        }
        let truth = end - now;
        all += 1;
        if let Some(r) = remaining(&history.curve(), target, &Prior::from_elapsed(now)) {
            within += usize::from((r.steps / truth).ln().abs() <= 2f64.ln());
            inside += usize::from(r.low <= truth && truth <= r.high);
        }
    }
    println!("{within} of {all} within a factor of two, {inside} within the interval");
    assert!(within * 100 >= 70 * all, "{within} of {all}");
    assert!(inside * 100 >= 85 * all, "{inside} of {all}");
}
