//! Crash consistency: a tool that is killed at any write, sync or rename leaves either the old file or the new one; a
//! partial profile or run can be read and continued.
//!
//! A library that is loaded before the C library counts these calls and kills the process at one of them, before it
//! or in the middle of a write. Replacing a file renames by a system call that the library does not see; the sync
//! before it and the sync of the folder after it are seen, so the process dies on both sides.

use std::fs;
use std::process::Command;

use mt_tests::Folder;

/// More calls than any tool makes here; a tool that ends before is not killed.
const MOST_CALLS: u32 = 200;

const WORKLOAD: &str = r#"{"schema":"mt.workload/1","device":{"kind":"sim"},
    "link":{"down_bps":1e8,"up_bps":1e8},"tasks":[
    {"id":"a","model":"alexnet","batch_sizes":[64],"samples":2000,
     "update_bytes":{"down":1000000,"up":1000000}},
    {"id":"b","model":"vgg16","batch_sizes":[32],"samples":1000,
     "update_bytes":{"down":1000000,"up":1000000}}]}"#;

/// A folder with the library and a document of each kind.
fn made() -> Folder {
    let folder = Folder::new();
    let library = folder.path().join("stop.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/crash/stop.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .args([source, "-ldl"])
        .status();
    let built = built.is_ok_and(|status| status.success());
    assert!(built, "a C compiler is needed, as for building: {source}");
    fs::write(folder.path().join("w"), WORKLOAD).expect("a file of our own");
    let line = "set -e; mt-profile w --design random --budget 6 -o p; mt-fit -q p -o m
        mt-solve m --step 20 -o s; mt-overlap s -o t; mt-launch t -o r";
    folder.run(line).assert_code(0);
    folder
}

/// Runs a line repeatedly, killed at its first call, its second, and so on, before it or in the middle, until it
/// ends; calls `look` each time. Returns how often it was killed.
fn at_every_call(folder: &Folder, before: &str, line: &str, look: impl Fn(&str)) -> u32 {
    for at in 1..MOST_CALLS {
        for half in ["", "STOP_HALF=1 "] {
            folder.run(before).assert_code(0);
            let stopped = format!("{half}STOP_AT={at} LD_PRELOAD=$PWD/stop.so exec {line}");
            let ran = folder.run(&stopped);
            look(&stopped);
            if ran.code == Some(0) {
                return at - 1;
            }
            assert_eq!(ran.code, None, "it was not killed: {ran:#?}");
        }
    }
    panic!("{line} makes more than {MOST_CALLS} calls");
}

#[test]
fn an_output_is_the_older_or_the_new_one() {
    let folder = made();
    let bytes = |name: &str| fs::read(folder.path().join(name)).unwrap();
    for (tool, new) in [("mt-solve m --step 20", "s"), ("mt-overlap s", "t")] {
        let new = bytes(new);
        let line = format!("{tool} -o out");
        let calls = at_every_call(&folder, "echo older > out", &line, |stopped| {
            let out = bytes("out");
            assert!(out == b"older\n" || out == new, "{stopped}");
        });
        assert!(
            calls >= 3,
            "{tool}: a write, a sync and a sync of the folder"
        );
        // The next run cleans up what the killed ones left.
        let left = folder.run(&format!("{line}; ls -A | grep '^[.]mt-'"));
        assert_eq!(left.stdout, "", "{left:#?}");
    }
}

#[test]
fn a_part_of_a_profile_is_continued_to_the_same_bytes() {
    let folder = made();
    let tool = "mt-profile w --design random --budget 6";
    let continued = |stopped: &str| {
        let line = format!("test ! -s out || {tool} --resume out -o out && cmp out p");
        let has_records = folder.run("test -s out").code == Some(0);
        if has_records {
            let ran = folder.run(&line);
            assert_eq!(ran.code, Some(0), "{stopped}: {ran:#?}");
        }
    };
    let calls = at_every_call(&folder, "rm -f out", &format!("{tool} -o out"), continued);
    assert!(calls >= 8, "header, six samples, end: {calls}");
    // The same file is input and output: it never gets shorter.
    let part = "head -4 p > out";
    let line = format!("{tool} --resume out -o out");
    at_every_call(&folder, part, &line, |stopped| {
        let out = fs::read(folder.path().join("out")).unwrap();
        let least = folder.run("head -4 p").stdout;
        assert!(out.starts_with(least.as_bytes()), "{stopped}");
        continued(stopped);
    });
}

/// A file cut inside its last record is read up to that record, with a warning that names its line.
#[test]
fn a_part_of_a_run_can_be_read() {
    let folder = made();
    let line = "mt-launch t -o out";
    let calls = at_every_call(&folder, "rm -f out", line, |stopped| {
        if folder.run("test -s out").code != Some(0) {
            return;
        }
        let whole = fs::read(folder.path().join("out"))
            .unwrap()
            .ends_with(b"\n");
        for reader in ["mt-check out", "mt-report out > /dev/null"] {
            let ran = folder.run(reader);
            assert_eq!(ran.code, Some(0), "{stopped}: {ran:#?}");
            let told = ran.stderr.contains("ends inside this record");
            assert_eq!(told, !whole, "{stopped}: {ran:#?}");
        }
    });
    assert!(calls >= 2, "{calls}");
}
