use super::*;

fn truth() -> Vec<Law> {
    let law = |fixed: f64, slowdown: [f64; 3]| Law {
        pace: Pace {
            fixed,
            crowding: 0.4,
            per_sample: 2e-4,
            bend: 0.5,
            sharpness: 2.5,
            overlap: 1.6,
            exponent: 0.7,
        },
        slowdown: slowdown.to_vec(),
    };
    vec![
        law(0.010, [0.0, 0.6, 0.4]),
        law(0.005, [0.3, 0.0, 0.4]),
        law(0.020, [0.3, 0.5, 0.0]),
    ]
}

/// Every task alone, and with every combination of the two others' shares.
fn meetings() -> Vec<Vec<Meeting>> {
    let laws = truth();
    let step = |i: usize, m: &Meeting| {
        let x = host_load(m.others.len() + 1);
        let contention = m.others.iter().map(|o| {
            (
                o.task,
                laws[o.task].pace.busy(o.batch, o.share, x) * o.share.powf(0.7),
            )
        });
        laws[i].step(m.batch, m.share, x, contention)
    };
    (0..3)
        .map(|i| {
            let mut v = Vec::new();
            for batch in [32.0, 64.0, 128.0] {
                for share in [0.2, 0.5, 1.0] {
                    for (a, b) in [(0.2, 1.0), (0.5, 0.3), (1.0, 0.2), (0.3, 1.0), (0.0, 0.0)] {
                        let others = [((i + 1) % 3, a), ((i + 2) % 3, b)]
                            .into_iter()
                            .filter(|(_, share)| *share > 0.0)
                            .map(|(task, share)| Other {
                                task,
                                batch: 96.0,
                                share,
                            });
                        let mut m = Meeting {
                            batch,
                            share,
                            others: others.collect(),
                            step: 0.0,
                        };
                        m.step = step(i, &m);
                        v.push(m);
                    }
                }
            }
            v
        })
        .collect()
}

fn worst(laws: &[Option<Law>]) -> f64 {
    let mut worst = 0.0_f64;
    for (i, m) in meetings().iter().enumerate() {
        for row in rows(m, Some(laws)) {
            worst = worst.max(row.error(laws[i].as_ref().unwrap()).abs());
        }
    }
    worst
}

#[test]
fn jacobian_agrees_with_differences() {
    let all = meetings();
    let laws: Vec<Option<Law>> = truth().into_iter().map(Some).collect();
    let mut rows = rows(&all[0], Some(&laws));
    let shares = levels(&mut rows);
    let u = [-4.0, -8.0, 0.1, 0.3, -0.3, -2.0, -0.5, -3.0, -2.0, -4.0];
    let u0 = u;
    let (m, p) = (rows.len() + u.len(), u.len());
    let (mut r, mut j) = (vec![0.0; m], vec![0.0; m * p]);
    residuals(&rows, &shares, &u, true, &u, &mut r, &mut j);
    for k in 0..p {
        let at = |h: f64| {
            let mut u = u;
            u[k] += h;
            let mut r = vec![0.0; m];
            residuals(&rows, &shares, &u0, true, &u, &mut r, &mut vec![0.0; m * p]);
            r
        };
        let (hi, lo) = (at(1e-6), at(-1e-6));
        for i in 0..m {
            let d = (hi[i] - lo[i]) / 2e-6;
            assert!((d - j[i * p + k]).abs() < 1e-6, "{i} {k} {d}");
        }
    }
}

#[test]
fn recovers_its_own_law_from_clean_data() {
    let laws = fit_all(&meetings(), Form::Overlapping, &[false; 3]);
    assert!(worst(&laws) < 0.02, "{} {laws:?}", worst(&laws));
}

#[test]
fn one_outlier_in_twenty_hardly_moves_it() {
    let mut all = meetings();
    for m in &mut all {
        m[7].step *= 3.0;
        m[22].step *= 0.2;
    }
    let laws = fit_all(&all, Form::Overlapping, &[false; 3]);
    assert!(worst(&laws) < 0.06, "{} {laws:?}", worst(&laws));
}

#[test]
fn more_share_never_slows_a_task_and_a_bend_ends_the_gain() {
    let pace = &truth()[0].pace;
    let mut last = f64::INFINITY;
    for k in 1..=100 {
        let t = pace.device(64.0, 0.01 * f64::from(k));
        assert!(t <= last);
        last = t;
    }
    assert!(pace.device(64.0, 0.05) > 4.0 * pace.device(64.0, 0.3));
    assert!((pace.device(64.0, 1.0) - 64.0 * pace.per_sample).abs() < 1e-12);
}

#[test]
fn a_pair_that_never_met_is_expected_to_act_as_its_tasks_do_elsewhere() {
    let law = |c: [f64; 3]| {
        Some(Law {
            slowdown: c.to_vec(),
            ..truth()[0].clone()
        })
    };
    // Task 2 slows every other task four times as much as task 0; (1, 2) never met.
    let laws = [
        law([0.0, 0.4, 0.8]),
        law([0.2, 0.0, 9.0]),
        law([0.2, 0.4, 0.0]),
    ];
    let met = [
        [false, true, true],
        [true, false, false],
        [true, true, false],
    ];
    let usual = usual_slowdowns(&laws, &met.map(|r| r.to_vec()));
    assert!(usual[1][2] > 1.5 * usual[1][0], "{usual:?}");
    assert!(usual[1][2] < 2.0);
}
