//! Properties of every law.

use doc::{Efficiency, EfficiencyCurve, EfficiencyRow, EfficiencySource};
use efficiency::{Fit, Law, Reached, fit};
use proptest::prelude::*;
use units::Batch;

fn batch(size: u64) -> Batch {
    Batch::new(size).unwrap()
}

fn curve() -> impl Strategy<Value = EfficiencyCurve> {
    let scale = (1e-3..1e9_f64).prop_map(|samples| EfficiencyCurve::NoiseScale {
        samples,
        interval: Some([samples / 2.0, samples * 3.0]),
    });
    let rows = (
        prop::collection::btree_set(1..100_000_u64, 2..8),
        prop::collection::vec(0.7..4.0_f64, 8),
    );
    let table = rows.prop_map(|(sizes, factors)| {
        let mut rounds = 10.0;
        let row = |(size, factor): (u64, f64)| {
            rounds *= factor;
            EfficiencyRow {
                interval: Some([0.5 * rounds, 3.0 * rounds]),
                ..EfficiencyRow::of(batch(size), rounds)
            }
        };
        EfficiencyCurve::Rounds(sizes.into_iter().zip(factors).map(row).collect())
    });
    prop_oneof![scale, table]
}

proptest! {
    #[test]
    fn efficiency_is_one_at_the_reference_and_never_rises(
        curve in curve(),
        reference in 1..100_000_u64,
        mut sizes in prop::collection::vec(1..1_000_000_u64, 2..20),
    ) {
        let efficiency = Efficiency { curve, source: EfficiencySource::Declared };
        let law = Law::new(&efficiency, batch(reference));
        prop_assert!((law.at(batch(reference)) - 1.0).abs() < 1e-12);
        sizes.sort_unstable();
        for pair in sizes.windows(2) {
            let (small, large) = (law.at(batch(pair[0])), law.at(batch(pair[1])));
            prop_assert!(large > 0.0 && large <= small * (1.0 + 1e-12), "{pair:?}: {small} {large}");
        }
        for size in sizes {
            let at = law.at(batch(size));
            if let Some(ends) = law.ends() {
                let [a, b] = ends.map(|law| law.at(batch(size)));
                let (low, high) = (a.min(b), a.max(b));
                prop_assert!(low <= at * (1.0 + 1e-12) && at <= high * (1.0 + 1e-12));
            }
        }
    }

    /// Another reference size changes only the unit.
    #[test]
    fn ratios_do_not_depend_on_the_reference(curve in curve(), sizes in prop::array::uniform4(1..100_000_u64)) {
        let efficiency = Efficiency { curve, source: EfficiencySource::Learnt };
        let [a, b] = [sizes[0], sizes[1]].map(|r| Law::new(&efficiency, batch(r)));
        let ratio = |law: &Law| law.at(batch(sizes[2])) / law.at(batch(sizes[3]));
        prop_assert!((ratio(&a) / ratio(&b) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_follows_the_law_is_fitted_by_it(phi in 5.0..500.0_f64, unit in 1e-3..1e6_f64) {
        let at = |size: u64| Reached {
            batch: batch(size),
            samples: unit * (phi + size as f64),
        };
        let two = fit(&[at(8), at(512)]).unwrap();
        let Fit::NoiseScale(scale) = &two else { panic!("{two:?}") };
        prop_assert!((scale.samples / phi - 1.0).abs() < 0.02, "{two:?}");
        prop_assert!(scale.interval[0] <= phi && phi <= scale.interval[1]);
        // A table says the same of every size that it was made from.
        let known = fit(&[at(8), at(64), at(512)]).unwrap().to_efficiency().unwrap();
        let (table, law) = (Law::new(&known, batch(64)), Law::of_noise_scale(phi, batch(64)));
        for size in [8, 64, 512].map(batch) {
            prop_assert!((table.at(size) / law.at(size) - 1.0).abs() < 1e-9);
        }
    }
}
