//! SIGTERM and Ctrl-C end every tool, whether it computes or waits for input that does not come.

use mt_tests::Folder;

use crate::documents;

/// Time limit for a tool: a second, and another for a busy machine.
const PATIENCE_MS: u64 = 2_000;

/// A job that arrives, as a live system reports it.
const ARRIVAL: &str = "{\"event\":\"arrival\",\"time_s\":0,\"job\":\"a\"}\n";

/// Starts `tool` with an input that stays open, waits until `busy` succeeds, asks it to end, and returns how many
/// milliseconds that took. The tool reads the output of `feed`.
fn ends(folder: &Folder, tool: &str, feed: &str, busy: &str) -> u64 {
    ended_by("TERM", 143, folder, (tool, feed, busy))
}

/// Like [`ends`], by a signal that ends it with an exit code.
fn ended_by(signal: &str, code: i32, folder: &Folder, how: (&str, &str, &str)) -> u64 {
    let (tool, feed, busy) = how;
    // A shell makes its background processes ignore Ctrl-C.
    let line = format!(
        "rm -f pipe out; mkfifo pipe; exec 9<>pipe
         env --default-signal=INT {tool} <pipe >out 2>err & pid=$!
         {feed} >&9
         for i in $(seq 200); do {{ {busy}; }} && break; sleep 0.05; done
         kill -0 $pid || {{ cat err >&2; exit 9; }}
         begun=$(date +%s%N); kill -{signal} $pid; wait $pid; code=$?
         echo $(( ($(date +%s%N) - begun) / 1000000 )); exit $code"
    );
    let out = folder.run(&line);
    assert_eq!(out.code, Some(code), "{tool}: {out:#?}");
    out.stdout.trim().parse().unwrap()
}

#[test]
fn every_tool_ends_within_a_second_of_sigterm() {
    let folder = documents();
    let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    put("q", ARRIVAL);
    put("asked", "config,task,batch,share_percent\none,a,64,50\n");
    let rows: String = (0..500_000).map(|i| format!("{i},a,64,50\n")).collect();
    put("many", &format!("config,task,batch,share_percent\n{rows}"));
    let waits = "sleep 0.3";
    for (tool, feed, busy) in [
        // Waits for its first input, and for the next after a whole document.
        ("mt-profile -o x1", "true", waits),
        (
            "mt-profile --design random --budget 3",
            "cat w",
            "test $(wc -l <out) -ge 5",
        ),
        ("mt-fit -o x2", "true", waits),
        ("mt-fit -q", "cat p", waits),
        ("mt-solve -o x3", "true", waits),
        ("mt-solve", "cat m", "test -s out"),
        ("mt-overlap -o x4", "true", waits),
        ("mt-overlap", "cat s", "test -s out"),
        ("mt-launch -o x5", "true", waits),
        ("mt-check", "cat t", "test -s out"),
        ("mt-check", "head -3 r", waits),
        ("mt-report", "cat t", waits),
        ("mt-report", "head -3 r", waits),
        ("mt-elastic --gpus 4 -o x6", "true", waits),
        ("mt-elastic --gpus 4", "head -4 e", "test -s out"),
        ("mt-cluster plan -o x7", "true", waits),
        ("mt-cluster order -o x8", "true", waits),
        ("mt-cluster order", "printf '{\"jobs\":['", waits),
        ("mt-cluster online -o x9", "true", waits),
        ("mt-cluster online --events - c", "true", waits),
        ("mt-cluster online --events - c", "cat q", "test -s out"),
        ("mt-solve --predict asked -o x10", "true", waits),
        ("mt-solve --predict asked", "cat m", "test -s out"),
        // Computes for long.
        ("mt-profile w --device sim --window 80000", "true", waits),
        (
            "sh -c 'mt-cluster generate --jobs 400 --seed 3 > large; exec mt-cluster plan --effort 4000000000 large'",
            "true",
            "test -s large && sleep 0.3",
        ),
        ("mt-cluster online --effort 4000000000 large", "true", waits),
        ("mt-solve --predict many m", "true", waits),
    ] {
        for (signal, code) in [("TERM", 143), ("INT", 130)] {
            let both = ["online", "order", "elastic", "predict", "launch"];
            if signal == "INT" && !both.iter().any(|name| tool.contains(name)) {
                continue;
            }
            let took = ended_by(signal, code, &folder, (tool, feed, busy));
            assert!(took < PATIENCE_MS, "{tool}, {signal}: {took} ms");
            whole_or_absent(&folder, tool);
        }
    }
}

/// The output consists of whole records, and a file that was to be complete does not exist.
fn whole_or_absent(folder: &Folder, tool: &str) {
    crate::no_temporary_files(folder.path());
    let out = std::fs::read_to_string(folder.path().join("out")).unwrap();
    assert!(out.is_empty() || out.ends_with('\n'), "{tool}: {out}");
    for n in 1..=10 {
        let file = folder.path().join(format!("x{n}"));
        assert!(!file.exists(), "{tool}: {}", file.display());
    }
}

/// A profiler of real jobs stops them first; while it waits for the next workload there are none.
#[test]
fn a_profiler_of_jobs_ends_while_it_waits_for_input() {
    let folder = Folder::new();
    let workload = r#"{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
        {"id":"a","batch_sizes":[8],"flops_per_sample":1e6,"bytes_per_sample":1e6,
         "job":{"argv":["sh","-c","while :; do echo '{\"mt\":\"step\",\"samples\":8}'; sleep 0.02; done"]}}]}"#;
    std::fs::write(folder.path().join("w"), workload.replace("1e6", "1000000")).unwrap();
    let probe = folder.run("mt-profile w --budget 1 --window 0.1 --max-window 0.1");
    if probe.code == Some(3) {
        testkit::skipped("cgroups", "no control group can be written");
        return;
    }
    probe.assert_code(0);
    let tool = "mt-profile --budget 1 --window 0.1 --max-window 0.1";
    let ended = r#"grep -q '"end"' out"#;
    let took = ends(&folder, tool, "cat w", ended);
    assert!(took < PATIENCE_MS, "waiting: {took} ms");
    let tool = "mt-profile --budget 50 --window 60 --max-window 60";
    let took = ends(&folder, tool, "cat w", "sleep 1");
    assert!(took < PATIENCE_MS, "measuring: {took} ms");
}
