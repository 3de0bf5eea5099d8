use super::{Gp, Hyper, Observations, SQRT_5, effects};
use math::{Cholesky, exp};

/// A process on at most `most` points that answers for all observations: deterministic training
/// conditional (Quinonero-Candela and Rasmussen 2005, equation 20), points chosen one after
/// another as the farthest from those chosen.
///
/// Gives the process, the positions of its points, and their noise factors: each point stands
/// for several observations, so its noise is that much smaller, which is what its variance is
/// computed from.
pub(crate) fn sparse(
    hyper: Hyper,
    obs: &Observations,
    most: usize,
) -> Option<(Gp, Vec<usize>, Vec<f64>)> {
    let (n, d) = (obs.len(), obs.features);
    // Row-major scaled inputs: distances are taken point by point here.
    let mut x = vec![0.0; n * d];
    for (k, w) in hyper.inverse_length.iter().enumerate() {
        for (i, v) in obs.column(k).iter().enumerate() {
            x[i * d + k] = v * w;
        }
    }
    let row = |i: usize| &x[i * d..(i + 1) * d];
    let points = farthest(n, most, &obs.noise_factor, |a, b| distance(row(a), row(b)));
    let m = points.len();
    let kernel = |a: usize, b: usize| {
        let (a, b) = (row(a), row(b));
        if let Some(own) = hyper.own {
            let (own, others) = (
                distance(&a[..own], &b[..own]),
                distance(&a[own..], &b[own..]),
            );
            return effects::kernel(own, others, hyper.signal);
        }
        let r = SQRT_5 * distance(a, b).sqrt();
        hyper.signal * (1.0 + r + r * r / 3.0) * exp(-r)
    };
    let mut a = vec![0.0; m * m];
    let mut b = vec![0.0; m];
    let mut k = vec![0.0; m];
    for i in 0..n {
        for (v, p) in k.iter_mut().zip(&points) {
            *v = kernel(i, *p);
        }
        let w = 1.0 / obs.noise_factor[i];
        for p in 0..m {
            b[p] += w * k[p] * obs.y[i];
            let wk = w * k[p];
            for (s, v) in a[p * m..p * m + p + 1].iter_mut().zip(&k) {
                *s += wk * v;
            }
        }
    }
    for (p, &i) in points.iter().enumerate() {
        for (q, &j) in points.iter().enumerate().take(p + 1) {
            a[p * m + q] += hyper.noise * kernel(i, j);
        }
        a[p * m + p] += hyper.noise * hyper.signal * 1e-6;
    }
    Cholesky::new(a, m).ok()?.solve(&mut b);
    let mut kept = obs.subset(&points);
    let stands_for = m as f64 / n as f64;
    for f in &mut kept.noise_factor {
        *f *= stands_for;
    }
    let gp = Gp::with_weights(hyper, &kept, b).ok()?;
    Some((gp, points, kept.noise_factor))
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum()
}

/// Greedy spread-out choice that starts at the first sound observation and skips wrong ones.
fn farthest(
    n: usize,
    most: usize,
    noise_factor: &[f64],
    distance: impl Fn(usize, usize) -> f64,
) -> Vec<usize> {
    let sound: Vec<usize> = (0..n).filter(|i| noise_factor[*i] <= 1.0).collect();
    let Some(&first) = sound.first() else {
        return (0..n.min(most)).collect();
    };
    let mut nearest: Vec<f64> = sound.iter().map(|i| distance(*i, first)).collect();
    let mut chosen = vec![first];
    while chosen.len() < most {
        let mut best = 0;
        for k in 1..sound.len() {
            if nearest[k] > nearest[best] {
                best = k;
            }
        }
        if nearest[best] <= 0.0 {
            break;
        }
        let next = sound[best];
        chosen.push(next);
        for (d, i) in nearest.iter_mut().zip(&sound) {
            *d = d.min(distance(*i, next));
        }
    }
    chosen
}
