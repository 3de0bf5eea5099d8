//! Standard output that is closed, full, or without a reader; a terminal that goes away.

use std::fs;

use crate::{READS, documents, no_temporary_files};

/// Calls with output that is not the result of an input.
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
        // Python's subprocess.DEVNULL is an open stream.
        folder
            .run(&format!("{tool} {name} 1<>/dev/null"))
            .assert_code(0);
    }
}

/// Text for users or other programs, and the reports of a job, are output, too.
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

/// Two launches. The second begins with a plan that takes more than half of the queue, so its progress has no room
/// until the reader reads.
#[test]
fn a_run_whose_reader_stalls_tells_what_is_missing_and_is_no_lie() {
    let folder = mt_tests::Folder::new();
    let script = |steps: u32| {
        format!(
            "echo '{{\\\"mt\\\":\\\"ready\\\"}}'; for i in $(seq {steps}); do sleep 0.05; \
             echo '{{\\\"mt\\\":\\\"step\\\",\\\"samples\\\":10,\\\"loss\\\":1.5}}'; done"
        )
    };
    for (name, steps, padding) in [("one", 1, 200_000), ("two", 100, 5_000_000)] {
        let job = |id: &str| {
            let script = script(steps);
            format!(r#"{{"id":"{id}","batch_sizes":[10],"job":{{"argv":["sh","-c","{script}"]}}}}"#)
        };
        let padding = "x".repeat(padding);
        let (a, b, samples) = (job("a"), job("b"), 10 * steps);
        let plan = format!(
            r#"{{"schema":"mt.plan/1","tasks":[
            {{"id":"a","batch":10,"share_percent":50,"samples":{samples}}},
            {{"id":"b","batch":10,"share_percent":50,"samples":{samples}}}],
            "workload":{{"schema":"mt.workload/1","device":{{"kind":"cpu"}},"tasks":[{a},{b},
            {{"id":"other","batch_sizes":[10],"job":{{"argv":["{padding}"]}}}}]}}}}"#
        );
        fs::write(folder.path().join(name), plan).unwrap();
    }
    let launch = "cat one two | mt-launch --progress-every 0 2>err | { sleep 3; cat; } > run";
    let out = folder.run(&format!("{launch}; echo ${{PIPESTATUS[1]}}; cat err"));
    if out.stdout.starts_with('3') {
        testkit::skipped("cgroups", out.stdout);
        return;
    }
    assert!(out.stdout.starts_with('0'), "{}", out.stdout);
    assert!(
        out.stdout.contains("progress events were left out"),
        "{}",
        out.stdout
    );
    folder.run("mt-check run").assert_code(0);
    let run = fs::read_to_string(folder.path().join("run")).unwrap();
    let (progress, end) = (r#","dropped":"#, r#""restarts":0,"dropped":"#);
    assert!(run.matches(progress).count() > run.matches(end).count());
    for text in [progress, end] {
        let more = run.replacen(text, &format!("{text}1"), 1);
        assert_ne!(more, run);
        fs::write(folder.path().join("more"), more).unwrap();
        let lie = folder.run("mt-check more");
        lie.assert_code(1);
        assert!(lie.stdout.contains("dropped"), "{}", lie.stdout);
    }
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
