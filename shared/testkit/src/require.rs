//! Tests that need something of the machine: skipped where it is absent, unless it is required.

use std::fmt::Display;

/// Names, separated by commas, of what the machine must have: `cgroups`.
pub const VARIABLE: &str = "MT_REQUIRE";

/// Says that a test is skipped, since the machine lacks `what`.
///
/// # Panics
/// If [`VARIABLE`] names `what`: where it should be there, a test that passes without looking would
/// hide that it is not.
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
pub fn skipped(what: &str, reason: impl Display) {
    let required = std::env::var(VARIABLE).unwrap_or_default();
    assert!(
        required.split(',').all(|name| name.trim() != what),
        "{VARIABLE} names {what}, but: {reason}"
    );
    eprintln!("skipped: {reason}");
}
