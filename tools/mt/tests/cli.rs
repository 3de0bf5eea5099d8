//! Golden tests of the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::golden::main(env!("CARGO_MANIFEST_DIR"), "tests/cli")
}
