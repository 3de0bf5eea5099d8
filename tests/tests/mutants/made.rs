//! Honest documents of every kind, made by the tools.

use std::fs;

use mt_tests::Folder;
use serde_json::Value;

/// A document, and the documents that must precede it for the check.
pub struct Document {
    pub name: String,
    /// Its kind, with its origin if that has exemptions of its own.
    pub kind: &'static str,
    pub records: Vec<Value>,
    pub before: Vec<Value>,
}

/// All documents.
pub struct Made {
    pub documents: Vec<Document>,
    /// Why this machine could not make all of them.
    pub skipped: Option<String>,
}

/// Small enough that every field can be altered in turn.
const WORKLOAD: &str = r#"{"schema":"mt.workload/1","id":"small",
 "device":{"kind":"sim","gpu":"rtx-3090","memory_bytes":24000000000},
 "link":{"down_bps":4e8,"up_bps":2e8},
 "tasks":[
  {"id":"alex","model":"alexnet","batch_sizes":[32,64],"samples":12000,
   "update_bytes":{"down":30000000,"up":20000000},"memory":{"fixed_bytes":500000000,"bytes_per_sample":1000000}},
  {"id":"mobile","model":"mobilenet_v3_large","batch_sizes":[32,64],"samples":9000,"weight":2.5,
   "update_bytes":{"down":15000000,"up":15000000},"memory":{"fixed_bytes":400000000,"bytes_per_sample":2000000}}]}"#;

/// Measured rates instead of a model.
const BY_HAND: &str = r#"{"schema":"mt.plan/1","link":{"down_bps":4e8,"up_bps":4e8},
 "tasks":[{"id":"a","samples":18000,"update_bytes":{"down":30000000,"up":30000000}},
          {"id":"b","samples":6400,"update_bytes":{"down":9000000,"up":9000000}}],
 "rates":[{"active":["a"],"samples_per_s":{"a":1886.5}},{"active":["b"],"samples_per_s":{"b":1515.7}},
          {"active":["a","b"],"samples_per_s":{"a":1279.1,"b":1027.7}}]}"#;

/// Jobs that print their steps, of which one fails once.
const JOBS: &str = r#"{"schema":"mt.plan/1","rv_percent":150,
 "tasks":[{"id":"a","batch":10,"share_percent":100,"samples":40},
          {"id":"b","batch":10,"share_percent":50,"samples":20}],
 "workload":{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
  {"id":"a","batch_sizes":[10],"flops_per_sample":1e6,"bytes_per_sample":1e4,"samples":40,"job":{"argv":["sh","-c",
   "echo '{\"mt\":\"ready\"}'; for i in 1 2 3 4; do sleep 0.2; echo '{\"mt\":\"step\",\"samples\":10,\"loss\":1.5}'; done"]}},
  {"id":"b","batch_sizes":[10],"flops_per_sample":1e6,"bytes_per_sample":1e4,"samples":20,"job":{"argv":["sh","-c",
   "test -e once || { touch once; exit 7; }; echo '{\"mt\":\"ready\"}'; for i in 1 2; do sleep 0.2; echo '{\"mt\":\"step\",\"samples\":10}'; done"]}}]}}"#;

/// Jobs of a cluster: one of two rounds, and one of which a task fails once.
const CLUSTER: &str = r#"{"schema":"mt.cluster/1","gpus":[{"type":"t","count":2}],"jobs":[
 {"id":"a","rounds":2,"tasks_per_round":1,"weight":2.0,"train_s":{"t":0.2},"job":{"argv":["sleep","0.2"]}},
 {"id":"b","rounds":1,"tasks_per_round":2,"train_s":{"t":0.2},"job":{"argv":["sh","-c",
  "sleep 0.2; test -e tried || { touch tried; exit 7; }"]}}]}"#;

const SIMULATED: &str = "set -eo pipefail
mt-profile --design random --budget 8 small.json > profile
mt-fit --quiet --method structured profile > model
mt-profile --design adaptive --budget 8 small.json > aimed-profile
mt-fit --quiet --method structured aimed-profile > aimed-model
mt-solve --pareto mismatch --pareto fairness --top 2 --explain model > plan
mt-overlap plan > timeline
mt-launch --rounds 2 timeline > run
mt-launch --rounds 5 --learn small.json > learnt-run
mt-solve --floor 0.2 --rv 150 --batch same --step 10 --objective weighted model > bound-plan
mt-solve --objective max-min --mismatch 5 --balance time --step 10 --previous plan --damping 0.5 model > damped-plan
mt-solve --objective round --batch fixed --step 10 model > round-plan
mt-solve --floor 0.99 --batch free model > no-plan || true
sed 's/\"batch_sizes\":\\[32,64\\]/&,\"efficiency\":{\"noise_scale\":200.0},\"rounds_to_target\":5.0/g; s/target\":5.0/target\":9.0/2' model | tee efficient | mt-solve --step 25 > progress-plan
mt-solve --objective progress-last --step 25 efficient > last-plan
sed 's/\"noise_scale\":200.0/\"table\":[{\"batch\":32,\"progress\":1.0,\"interval\":[0.7,1.2]},{\"batch\":64,\"progress\":0.9,\"interval\":[0.6,1.1]}]/g' efficient | mt-solve --step 25 > table-plan
sed 's/\"memory_bytes\":24000000000/\"memory_bytes\":24000000000,\"gpus\":2/' model | mt-solve --step 10 > two-plan
mt-overlap two-plan > two-timeline
mt-overlap --link half plan > half-timeline
mt-overlap --link shared plan > shared-timeline
mt-overlap --rates fixed plan > fixed-timeline
mt-overlap --rates fixed --single-order hand.json > single-timeline
mt-overlap hand.json > hand-timeline
mt-cluster plan --effort 10 --policy all --switching hare $CASES/mt-cluster/tests/cli/in/three.json > schedule
mt-cluster plan --effort 20000 --policy srtf $CASES/mt-cluster/tests/cli/in/three.json > srtf-schedule
mt-elastic --gpus 4 --pause 2 $CASES/mt-elastic/tests/cli/in/two.ndjson > allocation";

/// Name, kind, file, and the file before it.
const DOCUMENTS: [(&str, &str, &str); 28] = [
    ("profile", "profile", ""),
    ("model", "model", "profile"),
    ("aimed-profile", "profile", ""),
    ("aimed-model", "model", "aimed-profile"),
    ("plan", "plan", ""),
    ("bound-plan", "plan", ""),
    ("damped-plan", "plan", ""),
    ("round-plan", "plan", ""),
    ("no-plan", "plan", ""),
    ("progress-plan", "plan", ""),
    ("last-plan", "plan", ""),
    ("table-plan", "plan", ""),
    ("two-plan", "plan", ""),
    ("timeline", "timeline", ""),
    ("two-timeline", "timeline", ""),
    ("half-timeline", "timeline", ""),
    ("shared-timeline", "timeline", ""),
    ("fixed-timeline", "timeline", ""),
    ("single-timeline", "timeline", ""),
    ("hand-timeline", "timeline", ""),
    ("run", "run", ""),
    ("learnt-run", "run learnt", ""),
    ("schedule", "schedule", ""),
    ("srtf-schedule", "schedule", ""),
    ("allocation", "allocation", ""),
    ("job-run", "processes", ""),
    ("cluster-run", "cluster", ""),
    ("cluster-status", "status", ""),
];

/// Golden files of the tools that are valid documents: measurements on real devices, and hand-written ones. Name,
/// kind, file.
const GOLDEN: [(&str, &str, &str); 13] = [
    (
        "check-by-hand",
        "plan by-hand",
        "mt-check/tests/cli/in/by-hand.json",
    ),
    (
        "check-gangs",
        "schedule",
        "mt-check/tests/cli/in/gangs.json",
    ),
    (
        "check-measured",
        "plan",
        "mt-check/tests/cli/in/measured.json",
    ),
    (
        "check-plan",
        "plan by-hand",
        "mt-check/tests/cli/in/plan.json",
    ),
    (
        "check-timeline",
        "timeline by-hand",
        "mt-check/tests/cli/in/timeline.json",
    ),
    (
        "check-allocations",
        "allocation",
        "mt-check/tests/cli/in/allocations.ndjson",
    ),
    (
        "check-gradients",
        "profile measured",
        "mt-check/tests/cli/in/gradients.ndjson",
    ),
    (
        "check-moved",
        "run moved",
        "mt-check/tests/cli/in/moved.ndjson",
    ),
    (
        "check-run",
        "run by-hand",
        "mt-check/tests/cli/in/run.ndjson",
    ),
    (
        "check-verify",
        "profile measured",
        "mt-check/tests/cli/in/verify.ndjson",
    ),
    (
        "overlap-two",
        "plan by-hand",
        "mt-overlap/tests/cli/in/two.json",
    ),
    (
        "profile-trio-model",
        "model",
        "mt-profile/tests/cli/in/trio_model.json",
    ),
    (
        "solve-measured",
        "model measured",
        "mt-solve/tests/cli/in/measured.json",
    ),
];

impl Made {
    /// Runs the tools.
    pub fn new() -> Self {
        let folder = Folder::new();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put("small.json", WORKLOAD);
        put("hand.json", BY_HAND);
        put("jobs.json", JOBS);
        let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools");
        folder
            .run(&format!("CASES={cases}; {SIMULATED}"))
            .assert_code(0);
        put("cluster.json", CLUSTER);
        folder
            .run(
                "mt-cluster plan cluster.json | \
                 mt-cluster run --status cluster-status > cluster-run",
            )
            .assert_code(0);
        let cpu = folder.run("mt-launch jobs.json > job-run");
        let complete = cpu.code == Some(0);
        let read = |name: &str| -> Vec<Value> {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            let values = serde_json::Deserializer::from_str(&text).into_iter();
            values.collect::<Result<_, _>>().unwrap()
        };
        let documents = DOCUMENTS
            .iter()
            .filter(|(name, ..)| complete || *name != "job-run")
            .map(|&(name, kind, before)| Document {
                name: name.to_owned(),
                kind,
                records: read(name),
                before: if before.is_empty() {
                    Vec::new()
                } else {
                    read(before)
                },
            });
        let golden = GOLDEN.iter().map(|&(name, kind, file)| Document {
            name: name.to_owned(),
            kind,
            records: read(&format!("{cases}/{file}")),
            before: Vec::new(),
        });
        Self {
            documents: documents.chain(golden).collect(),
            skipped: (!complete).then_some(cpu.stderr),
        }
    }
}
