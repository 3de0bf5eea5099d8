//! The pipe from a workload to launched jobs, on the simulator.

use doc::{Any, AnyDocuments, EventPayload, Frames};
use mt_tests::{Folder, example};

const PIPE: &str = "mt-fit | mt-solve | mt-overlap";

fn documents(bytes: &[u8]) -> Vec<Any> {
    AnyDocuments::new(Frames::new(bytes, "output"))
        .collect::<Result<_, _>>()
        .expect("documents")
}

#[test]
fn one_pipe_goes_from_a_workload_to_launched_jobs() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    let out = folder.run(&format!(
        "set -o pipefail; mt-profile {workload} | {PIPE} | mt-launch --dry-run"
    ));
    out.assert_code(0);
    for id in ["resnet50", "vgg16", "mobilenetv3"] {
        assert!(out.stdout.contains(id), "{}", out.stdout);
    }
    let out = folder.run(&format!(
        "set -o pipefail; mt-profile {workload} | {PIPE} | mt-launch"
    ));
    out.assert_code(0);
    let Some(Any::Run(events)) = documents(out.stdout.as_bytes()).pop() else {
        panic!("{}", out.stdout);
    };
    let last = events.last().unwrap();
    let EventPayload::Summary { ok, tasks, .. } = &last.payload else {
        panic!("{last:?}");
    };
    assert!(*ok && tasks.iter().all(|t| t.finished));
}

#[test]
fn every_stage_reads_files_and_standard_input_alike() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    folder
        .run(&format!(
            "set -e; mt-profile {workload} -o profile; mt-profile - < {workload} > profile2; cmp profile profile2
             mt-fit profile -o model; mt-fit < profile > model2; cmp model model2
             mt-solve model -o plan; mt-solve - < model > plan2; cmp plan plan2
             mt-overlap plan -o timeline; cat plan | mt-overlap > timeline2; cmp timeline timeline2
             mt-launch timeline -o run; mt-launch - < timeline > run2; cmp run run2
             mt-report workload.json 2>/dev/null || true
             mt-check {workload} profile model plan timeline run
             mt-report {workload} profile model plan timeline run"
        ))
        .assert_code(0);
}

/// A round of a year beside one of a second, of 10,000 years, of one sample: valid documents are always accepted.
/// What no number can represent is refused before it runs.
#[test]
fn rounds_of_any_length_are_found_true_or_refused() {
    let folder = Folder::new();
    let pipe = |slow: &str, link: &str| {
        let workload = format!(
            r#"{{"schema":"mt.workload/1","device":{{"kind":"sim","gpu":"rtx-3090"}},"link":{{"down_bps":{link},"up_bps":1e9}},
                "tasks":[{{"id":"slow","batch_sizes":[32],{slow},"update_bytes":{{"down":1e6,"up":1e6}}}},
                {{"id":"quick","model":"alexnet","batch_sizes":[64],"samples":1000}}]}}"#
        );
        std::fs::write(folder.path().join("w.json"), workload).unwrap();
        folder.run(
            "set -e; mt-profile --force -o p w.json --budget 6; mt-fit -o m p; mt-solve -o s m; mt-overlap -o t s
             mt-launch --force -o r t; mt-check p m s t r",
        )
    };
    let layers = r#""flops_per_sample":1e10,"bytes_per_sample":1e6,"samples""#;
    for slow in [
        format!("{layers}:100000000000"),
        r#""model":"resnet18","samples":1000000000000000"#.to_owned(),
        r#""model":"resnet18","samples":1"#.to_owned(),
    ] {
        pipe(&slow, "1e9").assert_code(0);
    }
    let out = pipe(&format!("{layers}:9007199254740992"), "0.000001");
    out.assert_code(2);
    assert!(
        out.stderr.contains("more than the 1e12 s"),
        "{}",
        out.stderr
    );
}

#[test]
fn two_workloads_in_give_two_results_out_at_every_stage() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    let steps = [
        (format!("cat {workload} {workload} | mt-profile"), "1"),
        ("mt-fit 1".to_owned(), "2"),
        ("mt-solve 2".to_owned(), "3"),
        ("mt-overlap 3".to_owned(), "4"),
        ("mt-launch 4".to_owned(), "5"),
    ];
    for (command, file) in steps {
        folder.run(&format!("{command} > {file}")).assert_code(0);
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        assert_eq!(documents(&bytes).len(), 2, "{command}");
    }
    folder
        .run("mt-launch --dry-run 4 && mt-check 1 2 3 4 5")
        .assert_code(0);
}

/// The promise of competitive sharing: the plan of highest throughput, measured again, beats full sharing and
/// temporal sharing, and the prediction is right.
#[test]
fn the_plan_measured_again_keeps_its_promise() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    folder
        .run(&format!(
            "set -e; mt-profile --batch free --objective raw {workload} | mt-fit | mt-solve --batch free > plan
             mt-profile --configs plan > verified
             printf '%s\\n' config,task,batch,share_percent 0,resnet50,128,100 0,vgg16,128,100 \
                 0,mobilenetv3,128,100 > sharing.csv
             mt-profile --configs sharing.csv {workload} > shared"
        ))
        .assert_code(0);
    let plan = match documents(&std::fs::read(folder.path().join("plan")).unwrap()).pop() {
        Some(Any::Plan(plan)) => plan,
        other => panic!("{other:?}"),
    };
    let total_of = |file: &str| -> f64 {
        let profile = match documents(&std::fs::read(folder.path().join(file)).unwrap()).pop() {
            Some(Any::Profile(profile)) => profile,
            other => panic!("{other:?}"),
        };
        let mut samples = profile.samples.iter();
        let corun = samples.find(|s| s.tasks.len() == plan.tasks.len()).unwrap();
        corun.tasks.iter().map(|t| t.throughput.get()).sum()
    };
    let (measured, sharing) = (total_of("verified"), total_of("shared"));
    let found = plan.feasible().unwrap();
    let predicted = found.total();
    let mut baselines = found.baselines.iter();
    let temporal = baselines
        .find(|b| b.name.name() == "temporal")
        .unwrap()
        .total_samples_per_s;
    assert!(
        (predicted / measured - 1.0).abs() < 0.05,
        "predicted {predicted}, measured {measured}"
    );
    assert!(
        measured > 1.05 * sharing,
        "{measured}, all at 100 % {sharing}"
    );
    assert!(
        measured > 1.9 * temporal,
        "{measured}, one after another {temporal}"
    );
}

#[test]
fn a_timeline_counts_with_shares_that_move_where_the_device_can_move_them() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    folder
        .run(&format!(
            "set -e; mt-profile {workload} | mt-fit -o fixed-model
             sed 's/\"kind\":\"sim\"/\"kind\":\"cpu\"/g; s/\"simulated\":true/\"simulated\":false/' fixed-model > live-model
             mt-solve --rv 60 --outside fixed-model -o fixed; mt-overlap fixed -o fixed-timeline
             mt-solve --rv 60 --outside live-model -o live; mt-overlap live -o live-timeline
             mt-check fixed-timeline live-timeline"
        ))
        .assert_code(0);
    let makespan = |file: &str| {
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        match documents(&bytes).pop() {
            Some(Any::Timeline(timeline)) => timeline.makespan.get(),
            other => panic!("{other:?}"),
        }
    };
    let (live, fixed) = (makespan("live-timeline"), makespan("fixed-timeline"));
    assert!(live < 0.99 * fixed, "{live} s, {fixed} s with fixed shares");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    let whole =
        format!("mt-profile --seed 7 {workload} | mt-fit | mt-solve | mt-overlap | mt-launch");
    folder
        .run(&format!(
            "set -o pipefail; {whole} > a && {whole} > b && cmp a b"
        ))
        .assert_code(0);
}

#[test]
fn a_reader_that_leaves_ends_a_tool_quietly() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    folder
        .run(&format!(
            "set -e; mt-profile {workload} > 1; mt-fit 1 > 2; mt-solve 2 > 3; mt-overlap 3 > 4; mt-launch 4 > 5"
        ))
        .assert_code(0);
    for command in [
        &format!("mt-profile {workload}"),
        "mt-fit 1",
        "mt-solve 2",
        "mt-overlap 3",
        "mt-launch 4",
        "mt-report 1 2 3 4 5",
        "mt-check 1 2 3 4 5",
    ] {
        let out = folder.run(&format!(
            "{command} 2>messages | head -c 1; cat messages >&2"
        ));
        out.assert_code(0);
        assert!(!out.stderr.contains("panick"), "{command}: {}", out.stderr);
        assert!(!out.stderr.contains("ipe"), "{command}: {}", out.stderr);
    }
}

/// Two dozen tasks for which few draws of batch sizes fit into memory are planned within the profiled domain, each
/// tool within 256 MiB. With too little memory the answer at once says how much is needed.
#[test]
fn many_tasks_that_hardly_fit_are_planned_in_bounded_memory() {
    let folder = Folder::new();
    let task = |i: usize| {
        format!(
            r#"{{"id":"t{i}","model":"alexnet","batch_sizes":[16,32,64,128],"samples":5000,
            "memory":{{"fixed_bytes":800000000,"bytes_per_sample":6000000}}}}"#
        )
    };
    let tasks: Vec<String> = (0..24).map(task).collect();
    // 24 tasks at batch 32 need 23.8 GB of the 25.8 GB.
    let workload = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim","gpu":"rtx-3090"}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    std::fs::write(folder.path().join("workload"), workload).unwrap();
    // Each thread's arena reserves 64 MiB of addresses, which is not memory.
    let within = "export MALLOC_ARENA_MAX=1; ulimit -v 262144";
    folder
        .run(&format!(
            "set -e; {within}; mt-profile --budget 7 workload -o profile; mt-fit -q --method structured -o model profile
             mt-solve --objective raw -o plan model; mt-check plan"
        ))
        .assert_code(0);
    let bytes = std::fs::read(folder.path().join("plan")).unwrap();
    let Some(Any::Plan(plan)) = documents(&bytes).pop() else {
        panic!("no plan");
    };
    assert_eq!(plan.feasible().expect("a plan").decisions.len(), 24);
    let none = folder.run(&format!("{within}; mt-solve --memory 1000000 model > none"));
    none.assert_code(1);
    assert!(none.stderr.contains("memory of at least"), "{none:?}");
}

/// The reason that a plan gives for its choice, and its rivals, are recomputed.
#[test]
fn the_candidates_of_a_plan_cannot_be_altered_unnoticed() {
    let folder = Folder::new();
    // Two tasks, so that some co-run of all is among few measurements.
    let workload = r#"{"schema":"mt.workload/1","device":{"kind":"sim","gpu":"rtx-3090"},
        "link":{"down_bps":4e8,"up_bps":2e8},"tasks":[
        {"id":"alex","model":"alexnet","batch_sizes":[32,64],"samples":12000,
         "update_bytes":{"down":30000000,"up":20000000}},
        {"id":"mobile","model":"mobilenet_v3_large","batch_sizes":[32,64],"samples":9000,
         "update_bytes":{"down":15000000,"up":15000000}}]}"#;
    std::fs::write(folder.path().join("small.json"), workload).unwrap();
    for objective in ["raw", "round"] {
        let run = folder.run(&format!(
            "set -o pipefail; mt-profile --objective {objective} --budget 10 small.json | mt-fit | \
             mt-solve --objective {objective} --batch free > plan && mt-check plan"
        ));
        run.assert_code(0);
        let text = std::fs::read_to_string(folder.path().join("plan")).unwrap();
        let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
        let predicted = &plan["candidates"]["predicted"];
        let claimed = predicted["objective"]
            .as_f64()
            .expect("a predicted candidate");
        // The order of a round needs its own search, so its length is only known within bounds.
        let factors: &[f64] = match objective {
            "round" => &[0.3, 3.0],
            _ => &[0.999, 1.001],
        };
        for factor in factors {
            let mut lie = plan.clone();
            lie["candidates"]["predicted"]["objective"] = (claimed * factor).into();
            std::fs::write(folder.path().join("lie"), lie.to_string()).unwrap();
            let check = folder.run("mt-check lie");
            check.assert_code(1);
            let place = "candidates.predicted.objective";
            assert!(check.stdout.contains(place), "{}", check.stdout);
        }
        // Only where a task may stand still is there no lower end.
        let mut lie = plan.clone();
        let predicted = lie["candidates"]["predicted"].as_object_mut();
        predicted.expect("an object").remove("low_objective");
        std::fs::write(folder.path().join("lie"), lie.to_string()).unwrap();
        let check = folder.run("mt-check lie");
        check.assert_code(1);
        let place = "candidates.predicted.low_objective";
        assert!(check.stdout.contains(place), "{}", check.stdout);
    }
}
