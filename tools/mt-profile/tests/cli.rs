//! The command line, by files.

#[test]
fn command_line() {
    testkit::golden::run_dir(env!("CARGO_MANIFEST_DIR"), "tests/cli");
}
