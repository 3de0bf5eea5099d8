//! Random valid documents of every kind.

mod cluster;
mod model;
mod plan;
mod profile;
mod round;
mod workload;

pub use cluster::*;
pub use model::*;
pub use plan::*;
pub use profile::*;
pub use round::*;
pub use workload::*;

use doc::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Any digits multiplied by any power of ten whose square fits into a quantity (at most 1e30): plans multiply some
/// numbers.
fn digits(first: std::ops::Range<f64>) -> impl Strategy<Value = f64> {
    (first, -300..14_i32).prop_map(|(m, e)| m * 10_f64.powi(e))
}

/// A positive number of any size that a quantity may have.
pub fn positive() -> impl Strategy<Value = f64> {
    prop_oneof![
        digits(1.0..10.0),
        1e-3..1e6_f64,
        (1..10_000_u32).prop_map(f64::from),
    ]
}

/// Any finite number.
pub fn finite() -> impl Strategy<Value = f64> {
    prop_oneof![
        proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
        digits(-10.0..10.0),
        -1e3..1e3_f64,
    ]
}

pub fn share_percent() -> impl Strategy<Value = f64> {
    (1..=10_000_u32).prop_map(|h| f64::from(h) / 100.0)
}

pub fn batch() -> impl Strategy<Value = u64> {
    1..=1_u64 << 20
}

pub fn count() -> impl Strategy<Value = u64> {
    1..=1_u64 << 53
}

pub fn text() -> impl Strategy<Value = String> {
    "[ -~\u{e4}\u{4e2d}\u{1f600}\"\\\\\n\t]{0,12}"
}

pub fn name() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_][A-Za-z0-9._-]{0,12}"
}

/// 1 to 4 distinct names.
pub fn names() -> impl Strategy<Value = Vec<String>> {
    vec(name(), 1..=4).prop_map(|mut names| {
        for (i, name) in names.iter_mut().enumerate() {
            name.push_str(&i.to_string());
        }
        names
    })
}

pub fn provenance() -> impl Strategy<Value = Vec<Provenance>> {
    let one = (text(), text(), option::of(any::<u64>()), option::of(text())).prop_map(
        |(tool, version, seed, device)| Provenance {
            tool,
            version,
            seed,
            device,
        },
    );
    vec(one, 0..3)
}

pub fn update_bytes() -> impl Strategy<Value = wire::UpdateBytes> {
    (0..=1_u64 << 53, 0..=1_u64 << 53).prop_map(|(down, up)| wire::UpdateBytes { down, up })
}

pub fn link() -> impl Strategy<Value = wire::Link> {
    let duplex = prop_oneof![Just(Duplex::Full), Just(Duplex::Half), Just(Duplex::Shared)];
    (positive(), positive(), duplex).prop_map(|(down_bps, up_bps, duplex)| wire::Link {
        down_bps,
        up_bps,
        duplex,
    })
}
