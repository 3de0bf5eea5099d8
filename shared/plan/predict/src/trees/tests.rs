use super::grow::{Cell, Column, NEVER, best_splits, drawn};
use super::*;

#[test]
fn learns_a_step_and_an_interaction() {
    let f = |a: f64, b: f64| if a > 0.5 { 1.0 } else { 0.0 } + if b > 0.3 { a } else { 0.0 };
    let rows: Vec<Vec<f64>> = (0..200_u32)
        .map(|i| vec![f64::from(i % 20) / 20.0, f64::from(i % 7) / 7.0, 1.0])
        .collect();
    let y: Vec<f64> = rows.iter().map(|r| f(r[0], r[1])).collect();
    let [trees] = Trees::fit(&rows, &[0, 1, 2], [&y], &vec![1.0; 200]).unwrap();
    for r in &rows {
        assert!((trees.mean(r) - f(r[0], r[1])).abs() < 0.12, "{r:?}");
    }
    assert_eq!(trees.feature.len(), trees.len() * SPLITS);
}

#[test]
fn rows_without_weight_do_not_count_and_few_rows_do_not_split() {
    let rows = vec![vec![0.0], vec![1.0], vec![2.0]];
    let [trees] = Trees::fit(&rows, &[0], [&[1.0, 1.0, 100.0]], &[1.0, 1.0, 0.0]).unwrap();
    assert!(trees.mean(&[2.0]) <= 1.0);
    assert!(trees.threshold.iter().all(|t| *t == NEVER));
}

/// Gain of a split of some rows, computed from the definition.
fn gain(x: &[&[f64]], rest: &[f64], own: &[usize], feature: usize, threshold: f64) -> f64 {
    let score = |v: &[usize]| {
        let sum: f64 = v.iter().map(|i| rest[*i]).sum();
        sum * sum / (v.len() as f64).max(1.0)
    };
    let (right, left): (Vec<usize>, Vec<usize>) =
        own.iter().partition(|i| x[**i][feature] > threshold);
    score(&left) + score(&right) - score(own)
}

#[test]
fn one_pass_finds_as_good_splits_as_trying_all_does() {
    let noise = |k: u32| f64::from(k.wrapping_mul(2_654_435_761) >> 8) / f64::from(1_u32 << 24);
    // One feature has many equal values, and no tree may use the last one.
    let row = |i: u32| {
        let b = noise(3 * i + 1);
        vec![noise(3 * i), (b * 5.0).floor(), noise(7 * i + 2), b]
    };
    let rows: Vec<Vec<f64>> = (0..60).map(row).collect();
    let x: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
    let rest: Vec<f64> = rows
        .iter()
        .map(|r| r[0] * r[1] + (5.0 * r[2]).sin())
        .collect();
    let part: Vec<bool> = (0..60).map(|i| drawn(3, i)).collect();
    let columns: Vec<Column> = (0..3).map(|f| Column::new(&x, f)).collect();
    let mut order = Vec::new();
    Column::side_by_side(&columns, &part, &mut order);
    for width in [1, 2, 4] {
        let first = width - 1;
        let node = |i: usize| first + (i * 7) % width;
        let cells: Vec<Cell> = (0..60)
            .map(|i| Cell {
                rest: rest[i],
                node: node(i),
            })
            .collect();
        let found = best_splits(&cells, &part, &columns, &order, first, width);
        for (at, (feature, threshold, said)) in found.into_iter().enumerate() {
            let own: Vec<usize> = (0..60)
                .filter(|i| part[*i] && node(*i) == first + at)
                .collect();
            let best = (0..3)
                .flat_map(|f| own.iter().map(move |i| (f, *i)))
                .map(|(f, i)| gain(&x, &rest, &own, f, x[i][f]))
                .fold(0.0, f64::max);
            let is = gain(&x, &rest, &own, feature, threshold);
            assert!((said - is).abs() < 1e-9, "{width} {at}: {said} {is}");
            assert!((said - best).abs() < 1e-9, "{width} {at}: {said} {best}");
            assert!(best > 0.0);
        }
    }
}
