//! Command line of mt-launch, as files.

#[test]
fn command_line() {
    testkit::golden::run_dir(env!("CARGO_MANIFEST_DIR"), "tests/cli");
}
