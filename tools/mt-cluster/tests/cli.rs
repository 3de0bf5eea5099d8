//! The command line, a case for each file `tests/cli/*.test`.

use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::golden::main(env!("CARGO_MANIFEST_DIR"), "tests/cli")
}
