//! Golden tests of the command line.

#[test]
fn command_line() {
    testkit::golden::run_dir(env!("CARGO_MANIFEST_DIR"), "tests/cli");
}
