/// Least-squares fit of non-increasing values, by the min-max formula: the minimum over starts of the maximum
/// mean over ends (Robertson, Wright, Dykstra 1988, section 1.4). Each item is a sum of values and their number.
pub fn falling(items: &[(f64, usize)]) -> Vec<f64> {
    let mean = |a: usize, b: usize| {
        let part = &items[a..=b];
        part.iter().map(|i| i.0).sum::<f64>() / part.iter().map(|i| i.1).sum::<usize>() as f64
    };
    let level = |i: usize| {
        let most = |a: usize| {
            (i..items.len())
                .map(|b| mean(a, b))
                .fold(f64::NEG_INFINITY, f64::max)
        };
        (0..=i).map(most).fold(f64::INFINITY, f64::min)
    };
    (0..items.len()).map(level).collect()
}
