//! Attacks on the user's data: inputs named as outputs, existing results, disks and readers that fail, text that
//! could act as a command. Existing files are safe, and the exit code reports the error.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapt;
mod edges;
mod ends;
mod honest;
mod hostile;
mod interrupted;
mod memory;
mod streams;
mod threads;
mod unprivileged;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use mt_tests::Folder;

const WORKLOAD: &str = r#"{"schema":"mt.workload/1","device":{"kind":"sim"},
    "link":{"down_bps":1e8,"up_bps":1e8},"tasks":[
    {"id":"a","model":"alexnet","batch_sizes":[64],"samples":2000,"update_bytes":{"down":1e6,"up":1e6}},
    {"id":"b","model":"vgg16","batch_sizes":[32],"samples":1000,"update_bytes":{"down":1e6,"up":1e6}}]}"#;

/// Jobs for a cluster of two kinds of GPU.
const CLUSTER: &str = r#"{"schema":"mt.cluster/1","gpus":[{"type":"v100","count":2},
    {"type":"k80","memory_bytes":12000000000,"bus_bytes_per_s":15750000000}],
    "jobs":[{"id":"a","weight":3,"arrival_s":0,"rounds":4,"tasks_per_round":2,
        "train_s":{"v100":1.0,"k80":5.5},"sync_s":{"v100":0.2,"k80":0.3}},
    {"id":"b","arrival_s":2.5,"rounds":2,"tasks_per_round":1,"train_s":{"v100":2.5,"k80":9},
        "sync_s":{"v100":0,"k80":0},"model_bytes":100000000,"memory_bytes":4000000000}]}"#;

/// Events of two trainings.
const TRAININGS: &str = r#"{"event":"arrive","time_s":0,"task":"old","total_steps":2000,"batch":512}
{"event":"progress","time_s":20,"task":"old","step":50,"loss":1.43,"gpus":4}
{"event":"progress","time_s":40,"task":"old","step":100,"loss":1.1,"gpus":4}
{"event":"progress","time_s":60,"task":"old","step":150,"loss":0.9,"gpus":4}
{"event":"progress","time_s":80,"task":"old","step":200,"loss":0.76,"gpus":4}
{"event":"arrive","time_s":100,"task":"young","total_steps":2000,"batch":512}
{"event":"progress","time_s":120,"task":"young","step":30,"loss":2.5,"gpus":2}
{"event":"progress","time_s":140,"task":"young","step":70,"loss":1.9,"gpus":2}
"#;

/// A folder with a document of each kind: w, p, m, s, t, r, c (a cluster), e (of trainings).
fn documents() -> Folder {
    let folder = Folder::new();
    fs::write(folder.path().join("c"), CLUSTER).unwrap();
    fs::write(folder.path().join("e"), TRAININGS).unwrap();
    fs::write(folder.path().join("w"), WORKLOAD.replace("1e6", "1000000")).unwrap();
    folder
        .run(
            "set -e; mt-profile w --design random --budget 6 -o p; mt-fit -q p -o m
             mt-solve m --step 20 -o s; mt-overlap s -o t; mt-launch t -o r",
        )
        .assert_code(0);
    folder
}

/// Every tool with a document that it reads.
const READS: [(&str, &str); 9] = [
    ("mt-profile --budget 2", "w"),
    ("mt-fit -q", "p"),
    ("mt-solve", "m"),
    ("mt-overlap", "s"),
    ("mt-launch", "t"),
    ("mt-report", "r"),
    ("mt-check", "t"),
    ("mt-cluster plan --effort 5000", "c"),
    ("mt-elastic --gpus 4 --strict", "e"),
];

/// Whether a tool keeps an existing run or profile.
fn keeps_runs(tool: &str) -> bool {
    ["mt-profile", "mt-launch", "mt-elastic"]
        .iter()
        .any(|one| tool.starts_with(one))
}

fn bytes(folder: &Folder, name: &str) -> Vec<u8> {
    fs::read(folder.path().join(name)).unwrap()
}

fn no_temporary_files(folder: &Path) {
    let names = fs::read_dir(folder).unwrap().flatten();
    let left: Vec<_> = names
        .map(|e| e.file_name().into_string().unwrap())
        .filter(|n| n.starts_with(".mt-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn no_output_destroys_an_input() {
    let folder = documents();
    for (tool, name) in READS {
        let before = bytes(&folder, name);
        for (make, input, output) in [
            ("true", name, name),
            ("ln -s NAME link", name, "link"),
            ("ln -s NAME far; ln -s far link", "link", "NAME"),
            ("ln NAME link", name, "link"),
            ("true", "- < NAME", "NAME"),
        ] {
            let line = format!("rm -f link far; {make}; {tool} {input} --force -o {output}");
            let force = keeps_runs(tool);
            let named = line.replace("NAME", name);
            let line = if force {
                named
            } else {
                named.replace(" --force", "")
            };
            let out = folder.run(&line);
            out.assert_code(2);
            assert!(out.stderr.contains("would overwrite the input"), "{out:#?}");
            assert_eq!(out.stderr.lines().count(), 1, "{out:#?}");
            assert_eq!(bytes(&folder, name), before, "{line}");
        }
    }
    no_temporary_files(folder.path());
}

#[test]
fn other_outputs_destroy_no_input_either() {
    let folder = documents();
    let before = bytes(&folder, "t");
    for line in [
        "mt-launch --prometheus t t > run",
        "mt-launch --prometheus run t -o run",
        "mt-overlap --federation s s -o x",
        "mt-overlap --federation x s -o x",
        "mt-solve --previous s --damping 0.5 m -o s",
        "mt-fit -q --test p m -o p",
    ] {
        let out = folder.run(line);
        out.assert_code(2);
        let told = ["would overwrite the input", "two outputs go to this file"];
        assert!(told.iter().any(|t| out.stderr.contains(t)), "{out:#?}");
    }
    assert_eq!(bytes(&folder, "t"), before);
    assert!(!folder.path().join("x").exists());
}

#[test]
fn input_that_is_refused_leaves_the_older_result() {
    let folder = documents();
    fs::write(
        folder.path().join("bad"),
        "{\"schema\":\"mt.plan/1\",\"x\":1}",
    )
    .unwrap();
    for (tool, _) in READS {
        fs::write(folder.path().join("old"), "an older result\n").unwrap();
        let link = folder.path().join("link");
        fs::remove_file(&link).ok();
        symlink("old", &link).unwrap();
        for output in ["old", "link"] {
            let out = folder.run(&format!("{tool} bad -o {output}"));
            out.assert_code(2);
            assert_eq!(bytes(&folder, "old"), b"an older result\n", "{out:#?}");
        }
    }
    no_temporary_files(folder.path());
}

#[test]
fn a_link_stays_and_its_target_is_replaced() {
    let folder = documents();
    fs::create_dir(folder.path().join("far")).unwrap();
    for (tool, name) in READS {
        fs::write(folder.path().join("far/old"), "an older result\n").unwrap();
        let link = folder.path().join("link");
        fs::remove_file(&link).ok();
        symlink("far/old", &link).unwrap();
        folder.run(&format!("{tool} {name} -o link")).assert_code(0);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_ne!(bytes(&folder, "far/old"), b"an older result\n", "{tool}");
    }
    no_temporary_files(folder.path());
    no_temporary_files(&folder.path().join("far"));
}

#[test]
fn a_profile_or_run_is_replaced_only_if_asked_for() {
    let folder = documents();
    for (line, kind, name) in [
        (
            "mt-profile w --design random --budget 2 -o p",
            "profile",
            "p",
        ),
        ("mt-launch t -o r", "run", "r"),
        ("mt-launch t -o p", "profile", "p"),
        ("mt-launch --dry-run t -o r", "run", "r"),
    ] {
        let before = bytes(&folder, name);
        let out = folder.run(line);
        out.assert_code(2);
        let told = format!("there is already a {kind}");
        assert!(out.stderr.contains(&told), "{out:#?}");
        assert_eq!(bytes(&folder, name), before, "{line}");
    }
    folder
        .run("mt-profile w --design random --budget 6 --resume p -o p && mt-check p")
        .assert_code(0);
    folder
        .run("mt-profile w --design random --budget 2 --force -o p && test $(wc -l <p) = 6")
        .assert_code(0);
    folder.run("mt-launch t --force -o r").assert_code(0);
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_what_is_there_is_whole() {
    let folder = documents();
    let out = folder.run("ulimit -f 1; mt-profile w --design random --budget 100 -o short");
    out.assert_code(3);
    assert!(out.stderr.contains("ulimit -f"), "{out:#?}");
    let short = String::from_utf8(bytes(&folder, "short")).unwrap();
    assert!(short.len() <= 1024 && short.ends_with("}\n"), "{short}");
    folder
        .run("mt-profile w --design random --budget 6 --resume short -o short && cmp p short")
        .assert_code(0);
    let out = folder.run("ulimit -f 0; mt-fit -q p -o model");
    out.assert_code(3);
    assert!(!folder.path().join("model").exists());
    no_temporary_files(folder.path());
}

#[test]
fn a_full_disk_is_an_error() {
    let folder = documents();
    for (tool, name) in READS {
        let out = folder.run(&format!("{tool} {name} -o /dev/full"));
        out.assert_code(3);
        assert!(out.stderr.contains("No space left"), "{out:#?}");
        folder
            .run(&format!("{tool} {name} > /dev/full"))
            .assert_code(3);
    }
}

#[test]
fn what_a_killed_tool_left_is_cleaned_by_the_next() {
    let folder = documents();
    let line = "sleep 5 | mt-solve -o plan & while ! ls -A | grep -q mt-; do sleep 0.1; done
        kill -9 $!; wait $!; ls -A";
    let out = folder.run(line);
    assert!(out.stdout.contains(".mt-"), "{out:#?}");
    folder.run("mt-solve m -o plan").assert_code(0);
    no_temporary_files(folder.path());
}

#[test]
fn a_dry_run_is_safe_to_run() {
    let folder = documents();
    let line = r#"cat > evil.py <<'PY'
import json
s = json.load(open("t"))
w = s["plan"]["model"]["workload"]
s["id"] = s["plan"]["id"] = w["id"] = "x\ntouch evil; #\n"
for i, t in enumerate(w["tasks"]):
    t["job"] = {"argv": ["true", "$(touch evil)", "; touch evil", "\ntouch evil\n"],
                "cwd": ".", "env": {"A;touch evil;B": "1", "C": "'; touch evil; '",
                                    "$(touch evil)": "2", "-S touch evil #": "3"}}
json.dump(s, open("evil.json", "w"))
PY
        python3 evil.py && mt-launch --dry-run evil.json > script && sh script; ls"#;
    let out = folder.run(line);
    if out.stderr.contains("python3") {
        testkit::skipped("python", "there is no python3");
        return;
    }
    assert!(out.stdout.contains("script"), "{out:#?}");
    assert!(!out.stdout.lines().any(|l| l == "evil"), "{out:#?}");
}

#[test]
fn names_do_not_reach_a_terminal_as_commands() {
    let folder = Folder::new();
    let evil = WORKLOAD.replace("1e6", "1000000").replace(
        r#""device""#,
        r#""id":"x\u001b]0;owned\u0007\u009b2J","device""#,
    );
    fs::write(folder.path().join("w"), evil).unwrap();
    let line = "mt-profile w --design random --budget 4 | mt-fit | mt-solve | tee s | mt-overlap
        mt-solve nothing-$'\\x1b'[2J; mt-launch --device cpu s; mt-report s -o /dev/null";
    let out = folder.run(line);
    assert!(
        !out.stderr.contains(['\u{1b}', '\u{9b}', '\u{7}']),
        "{out:#?}"
    );
    assert!(out.stderr.contains(r"nothing-\u001b[2J"), "{out:#?}");
    // `script` gives the tools a terminal.
    let out = folder.run("TERM=dumb script -qec 'mt-report s; mt-check s' /dev/null");
    if out.code == Some(127) {
        testkit::skipped("script", "there is no script(1)");
        return;
    }
    assert!(out.stdout.contains("]0;owned"), "{out:#?}");
    assert!(
        !out.stdout.contains(['\u{1b}', '\u{9b}', '\u{7}']),
        "{out:#?}"
    );
}

/// Values beyond the range of the arithmetic are refused. Up to there no tool hangs, panics, or writes what the next
/// one refuses.
#[test]
fn values_at_the_edge_are_refused_or_carried() {
    let folder = Folder::new();
    let workload = |flops: &str, samples: &str| {
        WORKLOAD
            .replace("1e6", "1000000")
            .replace(
                r#""model":"alexnet""#,
                &format!(r#""flops_per_sample":{flops},"bytes_per_sample":1e4"#),
            )
            .replace("2000", samples)
    };
    for (flops, samples, code) in [
        ("1e300", "2000", 2),
        ("1.1e30", "2000", 2),
        ("1e-30", "2000", 0),
        ("1e10", "10000000000", 0),
        ("1e10", "9007199254740993", 2),
        ("1e10", "18446744073709551615", 2),
    ] {
        fs::write(folder.path().join("w"), workload(flops, samples)).unwrap();
        let pipe =
            "set -o pipefail; mt-profile w --device sim --design random --budget 12 | tee p |
            mt-fit -q | tee m | mt-solve --outside --step 20 | tee s | mt-overlap | tee t | mt-launch > r;
            code=$?; test $code != 0 || mt-check p m s t r; exit $(( code > 0 ? code : $? ))";
        let out = folder.run(pipe);
        out.assert_code(code);
        if code == 2 {
            assert!(
                out.stderr.contains("error E201"),
                "{flops} {samples}: {out:#?}"
            );
        } else {
            let documents = folder.run("cat p m s t r").stdout;
            assert!(!documents.contains("null"), "{flops} {samples}");
        }
    }
}

/// Steps of a year beside steps of a millisecond: the simulator refuses, and a signal ends it before that.
#[test]
fn a_signal_ends_a_simulation_within_a_second() {
    let folder = Folder::new();
    let year = WORKLOAD.replace("1e6", "1000000").replace(
        r#""model":"alexnet""#,
        r#""flops_per_sample":1e20,"bytes_per_sample":1e4"#,
    );
    fs::write(folder.path().join("w"), year).unwrap();
    let line = "mt-profile w -o p & sleep 1; kill -TERM $!; begun=$(date +%s%N); wait $!; code=$?
        echo $(( ($(date +%s%N) - begun) / 1000000 )); exit $code";
    let out = folder.run(line);
    assert_eq!(out.code, Some(143), "{out:#?}");
    let waited: u64 = out.stdout.trim().parse().unwrap();
    // One second of patience, with a margin for a busy machine.
    assert!(waited < 3_000, "{waited} ms");
}
