//! Skips tests whose requirements the machine lacks, unless a requirement is mandatory.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Environment variable with the mandatory requirements, separated by commas, for example `cgroups`.
pub const VARIABLE: &str = "MT_REQUIRE";

/// Environment variable with the path of a file that gets a line for every skipped test; `make test` shows it at
/// the end, because cargo hides the output of a passing test.
pub const LIST: &str = "MT_SKIPPED";

/// Reports that a test is skipped because the machine lacks `what`.
///
/// # Panics
/// If [`VARIABLE`] names `what`, because a skipped test would hide that a mandatory requirement is missing. Also
/// if the file that [`LIST`] names cannot be written.
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
    // Write each line at once, because tests of one program run concurrently.
    file.and_then(|mut file| file.write_all(format!("{test}: {first}\n").as_bytes()))
        .expect("the list of skipped tests can be written");
}
