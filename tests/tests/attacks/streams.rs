//! Standard output that is closed, full, or read by nobody; a terminal that goes.

use std::fs;

use crate::{READS, documents, no_temporary_files};

/// Calls that print what is no result of an input.
const PRINTS: [&str; 9] = [
    "mt-worker --samples 64 --width 8 --depth 1",
    "mt-profile --list-devices",
    "mt-cluster generate --jobs 2",
    "mt-launch --dry-run t",
    "mt-launch env --task a s",
    "mt-solve --predict table m",
    "mt-check --explain E201",
    "mt-fit --man",
    "mt init --output -",
];

#[test]
fn a_closed_standard_output_is_no_success() {
    let folder = documents();
    for (tool, name) in READS {
        let out = folder.run(&format!("{tool} {name} >&-"));
        out.assert_code(3);
        assert!(out.stderr.contains("standard output is closed"), "{out:#?}");
        folder
            .run(&format!("rm -f x; {tool} {name} -o x >&-"))
            .assert_code(0);
        folder.run(&format!("{tool} --help >&-")).assert_code(3);
        // What Python's subprocess.DEVNULL gives is open.
        folder
            .run(&format!("{tool} {name} 1<>/dev/null"))
            .assert_code(0);
    }
}

/// What is printed for people or other programs, and what a job tells, is output too.
#[test]
fn what_cannot_be_printed_is_no_success() {
    let folder = documents();
    let table = "config,task,batch,share_percent\n0,a,64,50\n0,b,32,50\n";
    fs::write(folder.path().join("table"), table).unwrap();
    for line in PRINTS {
        folder
            .run(&format!("{line} > printed && test -s printed"))
            .assert_code(0);
        for broken in [">&-", "> /dev/full"] {
            folder.run(&format!("{line} {broken}")).assert_code(3);
        }
    }
}

#[test]
fn a_reader_that_goes_does_not_turn_a_no_into_a_yes() {
    let folder = documents();
    let lie = "sed 's/\"makespan_s\":[0-9.]*/\"makespan_s\":0.001/' t > lie";
    let out = folder.run(&format!(
        "{lie}; cat t lie t > three; mt-check three | true; echo ${{PIPESTATUS[0]}}
         mt-check t | true; echo ${{PIPESTATUS[0]}}"
    ));
    assert_eq!(out.stdout, "1\n0\n", "{out:#?}");
    let out = folder.run("mt-solve m --floor 1 --rv 100 | true; echo ${PIPESTATUS[0]}");
    assert_eq!(out.stdout, "1\n", "{out:#?}");
}

#[test]
fn nohup_is_respected() {
    let folder = documents();
    let line = "mkfifo pipe; trap '' HUP; mt-fit -q pipe -o model & sleep 0.5
        kill -HUP $!; cat p > pipe; wait $!";
    folder.run(line).assert_code(0);
    let line = "trap - HUP; mkfifo other; mt-fit -q other -o never & sleep 0.5
        kill -HUP $!; wait $!";
    folder.run(line).assert_code(129);
    assert!(!folder.path().join("never").exists());
    no_temporary_files(folder.path());
}
