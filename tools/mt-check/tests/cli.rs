//! The command line of mt-check.

#[test]
fn command_line() {
    testkit::golden::run_dir(env!("CARGO_MANIFEST_DIR"), "tests/cli");
}
