//! The golden harness on itself: cases that must pass, and cases that must not.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

#[test]
fn the_format_as_documented() {
    testkit::golden::run_dir(env!("CARGO_MANIFEST_DIR"), "tests/golden");
}

fn failure_of(text: &str) -> String {
    let dir = tempfile::tempdir().expect("test set-up");
    fs::write(dir.path().join("a.test"), text).expect("test set-up");
    let root = dir.path().to_str().expect("test set-up").to_owned();
    let failure = catch_unwind(|| {
        testkit::golden::run_dir_with(&root, ".", Path::new("/nonexistent"));
    })
    .expect_err("the case must fail");
    failure
        .downcast_ref::<String>()
        .expect("test set-up")
        .clone()
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
    let root = dir.path().to_str().expect("test set-up").to_owned();
    assert!(catch_unwind(|| testkit::golden::run_dir(&root, ".")).is_err());
}
