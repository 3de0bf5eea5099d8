//! The golden harness on itself: cases that must pass, and cases that must not.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use testkit::golden::{cases, check};

#[test]
fn the_format_as_documented() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for case in cases(&folder) {
        check(&case, &folder, Path::new("/nonexistent"), false).unwrap();
    }
}

fn failure_of(text: &str) -> String {
    let dir = tempfile::tempdir().expect("test set-up");
    let case = dir.path().join("a.test");
    fs::write(&case, text).expect("test set-up");
    check(&case, dir.path(), Path::new("/nonexistent"), false).expect_err("the case must fail")
}

#[test]
fn a_wrong_expectation_fails() {
    assert!(failure_of("RUN: echo a\n").contains("stdout line 1"));
    assert!(failure_of("RUN: exit 4\n").contains("exit code 4, expected 0"));
}

#[test]
fn a_run_that_hangs_is_killed() {
    let message = failure_of("RUN: sleep 100 | cat\nTIMEOUT: 1\n");
    assert!(message.contains("still running after 1 s"), "{message}");
}

#[test]
fn a_folder_without_cases_fails() {
    let dir = tempfile::tempdir().expect("test set-up");
    assert!(catch_unwind(|| cases(dir.path())).is_err());
}
