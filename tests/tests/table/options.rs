//! Options of everything that runs jobs.

use mt_tests::Folder;

use crate::column::Column::{
    self, Cancel, Cluster, Elastic, Exec, Measuring, Queue, Rounds, Schedules, Server, Sweep,
    Trial, Under,
};
use crate::column::{LAUNCH, PIPE};
use crate::judge::Expect::{self, Acts, Elsewhere, Ends, Meaningless, Refused};
use crate::row::{Act, Group, Row};

/// Options of every tool, which the tests of `cli` cover.
const COMMON: [&str; 4] = ["--help", "--version", "--completions", "--man"];

/// Options of a column's program, as the completion script of bash lists them.
pub fn of(column: Column) -> Vec<String> {
    let (tool, verb) = column
        .program()
        .split_once(' ')
        .unwrap_or((column.program(), ""));
    let script = Folder::new()
        .run(&format!("{tool} --completions bash"))
        .stdout;
    let label = match verb {
        "" => tool.replace('-', "__"),
        _ => format!("{}__subcmd__{verb}", tool.replace('-', "__subcmd__")),
    };
    let mut lines = script
        .lines()
        .map(str::trim)
        .skip_while(|l| *l != format!("{label})"));
    let list = lines
        .find_map(|l| l.strip_prefix("opts=\""))
        .unwrap_or_default();
    let long = list.trim_end_matches('"').split(' ');
    long.filter(|o| o.starts_with("--") && !COMMON.contains(o))
        .map(str::to_owned)
        .collect()
}

/// Whose effect needs a GPU, the simulator or a model: there, or in the test of options that print something.
const PRINTED: Expect = Elsewhere("tests/tests/suite/options.txt");

/// Options of a queue that are about several jobs.
const ORDER: Expect = Elsewhere("tools/mt/tests/cli/queue_order.test");
const RESULTS: Expect = Elsewhere("tools/mt/tests/cli/queue_results.test");

/// A training of half a second.
const TRAIN: &str = "train";

type But = &'static [(Column, Expect)];

const fn row(
    name: &'static str,
    columns: &'static [Column],
    given: &'static str,
    job: &'static str,
    most: Expect,
    but: But,
) -> Row {
    Row {
        group: Group::Option,
        name,
        columns,
        given,
        job,
        act: Act::Wait,
        most,
        but,
    }
}

/// The job is stopped while it trains.
const fn stopped(row: Row) -> Row {
    Row {
        act: Act::Stop,
        ..row
    }
}

/// The rows.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    // What mt-launch and mt-cluster run share.
    row("--output", LAUNCH, "--output events", TRAIN, Ends(0, &["file: events", "summary"]), &[]),
    row("--force", LAUNCH, "--output old.ndjson --force", TRAIN, Ends(0, &[]), &[]),
    row("--device", PIPE, "--device sim", TRAIN, Acts(0, &["\"simulated\":true"]), &[(Rounds, Ends(2, &["no model to simulate"]))]),
    row("--device", &[Cluster], "--device sim", TRAIN, Acts(0, &["\"simulated\":true"]), &[]),
    row("--restarts", LAUNCH, "--restarts 1", "ready; exit 3",
        Ends(1, &["\"restarts\":1", "!\"restarts\":2"]), &[]),
    row("--backoff", LAUNCH, "--backoff 2 --restarts 1", "ready; exit 3", Ends(1, &["took>2"]), &[]),
    stopped(row("--grace", LAUNCH, "--grace 1", "trap '' TERM; up; ready; steps 10000",
        Ends(143, &["took>1", "took<7"]), &[])),
    row("--logs", LAUNCH, "--logs there", "echo printed-by-job; train", Ends(0, &["file: there/", "printed-by-job"]), &[]),
    row("--log-bytes", LAUNCH, "--logs there --log-bytes 200", TRAIN, Ends(0, &[".log.1"]), &[]),
    row("--log-files", LAUNCH, "--logs there --log-bytes 200 --log-files 1", "train; steps 100; exit 0",
        Ends(0, &[".log.1", "!.log.2"]), &[]),
    row("--follow", LAUNCH, "--follow", "echo printed-by-job; train", Ends(0, &["printed-by-job"]), &[]),
    row("--keep-env", LAUNCH, "--keep-env TABLE_* --logs there", "echo got=$TABLE_KEPT; train",
        Ends(0, &["got=kept-by-name"]), &[]),
    row("--env", LAUNCH, "--env GIVEN=by-option --logs there", "echo got=$GIVEN; train", Ends(0, &["got=by-option"]), &[]),
    row("--runs", LAUNCH, "--runs mine", "ls mine > listed; train", Ends(0, &["file: listed", "run-"]), &[]),
    row("--seed", PIPE, "--seed 7", TRAIN, Acts(0, &["\"seed\":7"]), &[(Rounds, PRINTED)]),
    row("--seed", &[Cluster], "--seed 7", TRAIN, Acts(0, &["\"seed\":7"]), &[]),
    row("--guard", PIPE, "", TRAIN, Elsewhere("tools/mt-launch/tests/faults/signals.rs"), &[]),

    // Limits.
    row("--ready-timeout", LAUNCH, "--ready-timeout 1 --restarts 0", "sleep 60", Ends(1, &["not ready after"]), &[]),
    row("--stall-timeout", LAUNCH, "--stall-timeout 1 --restarts 0", "ready; step; sleep 60", Ends(1, &["no step for"]), &[]),
    row("--task-timeout", LAUNCH, "--task-timeout 1", "ready; steps 10000", Ends(1, &["not done after"]),
        &[(Elastic, Acts(1, &["not done after"]))]),
    row("--no-progress", LAUNCH, "--no-progress --ready-timeout 1 --restarts 0", "sleep 2",
        Acts(0, &["!not ready after"]), &[]),

    // Of mt-launch: they act, or are refused where they cannot.
    row("--dry-run", PIPE, "--dry-run", TRAIN, Acts(0, &["sh job.sh", "!summary"]), &[]),
    row("--controller", &[Elastic], "", TRAIN, Ends(0, &["decision 1"]), &[]),
    row("--controller", &[Rounds], "", TRAIN, Meaningless("with it, a plan is an elastic launch"), &[]),
    row("--controller", &[Schedules], "schedule.json --controller mt-elastic", TRAIN, Ends(2, &["this is a schedule"]), &[]),
    row("--arrivals", PIPE, "--arrivals none.ndjson", TRAIN, Refused, &[(Elastic, Ends(2, &["none.ndjson"]))]),
    row("--parts", PIPE, "--parts 1", TRAIN, Refused, &[(Elastic, Ends(0, &["decision 1"]))]),
    row("--others", PIPE, "--others wait", TRAIN, Refused, &[(Elastic, Elsewhere("tools/mt-launch/tests/faults/elastic/parts.rs"))]),
    row("--rounds", PIPE, "--rounds 2", TRAIN, Refused, &[(Rounds, Ends(0, &["\"round\":1"]))]),
    row("--learn", PIPE, "--learn", TRAIN, Refused, &[(Rounds, Ends(0, &["\"summary\""]))]),
    row("--known", PIPE, "--known none.ndjson", TRAIN, Refused, &[]),
    row("--round", PIPE, "--round 3", TRAIN, Refused, &[(Rounds, Ends(0, &["\"round\":3"]))]),
    row("--only", PIPE, "--only zebra", TRAIN, Refused, &[(Rounds, Ends(2, &["zebra"]))]),
    row("--attach-mps", LAUNCH, "--attach-mps", TRAIN, Refused, &[]),
    row("--cpus", PIPE, "--cpus 0", TRAIN, Refused, &[]),
    row("--keep-shares", PIPE, "--keep-shares", TRAIN, Refused, &[(Rounds, Elsewhere("tools/mt-launch/tests/faults/rounds.rs"))]),
    row("--no-overlap", PIPE, "--no-overlap", TRAIN, Refused, &[(Rounds, PRINTED)]),
    row("--progress-every", PIPE, "--progress-every 0.1", TRAIN, Acts(0, &["4x:\"event\":\"progress\""]), &[]),
    row("--prometheus", LAUNCH, "--prometheus metrics", "train; steps 400; exit 0", Acts(0, &["file: metrics", "# TYPE"]), &[]),
    row("--adapt", PIPE, "--adapt", TRAIN, Refused, &[(Rounds, PRINTED)]),
    row("--damping", PIPE, "--damping 0.5", TRAIN, Refused, &[]),

    // Of mt-cluster run.
    row("--via", &[Cluster], "--via env", TRAIN, Ends(0, &["summary"]), &[]),
    row("--journal", &[Cluster], "--journal kept", TRAIN, Ends(0, &["file: kept"]), &[]),
    row("--resume", &[Cluster], "--resume --journal kept", TRAIN, Ends(0, &["file: kept"]), &[]),
    row("--events", &[Cluster], "--events none.ndjson", TRAIN, Ends(2, &["none.ndjson"]), &[]),
    row("--status", &[Cluster], "--status state", TRAIN, Ends(0, &["file: state", "mt.status/1"]), &[]),

    // The queue.
    row("--queue", &[Queue, Sweep, Server, Cancel, Exec], "", TRAIN, Elsewhere("tools/mt/tests/queue.rs"), &[]),
    row("--json", &[Queue, Sweep, Server], "--json", TRAIN, Ends(0, &["{\""]), &[]),
    row("--json", &[Cancel], "--all --json", "up; steps 10000", Ends(1, &["cancelled", "[1]"]), &[]),
    row("--all", &[Cancel], "--all", "up; steps 10000", Ends(1, &["cancelled"]), &[]),
    row("--memory", &[Queue, Sweep, Exec], "--memory 900000G", TRAIN, Refused, &[]),
    row("--memory", &[Server], "--memory 2G", TRAIN, Ends(0, &["\"memory\":2000000000|\"memory\":2147483648"]), &[]),
    row("--priority", &[Queue, Sweep], "--priority 7", TRAIN, Ends(0, &["\"priority\":7"]), &[]),
    row("--priority", &[Exec], "--priority 7", "mt status --queue q --json; train", Ends(0, &["\"priority\":7"]), &[]),
    row("--share", &[Queue, Sweep, Exec], "--share 0", TRAIN, Refused, &[]),
    row("--gpus", &[Queue, Sweep, Exec], "--gpus 99", TRAIN, Refused, &[]),
    row("--at-most-slower", &[Queue, Sweep, Exec], "--at-most-slower 0.x", TRAIN, Refused, &[]),
    row("--once", &[Queue, Sweep], "", TRAIN, Elsewhere("tools/mt/tests/queue.rs"), &[]),
    row("--jobs", &[Sweep], "--jobs none.txt", TRAIN, Refused, &[]),
    row("--no-wait", &[Sweep], "--no-wait", TRAIN, Ends(0, &["done"]), &[]),
    row("--most", &[Server], "--most 1", TRAIN, Ends(0, &["\"most\":1"]), &[]),
    row("--device", &[Server], "--device cpu", TRAIN, Ends(0, &["processors"]), &[]),
    row("--stop", &[Server], "--stop", TRAIN, Ends(0, &["the server has ended"]), &[]),

    row("--group", &[Queue, Sweep, Server, Exec], "", TRAIN, ORDER, &[]),
    row("--after", &[Queue, Sweep], "", TRAIN, ORDER, &[]),
    row("--cwd", &[Queue, Sweep], "", TRAIN, ORDER, &[]),
    row("--env", &[Queue, Sweep], "--env GIVEN=by-option", "echo got=$GIVEN; train", Ends(0, &["got=by-option"]), &[]),
    row("--on-end", &[Queue, Sweep], "", TRAIN, ORDER, &[]),
    row("--timeout", &[Queue, Sweep], "", TRAIN, RESULTS, &[]),
    row("--keep-going", &[Queue, Sweep], "", TRAIN, RESULTS, &[]),
    row("--results", &[Sweep], "", TRAIN, RESULTS, &[]),
    row("--dry-run", &[Queue, Sweep], "", TRAIN, Elsewhere("tools/mt/tests/cli/queue_values.test"), &[]),
    stopped(row("--grace", &[Queue, Sweep], "--grace 1", "trap '' TERM; up; ready; steps 10000",
        Ends(1, &["took>1", "took<7"]), &[])),
    row("--grace", &[Server], "--grace 7", TRAIN, Ends(0, &["\"grace_ms\":7000"]), &[]),
    row("--grace", &[Cancel], "--all --grace 1", "trap '' TERM; up; ready; steps 10000", Ends(1, &["took<7"]), &[]),

    // mt try.
    row("--copies", &[Trial], "--copies 3", TRAIN, Ends(0, &["job-3"]), &[]),
    row("--seconds", &[Trial], "--seconds 1", "up; steps 10000", Ends(0, &["took<12"]), &[]),
    row("--limit", &[Trial], "--limit 1", "sleep 60", Ends(1, &["took<8", "--limit"]), &[]),
    row("--output", &[Trial], "--output there", TRAIN, Ends(0, &["folder: there"]), &[]),

    // mt-profile: what is measured is chosen by options that act on the simulator, too.
    row("--output", &[Measuring], "--output profile", TRAIN, Ends(0, &["file: profile", "samples_per_s"]), &[]),
    row("--force", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--device", &[Measuring], "--device sim", TRAIN, Ends(2, &["model"]), &[]),
    row("--gpu", &[Measuring], "--gpu rtx-3090", TRAIN, Refused, &[]),
    row("--list-devices", &[Measuring], "--list-devices", TRAIN, Acts(0, &["processor", "!samples_per_s"]), &[]),
    row("--replay", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--design", &[Measuring], "--design grid", TRAIN, Acts(0, &["\"design\":\"grid\""]), &[]),
    row("--budget", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--batch", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--share-step", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--rv-min", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--rv-max", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--subsets", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--tolerance", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--rounds", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--objective", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--floor", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--warm-start", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--repeats", &[Measuring], "--repeats 2", "up; ready; steps 10000", Ends(0, &["\"repeats\":2"]), &[]),
    row("--window", &[Measuring], "--window 1 --max-window 1", "up; ready; steps 10000", Ends(0, &["took>1"]), &[]),
    row("--max-window", &[Measuring], "", TRAIN, Elsewhere("tests/tests/suite/cpu.rs"), &[]),
    row("--precision", &[Measuring], "", TRAIN, Elsewhere("tests/tests/suite/cpu.rs"), &[]),
    row("--noise", &[Measuring], "--noise 5", TRAIN, Refused, &[]),
    row("--configs", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--baselines", &[Measuring], "--baselines", TRAIN, Refused, &[]),
    row("--solos", &[Measuring], "--solos", TRAIN, Refused, &[]),
    row("--import", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--resume", &[Measuring], "--resume none --output profile", TRAIN, Ends(0, &["file: profile"]), &[]),
    row("--cpus", &[Measuring], "--cpus 0", TRAIN, Refused, &[]),
    row("--attach-mps", &[Measuring], "--attach-mps", TRAIN, Refused, &[]),
    row("--keep-env", &[Measuring], "--keep-env TABLE_*", "echo got=$TABLE_KEPT > got; train", Ends(0, &["got=kept-by-name"]), &[]),
    row("--env", &[Measuring], "--env GIVEN=by-option", "echo got=$GIVEN > got; train", Ends(0, &["got=by-option"]), &[]),
    row("--trace", &[Measuring], "--trace t.json", TRAIN, Refused, &[]),
    row("--calibrate", &[Measuring], "", TRAIN, PRINTED, &[]),
    row("--guard", &[Measuring], "", TRAIN, Elsewhere("tools/mt-launch/tests/faults/signals.rs"), &[]),
    row("--seed", &[Measuring], "--seed 7", TRAIN, Ends(0, &["\"seed\":7"]), &[]),

    // mt-launch exec.
    row("--plan", &[Under], "--plan none.json --task a", TRAIN, Ends(2, &["none.json"]), &[]),
    row("--task", &[Under], "--plan plan.json --task zebra", TRAIN, Ends(2, &["zebra"]), &[]),
    row("--share", &[Under], "--share 30", "echo share=$MT_SHARE_PERCENT; train", Ends(0, &["share=30"]), &[]),
    row("--memory", &[Under], "--memory 1G", TRAIN, Refused, &[]),
    row("--device", &[Under], "--device cpu", "echo device=$MT_DEVICE; train", Ends(0, &["device=cpu"]), &[]),
    row("--round", &[Under], "--round 3", "echo round=$MT_ROUND; train", Ends(0, &["round=3"]), &[]),
    row("--log", &[Under], "--log rates", TRAIN, Ends(0, &["file: rates", "{\""]), &[]),
    row("--runs", &[Under], "--runs mine", "ls mine > listed; train", Ends(0, &["run-"]), &[]),
];
