//! Golden command-line tests, fake programs and the form of benchmarks; a dev-dependency only.
//!
//! # Golden tests
//! A test of a tool's command line is a file `tests/cli/NAME.test`:
//!
//! ```text
//! # Why this case matters.
//! RUN: mt-solve --rv 200 < in/model.json
//! ENV: MT_SEED=7
//! NORMALISE: "seconds":[0-9.e-]+ => "seconds":S
//! TIMEOUT: 20
//! EXIT: 0
//! ==== stdout
//! {"schema":"mt.plan/1"}
//! ==== stderr
//! ```
//!
//! | line | meaning |
//! |---|---|
//! | `RUN:` | given to `sh`; pipes and redirections work; several lines run one after another until one fails |
//! | `EXIT:` | expected exit code, 0 when absent; death by signal N is 128 + N |
//! | `ENV: K=V` | adds a variable. The environment is otherwise only `PATH`, `HOME`, `TMPDIR` and `LC_ALL=C` |
//! | `PROJECT: a b.c` | of each document (a line that is a JSON object) on standard output, compares only these fields, a line for each part: `tasks[0].batch = 32`; `*`: all fields |
//! | `NORMALISE: regex => text` | replaces in both streams before comparing, in the order written |
//! | `TIMEOUT:` | seconds until the run is killed and the test fails, 60 when absent |
//! | `==== stdout`, `==== stderr` | the expected text, exactly; an absent section means nothing is written. `(no newline at end)` after the name says just that |
//!
//! The run happens in a fresh copy of the folder, so `in/model.json` is `tests/cli/in/model.json`,
//! and with the folder of the built binaries first on `PATH`. Nothing is normalised except by a
//! `NORMALISE` line. `BLESS=1 cargo test` replaces the expected parts by the actual output (review
//! the diff). A case is run by name: `cargo test -p mt-solve --test cli raw`. In a document of one
//! long line a reviewer cannot see changes, so `PROJECT` selects what the case is about.
//!
//! The test program is one line in `tests/cli.rs`, with `harness = false` in the manifest:
//! ```no_run
//! # use std::process::ExitCode;
//! fn main() -> ExitCode {
//!     testkit::golden::main(env!("CARGO_MANIFEST_DIR"), "tests/cli")
//! }
//! ```
//! Cargo builds only the package's own binary for that test: a `RUN` line that needs another
//! tool belongs to the crate of pipelines in `tests/`, run after the whole workspace is built.

pub mod bench;
pub mod fakes;
pub mod fuzz;
pub mod golden;
pub mod require;

pub use require::skipped;
