use super::likelihood::objective;
use super::*;

fn wave() -> Observations {
    let rows: Vec<Vec<f64>> = (0..30)
        .map(|i| {
            let t = f64::from(i) / 29.0;
            vec![t, (7.0 * t).fract(), 1.0]
        })
        .collect();
    let y = rows
        .iter()
        .map(|r| (5.0 * r[0]).sin() + 0.3 * r[1])
        .collect();
    Observations::new(&rows, y)
}

fn scaled(gp: &Gp, x: &[f64]) -> Vec<f64> {
    let mut x = x.to_vec();
    gp.scale(&mut x);
    x
}

fn mean(gp: &Gp, x: &[f64]) -> f64 {
    gp.mean(&scaled(gp, x))
}

fn mean_variance(gp: &Gp, x: &[f64]) -> (f64, f64) {
    gp.mean_variance(&scaled(gp, x))
}

fn priors() -> Priors {
    Priors {
        inverse_length: Prior {
            mean: -0.5,
            sd: 1.0,
        },
        signal: Prior { mean: 0.0, sd: 2.0 },
        noise: Prior {
            mean: -9.0,
            sd: 1.0,
        },
    }
}

#[test]
fn gradient_agrees_with_differences() {
    let obs = wave();
    let spread = obs.spreads();
    let theta = [0.3, -0.7, 0.1, -0.2, -4.0];
    let mut g = [0.0; 5];
    objective(&obs, &spread, &priors(), &theta, &mut g);
    for k in 0..5 {
        let h = 1e-5;
        let at = |s: f64| {
            let mut t = theta;
            t[k] += s;
            objective(&obs, &spread, &priors(), &t, &mut [0.0; 5])
        };
        let slope = (at(h) - at(-h)) / (2.0 * h);
        assert!(
            (slope - g[k]).abs() < 1e-5 * slope.abs().max(1.0),
            "{k} {slope} {}",
            g[k]
        );
    }
}

#[test]
fn fits_a_wave_and_knows_where_it_was_not() {
    let obs = wave();
    let hyper = Hyper::most_probable(&obs, &priors(), None, 60);
    let gp = Gp::new(hyper, &obs).unwrap();
    let x = [0.511, (7.0_f64 * 0.511).fract(), 1.0];
    let truth = (5.0_f64 * x[0]).sin() + 0.3 * x[1];
    assert!((mean(&gp, &x) - truth).abs() < 0.02);
    let (m, near) = mean_variance(&gp, &x);
    assert!((m - mean(&gp, &x)).abs() < 1e-12);
    let (_, far) = mean_variance(&gp, &[4.0, 0.5, 1.0]);
    assert!(far > 10.0 * near);
}

#[test]
fn leave_one_out_is_what_leaving_out_gives() {
    let obs = wave();
    let hyper = Hyper::most_probable(&obs, &priors(), None, 20);
    let gp = Gp::new(hyper.clone(), &obs).unwrap();
    let all = gp.leave_one_out();
    for left in [0, 13, 29] {
        let rest: Vec<usize> = (0..30).filter(|i| *i != left).collect();
        let part = Gp::new(hyper.clone(), &obs.subset(&rest)).unwrap();
        let x: Vec<f64> = (0..3).map(|k| obs.column(k)[left]).collect();
        let (m, v) = mean_variance(&part, &x);
        assert!((obs.y[left] - m - all[left].0).abs() < 1e-8);
        assert!((v + hyper.noise - all[left].1).abs() < 1e-8);
    }
}

#[test]
fn an_observation_with_much_noise_hardly_counts() {
    let mut obs = wave();
    obs.y[10] += 5.0;
    obs.noise_factor[10] = 1e8;
    let hyper = Hyper {
        inverse_length: vec![2.0, 1.0, 1.0],
        signal: 1.0,
        noise: 1e-4,
        groups: None,
    };
    let bad = Gp::new(hyper.clone(), &obs).unwrap();
    let good = Gp::new(hyper, &wave()).unwrap();
    let x = [0.4, 0.8, 1.0];
    assert!((mean(&bad, &x) - mean(&good, &x)).abs() < 0.05);
}

/// Features are the own batch and share, and those of one other task. The target is a sum of two
/// effects and a little of their product.
fn two_groups() -> Observations {
    let row = |i: u32| {
        let v = |k: u32| f64::from((i * k) % 11) / 10.0;
        vec![v(3), v(5), v(7), v(2)]
    };
    let rows: Vec<Vec<f64>> = (1..40).map(row).collect();
    let truth = |r: &Vec<f64>| (2.0 * r[0]).sin() + r[2] * r[3] + 0.2 * r[0] * r[2];
    let y = rows.iter().map(truth).collect();
    Observations::new(&rows, y)
}

const GROUPS: Groups<'static> = Groups {
    own: 2,
    identity: &[false, true, false, false],
};

#[test]
fn the_kernel_of_two_groups_answers_alike_however_it_is_asked() {
    let obs = two_groups();
    let hyper = Hyper::of_groups(&obs, GROUPS);
    let gp = Gp::new(hyper.clone(), &obs).unwrap();
    let all = gp.leave_one_out();
    let n = obs.len();
    for left in [0, 13, 29] {
        let rest: Vec<usize> = (0..n).filter(|i| *i != left).collect();
        let part = Gp::new(hyper.clone(), &obs.subset(&rest)).unwrap();
        let x: Vec<f64> = (0..4).map(|k| obs.column(k)[left]).collect();
        let (m, v) = mean_variance(&part, &x);
        assert!((obs.y[left] - m - all[left].0).abs() < 1e-8);
        assert!((v + hyper.noise - all[left].1).abs() < 1e-8);
        // The slow reference: a sum over points, one distance at a time.
        let (a, own) = (scaled(&part, &x), 2);
        let slow: f64 = rest
            .iter()
            .zip(&part.alpha)
            .map(|(i, alpha)| {
                let at: Vec<f64> = (0..4).map(|k| obs.column(k)[*i]).collect();
                let b = scaled(&part, &at);
                let of = |r: Range<usize>| {
                    let gap = r.map(|k| (a[k] - b[k]).powi(2)).sum::<f64>();
                    let z = (3.0 * gap).sqrt();
                    (1.0 + z) * (-z).exp()
                };
                let (own, others) = (of(0..own), of(own..4));
                alpha * hyper.signal * (own + others + own * others) / 3.0
            })
            .sum();
        assert!((slow - m).abs() < 1e-9, "{slow} {m}");
    }
}

#[test]
fn halves_of_the_kernel_that_are_kept_change_no_bit() {
    let obs = two_groups();
    let gp = Gp::new(Hyper::of_groups(&obs, GROUPS), &obs).unwrap();
    let rows: Vec<f64> = (0..5)
        .flat_map(|k| scaled(&gp, &[0.1 * f64::from(k), 0.7, 0.3, 0.2 * f64::from(k)]))
        .collect();
    let owned: Vec<Vec<f64>> = rows.chunks(4).map(|row| gp.own_half(row)).collect();
    let halves: Vec<&[f64]> = owned.iter().map(Vec::as_slice).collect();
    let (mut whole, mut beside) = ([0.0; 5], [0.0; 5]);
    gp.means(&rows, 4, &mut whole);
    gp.means_beside(&halves, &rows, 4, &mut beside);
    assert_eq!(whole, beside);
    let single: Vec<f64> = rows.chunks(4).map(|row| gp.mean(row)).collect();
    assert_eq!(single, whole);
}

#[test]
fn the_grid_finds_what_no_other_place_of_it_beats() {
    let obs = two_groups();
    let found = Hyper::of_groups(&obs, GROUPS);
    let off = |h: Hyper| -> f64 {
        let gp = Gp::new(h, &obs).unwrap();
        let density = |(r, v): &(f64, f64)| r * r / v + v.ln();
        gp.leave_one_out().iter().map(density).sum()
    };
    let least = off(found.clone());
    for (length, noise) in [(4.0, 1.0), (0.25, 1.0), (1.0, 300.0)] {
        let other = Hyper {
            inverse_length: found.inverse_length.iter().map(|w| w / length).collect(),
            noise: found.noise * noise,
            ..found.clone()
        };
        assert!(off(other) > least - 5.0, "{length} {noise}");
    }
}

/// Compares with the definition of the deterministic training conditional:
/// `(K^T W K + noise K_mm) b = K^T W y`.
#[test]
fn the_weights_of_few_points_solve_the_normal_equations_of_all_observations() {
    let mut obs = wave();
    obs.noise_factor[4] = 100.0;
    let (n, noise) = (obs.len(), 0.01);
    let hyper = Hyper {
        inverse_length: vec![2.0, 1.0, 1.0],
        signal: 1.5,
        noise,
        groups: None,
    };
    let (gp, points, _) = sparse(hyper.clone(), &obs, 7).unwrap();
    let kernel = |i: usize, j: usize| {
        let gap = |k: usize| (obs.column(k)[i] - obs.column(k)[j]) * hyper.inverse_length[k];
        matern::matern((0..3).map(|k| gap(k).powi(2)).sum(), hyper.signal)
    };
    assert_eq!(points.len(), 7);
    for &p in &points {
        let rest = |i: usize| {
            let says = points.iter().zip(&gp.alpha).map(|(q, b)| kernel(i, *q) * b);
            kernel(i, p) / obs.noise_factor[i] * (obs.y[i] - says.sum::<f64>())
        };
        let pulled: f64 = points
            .iter()
            .zip(&gp.alpha)
            .map(|(q, b)| kernel(p, *q) * b)
            .sum();
        let left = (0..n).map(rest).sum::<f64>() - noise * pulled;
        assert!(left.abs() < 1e-4, "{left}");
    }
}
