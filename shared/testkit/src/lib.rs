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
//! | `NORMALISE: regex => text` | replaces in both streams before comparing, in the order written |
//! | `TIMEOUT:` | seconds until the run is killed and the test fails, 60 when absent |
//! | `==== stdout`, `==== stderr` | the expected text, exactly; an absent section means nothing is written. `(no newline at end)` after the name says just that |
//!
//! The run happens in a fresh copy of the folder, so `in/model.json` is `tests/cli/in/model.json`,
//! and with the folder of the built binaries first on `PATH`. Nothing is normalised that a
//! `NORMALISE` line does not name. `BLESS=1 cargo test` rewrites the expected parts with what
//! was seen (review the diff), `GOLDEN=text` runs only the files whose name contains it.
//!
//! The test itself is one line in `tests/cli.rs`:
//! ```no_run
//! # #[expect(clippy::test_attr_in_doctest, reason = "this is how a user writes it")]
//! #[test]
//! fn command_line() {
//!     testkit::golden::run_dir(env!("CARGO_MANIFEST_DIR"), "tests/cli");
//! }
//! ```
//! Cargo builds only the package's own binary for that test: a `RUN` line that needs another
//! tool belongs to the crate of pipelines in `tests/`, run after the whole workspace is built.

pub mod bench;
pub mod fakes;
pub mod golden;
