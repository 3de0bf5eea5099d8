//! The bound that excludes choices before their orders are tried, compared with all orders and holds.

use crate::common::{co_run_rates, rng, round};
use overlap::{Link, QuickBound, Rates};

use crate::brute::{brute_force, brute_force_waiting};

#[test]
fn no_round_that_can_be_is_excluded_and_half_of_those_a_sixth_shorter_are() {
    let (mut near, mut rounds) = (0, 0);
    for case in 0..240 {
        let n = 1 + case as usize % 4;
        let mut rng = rng(case + 36_000);
        let link = [Link::Full, Link::Half, Link::Shared][case as usize / 4 % 3];
        let (rates, instance) = (co_run_rates(&mut rng, n), round(&mut rng, n, link));
        // Trying every hold of four tasks takes minutes; the best order without holds is no sooner.
        let truth = match link {
            Link::Full if n < 4 => brute_force_waiting(&instance, &rates, &[]),
            _ => brute_force(&instance, &rates, &[], false),
        };
        let truth = truth.expect("a valid round");
        let mut rows = vec![vec![0.0; n]; 1 << n];
        for set in 1..1_u64 << n {
            let row = &mut rows[set as usize];
            rates.rates(set, &[], row).expect("a valid round");
        }
        let bound = QuickBound::new(&instance).expect("few tasks");
        let row = |set: overlap::Set| &rows[set as usize][..];
        assert!(!bound.excludes(row, truth * (1.0 + 1e-9)), "case {case}");
        if link == Link::Full {
            rounds += 1;
            near += u32::from(bound.excludes(row, 0.85 * truth));
        }
    }
    assert!(near * 2 > rounds, "{near} of {rounds} within 15 %");
}

#[test]
fn a_rate_that_is_none_excludes_nothing() {
    let mut rng = rng(1);
    let instance = round(&mut rng, 2, Link::Full);
    let bound = QuickBound::new(&instance).expect("few tasks");
    let rows = [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [f64::NAN, 1.0]];
    assert!(!bound.excludes(|set| &rows[set as usize][..], 1e-9));
}
