use math::{Cholesky, wide};

use super::{Gp, Hyper, MOST_POINTS, Observations};

/// A process on at most `most` points that approximates the process on all observations: deterministic training
/// conditional (Quinonero-Candela and Rasmussen 2005, equation 20). Each point is the observation farthest from
/// the points chosen before.
///
/// Returns the process, the positions of its points, and their noise factors. Each point stands for several
/// observations, so its noise is smaller in proportion; the variance is computed from this noise.
pub(crate) fn sparse(
    hyper: Hyper,
    obs: &Observations,
    most: usize,
) -> Option<(Gp, Vec<usize>, Vec<f64>)> {
    let (n, d) = (obs.len(), obs.features);
    // Scaled inputs in row-major order, because distances are computed point by point here.
    let mut x = vec![0.0; n * d];
    for (k, w) in hyper.inverse_length.iter().enumerate() {
        for (i, v) in obs.column(k).iter().enumerate() {
            x[i * d + k] = v * w;
        }
    }
    let row = |i: usize| &x[i * d..(i + 1) * d];
    let points = farthest(n, most, &obs.noise_factor, &x);
    let m = points.len();
    let mut kept = obs.subset(&points);
    let stands_for = m as f64 / n as f64;
    for f in &mut kept.noise_factor {
        *f *= stands_for;
    }
    let mut gp = Gp::with_weights(hyper, &kept, vec![0.0; m]).ok()?;
    let (mut a, b) = normal_equations(&gp, obs, &x);
    let (signal, noise) = (gp.hyper.signal, gp.hyper.noise);
    let mut k = [[0.0; MOST_POINTS]];
    for (p, i) in points.iter().enumerate() {
        gp.covariances([row(*i)], &mut k);
        for (a, k) in a[p * m..=p * m + p].iter_mut().zip(&k[0]) {
            *a += noise * k;
        }
        // A millionth of the signal keeps the matrix positive definite if two points nearly coincide.
        a[p * m + p] += noise * signal * 1e-6;
    }
    gp.alpha = b;
    Cholesky::new(a, m).ok()?.solve(&mut gp.alpha);
    Some((gp, points, kept.noise_factor))
}

/// Number of observations added at a time: the sums are read and written once for all of them.
const TOGETHER: usize = 4;

wide! {
/// Lower triangle of `K^T W K`, and `K^T W y`. `K` are the covariances of all observations with the points of
/// `gp`, and `W` are one over the observations' noise factors. `x` are the observations' scaled inputs, row by
/// row.
fn normal_equations(gp: &Gp, obs: &Observations, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (m, d) = (gp.len(), obs.features);
    let (mut a, mut b) = (vec![0.0; m * m], vec![0.0; m]);
    let mut k = [[0.0; MOST_POINTS]; TOGETHER];
    for first in (0..obs.len()).step_by(TOGETHER) {
        // Beyond the end, repeat the last observation with a weight of 0.
        let at: [usize; TOGETHER] = std::array::from_fn(|j| (first + j).min(obs.len() - 1));
        gp.covariances(at.map(|i| &x[i * d..(i + 1) * d]), &mut k);
        let weight = |j: usize| {
            let counts = first + j < obs.len();
            f64::from(u8::from(counts)) / obs.noise_factor[at[j]]
        };
        let w: [f64; TOGETHER] = std::array::from_fn(weight);
        for p in 0..m {
            let wk: [f64; TOGETHER] = std::array::from_fn(|j| w[j] * k[j][p]);
            for j in 0..TOGETHER {
                b[p] += wk[j] * obs.y[at[j]];
            }
            let [k0, k1, k2, k3] = &k;
            let pairs = k0.iter().zip(k1).zip(k2.iter().zip(k3));
            for (s, ((k0, k1), (k2, k3))) in a[p * m..=p * m + p].iter_mut().zip(pairs) {
                *s = (((*s + wk[0] * k0) + wk[1] * k1) + wk[2] * k2) + wk[3] * k3;
            }
        }
    }
    (a, b)
}
}

/// Number of observations whose distances from a point are computed at once, one per vector lane.
const LANES: usize = 8;

wide! {
/// Lowers each entry of `nearest` to the squared distance from `point`, if that is smaller. `blocks` are the
/// scaled inputs of [`LANES`] observations each, feature by feature.
fn approach(nearest: &mut [[f64; LANES]], blocks: &[[f64; LANES]], point: &[f64]) {
    for (nearest, block) in nearest.iter_mut().zip(blocks.chunks_exact(point.len())) {
        let mut distance = [0.0; LANES];
        for (at, x) in point.iter().zip(block) {
            for (d, x) in distance.iter_mut().zip(x) {
                *d += (x - at) * (x - at);
            }
        }
        for (n, d) in nearest.iter_mut().zip(distance) {
            *n = n.min(d);
        }
    }
}
}

/// Farthest-point selection among the observations with scaled inputs `x`, row by row. It starts at the first
/// sound observation and skips outliers.
fn farthest(n: usize, most: usize, noise_factor: &[f64], x: &[f64]) -> Vec<usize> {
    // An outlier (noise factor above 1) is often the farthest of all. It would become a point and take the place
    // of a sound observation.
    let sound: Vec<usize> = (0..n).filter(|i| noise_factor[*i] <= 1.0).collect();
    let Some(&first) = sound.first() else {
        return (0..n.min(most)).collect();
    };
    let d = x.len() / n;
    let row = |i: usize| &x[i * d..(i + 1) * d];
    let mut blocks = vec![[0.0; LANES]; sound.len().div_ceil(LANES) * d];
    for (k, i) in sound.iter().enumerate() {
        for (f, v) in row(*i).iter().enumerate() {
            blocks[k / LANES * d + f][k % LANES] = *v;
        }
    }
    let mut nearest = vec![[f64::INFINITY; LANES]; sound.len().div_ceil(LANES)];
    approach(&mut nearest, &blocks, row(first));
    let mut chosen = vec![first];
    while chosen.len() < most {
        let nearest_of = nearest.as_flattened();
        let mut best = 0;
        for k in 1..sound.len() {
            if nearest_of[k] > nearest_of[best] {
                best = k;
            }
        }
        if nearest_of[best] <= 0.0 {
            break;
        }
        let next = sound[best];
        chosen.push(next);
        approach(&mut nearest, &blocks, row(next));
    }
    chosen
}
