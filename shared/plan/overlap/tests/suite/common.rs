//! Random rounds for the tests.

mod laws;

pub use laws::{fixed_rates, rng, round};
use overlap::{OrderOptions, Rates, TableRates};
use rand::rngs::SmallRng;

/// OrderOptions of a search over orders only.
pub fn never_waiting() -> OrderOptions {
    OrderOptions {
        waits: false,
        ..OrderOptions::default()
    }
}

/// Random [`laws::FormulaRates`] as a table whose properties are unknown.
pub fn co_run_rates(rng: &mut SmallRng, n: usize) -> TableRates {
    let rates = laws::formula_rates(rng, n);
    let mut table = TableRates::new();
    for set in 1u64..1 << n {
        let mut row = vec![0.0; n];
        rates.rates(set, &[], &mut row).expect("a valid round");
        table.insert(set, row);
    }
    table
}
