//! Tests that need something from the machine: skipped if it is absent, unless it is required.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Names, separated by commas, of what the machine must have: `cgroups`.
pub const VARIABLE: &str = "MT_REQUIRE";

/// Names a file that gets a line for every skipped test; `make test` shows it at the end, since cargo hides the
/// output of a passing test.
pub const LIST: &str = "MT_SKIPPED";

/// Reports that a test is skipped, since the machine lacks `what`.
///
/// # Panics
/// If [`VARIABLE`] names `what`: where it is required, a test that passes without checking would hide that it is
/// missing. If the file that [`LIST`] names cannot be written.
#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
pub fn skipped(what: &str, reason: impl Display) {
    let required = std::env::var(VARIABLE).unwrap_or_default();
    assert!(
        required.split(',').all(|name| name.trim() != what),
        "{VARIABLE} names {what}, but: {reason}"
    );
    eprintln!("skipped: {reason}");
    let Some(list) = std::env::var_os(LIST).filter(|path| !path.is_empty()) else {
        return;
    };
    let reason = reason.to_string();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let first = reason.lines().next().unwrap_or_default();
    let file = OpenOptions::new().create(true).append(true).open(list);
    // One write for each line: tests of one program run at the same time.
    file.and_then(|mut file| file.write_all(format!("{test}: {first}\n").as_bytes()))
        .expect("the list of skipped tests can be written");
}
