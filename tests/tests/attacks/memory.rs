//! Memory is bounded: large documents are read as a stream, and a search without a solution does not list everything.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

use mt_tests::Folder;

/// Maximum memory of a tool for any input of 20 MB.
const MOST_KB: i64 = 256 << 10;
const LARGE: usize = 20 << 20;

/// Resources used by a line.
struct Used {
    peak_kb: i64,
    cpu_s: f64,
}

/// Runs the tool that the variables name and prints its peak memory and its processor time. This is a separate test
/// because the system gives the sums over all children of a process.
#[test]
#[ignore = "run by the test below"]
fn measured() {
    let line = std::env::var("MT_MEASURED").unwrap();
    let status = Command::new("sh").args(["-c", &line]).status().unwrap();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let ms = |time: TimeVal| time.num_milliseconds();
    println!(
        "code {} peak {} kB {} ms",
        status.code().unwrap(),
        usage.max_rss(),
        ms(usage.user_time()) + ms(usage.system_time())
    );
}

/// Resources used by a line that ends with `code`.
fn used(folder: &Folder, line: &str, code: i32) -> Used {
    let this = std::env::current_exe().unwrap();
    let out = folder.run(&format!(
        "MT_MEASURED='exec {line}' {} --exact memory::measured --ignored --nocapture",
        this.display()
    ));
    let heading = format!("code {code} peak ");
    let told = out
        .stdout
        .split(&heading)
        .nth(1)
        .unwrap_or_else(|| panic!("{out:#?}"));
    let mut words = told.split_whitespace();
    let (peak, ms) = (words.next().unwrap(), words.nth(1).unwrap());
    Used {
        peak_kb: peak.parse().unwrap(),
        cpu_s: ms.parse::<f64>().unwrap() / 1e3,
    }
}

#[test]
fn a_run_of_20_mb_is_judged_and_reported_within_256_mb() {
    let folder = Folder::new();
    // A job that reports every step, a thousand a second.
    let head = r#"{"schema":"mt.run/1","event":"#;
    let of_a = r#""round":0,"task":"a""#;
    let mut large = format!(
        "{head}\"launch\",\"time_s\":0,\"device\":{{\"kind\":\"cpu\",\"name\":\"two cores\",\
         \"simulated\":false}}}}\n{head}\"start\",\"time_s\":0,{of_a},\"pid\":11}}\n"
    );
    let mut step = 0;
    while large.len() < LARGE {
        step += 1;
        let time = f64::from(step) * 1e-3;
        writeln!(
            large,
            "{head}\"progress\",\"time_s\":{time},{of_a},\"samples\":{step},\"samples_per_s\":1000}}"
        )
        .unwrap();
    }
    let end = f64::from(step) * 1e-3;
    let summary =
        format!(r#""tasks":[{{"id":"a","finished":true,"samples":{step},"restarts":0,"code":0}}]"#);
    writeln!(large, "{head}\"exit\",\"time_s\":{end},{of_a},\"code\":0}}").unwrap();
    writeln!(
        large,
        "{head}\"summary\",\"time_s\":{end},\"ok\":true,\"makespan_s\":{end},{summary}}}"
    )
    .unwrap();
    fs::write(folder.path().join("large"), large).unwrap();
    for (line, code) in [
        ("mt-check large", 0),
        ("mt-report large -o report.txt", 0),
        ("mt-report large --format html -o report.html", 0),
        ("mt-report large --format csv -o report.csv", 0),
    ] {
        let peak = used(&folder, line, code).peak_kb;
        println!("{line}: {} MB", peak >> 10);
        assert!(peak < MOST_KB, "{line}: {} MB", peak >> 10);
    }
}

/// A trace contains every progress event: a quarter of the input above takes less than a quarter of the memory.
#[test]
fn a_trace_of_a_large_run_takes_little_more_than_the_run() {
    let folder = Folder::new();
    let head = r#"{"schema":"mt.run/1","event":"#;
    let mut large = format!(
        "{head}\"launch\",\"time_s\":0,\"device\":{{\"kind\":\"cpu\",\"name\":\"two cores\",\
         \"simulated\":false}},\"plan\":{{\"schema\":\"mt.plan/1\",\"tasks\":[{{\"id\":\"a\",\"batch\":8,\
         \"share_percent\":50}}]}}}}\n"
    );
    for step in 1.. {
        if large.len() > LARGE / 4 {
            break;
        }
        let time = f64::from(step) * 1e-3;
        writeln!(
            large,
            "{head}\"progress\",\"time_s\":{time},\"round\":0,\"task\":\"a\",\"samples\":{step},\
             \"samples_per_s\":1000}}"
        )
        .unwrap();
    }
    fs::write(folder.path().join("large"), large).unwrap();
    let line = "mt-report large --format perfetto -o report.json";
    let peak = used(&folder, line, 0).peak_kb;
    println!("{line}: {} MB", peak >> 10);
    assert!(peak < MOST_KB / 4, "{} MB", peak >> 10);
    let trace = fs::metadata(folder.path().join("report.json")).unwrap();
    assert!(trace.len() > 1_000_000, "{}", trace.len());
}

/// Processor seconds in which a document of 4 MB that is wrong everywhere is refused, in a debug build; it takes some
/// tenths.
const REFUSAL_S: f64 = 4.0;

#[test]
fn wrong_values_everywhere_in_4_mb_are_told_in_seconds() {
    const SIZE: usize = 4_000_000;
    let folder = Folder::new();
    for (name, task) in [
        ("a number for each", "1"),
        (
            "types",
            r#"{"id":1,"model":2,"batch_sizes":"x","samples":"y","memory":3,"job":[]}"#,
        ),
        (
            "ranges",
            r#"{"id":"a","model":"none","batch_sizes":[0],"samples":0,"update_bytes":{"down":-1,"up":-1}}"#,
        ),
        (
            "names",
            r#"{"idd":"a","modell":"alexnet","batchsizes":[0],"samplesx":0}"#,
        ),
        ("a list in a list", "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]"),
    ] {
        let tasks = vec![task; SIZE / (task.len() + 1)].join(",");
        let text =
            format!(r#"{{"schema":"mt.workload/1","device":{{"kind":"sim"}},"tasks":[{tasks}]}}"#);
        fs::write(folder.path().join("w"), text).unwrap();
        let Used { peak_kb, cpu_s } = used(&folder, "mt-profile w -o p", 2);
        println!("{name}: {} MB, {cpu_s} s", peak_kb >> 10);
        assert!(peak_kb < MOST_KB, "{name}: {} MB", peak_kb >> 10);
        assert!(cpu_s < REFUSAL_S, "{name}: {cpu_s} s");
        let told: usize = folder
            .run("mt-profile w -o p 2>&1 | wc -c")
            .stdout
            .trim()
            .parse()
            .unwrap();
        assert!(told < 100_000, "{name}: {told} bytes");
    }
}

/// Maximum seconds of an answer of [`tasks_that_do_not_fit_are_told_in_seconds_within_256_mb`], on a busy machine
/// with debug builds; it takes less than one.
const ANSWER_S: f64 = 10.0;

/// All share vectors of 8 tasks are 17 GB; without a feasible combination of batch sizes none is needed.
#[test]
fn tasks_that_do_not_fit_are_told_in_seconds_within_256_mb() {
    let folder = Folder::new();
    for tasks in 5..=8 {
        let models = gpusim::Network::CATALOGUE.iter().cycle().take(tasks);
        let task = |(i, model): (usize, &&str)| {
            format!(
                r#"{{"id":"t{i}","model":"{model}","batch_sizes":[16,32,64,128],"samples":20000,
                "memory":{{"fixed_bytes":800000000,"bytes_per_sample":12000000}}}}"#
            )
        };
        let all: Vec<String> = models.enumerate().map(task).collect();
        let workload = format!(
            r#"{{"schema":"mt.workload/1","device":{{"kind":"sim","gpu":"a100"}},"tasks":[{}]}}"#,
            all.join(",")
        );
        fs::write(folder.path().join("workload.json"), workload).unwrap();
        let fit = "mt-profile --budget 8 workload.json | mt-fit --method gp --quiet -o model.json";
        folder.run(fit).assert_code(0);
        for options in [
            "",
            " --pareto mismatch,fairness --mismatch 0.01 --floor 0.5",
        ] {
            let line = format!("mt-solve --memory 1000000{options} model.json -o plan.json");
            let Used { peak_kb, cpu_s } = used(&folder, &line, 1);
            println!("{tasks} tasks,{options}: {} MB, {cpu_s} s", peak_kb >> 10);
            assert!(peak_kb < MOST_KB, "{tasks} tasks: {} MB", peak_kb >> 10);
            assert!(cpu_s < ANSWER_S, "{tasks} tasks: {cpu_s} s");
        }
    }
}

/// The limit of 64 tasks applies while a document is read: for a million tasks, only the text is kept.
#[test]
fn a_million_tasks_are_refused_within_72_mb() {
    let folder = Folder::new();
    for (name, head, task) in [
        (
            "w",
            r#"{"schema":"mt.workload/1","device":{"kind":"sim"},"tasks":["#,
            r#"{"id":"a","model":"resnet18","batch_sizes":[64]}"#,
        ),
        (
            "p",
            r#"{"schema":"mt.plan/1","tasks":["#,
            r#"{"id":"a","batch":8,"share_percent":50}"#,
        ),
    ] {
        let tasks = vec![task; 1_000_000].join(",");
        fs::write(folder.path().join(name), format!("{head}{tasks}]}}")).unwrap();
    }
    for (line, code) in [
        ("mt-profile w -o out", 2),
        ("mt-check w", 2),
        ("mt-report w", 2),
        ("mt-report p", 2),
        ("mt-check p", 2),
        ("mt-launch p", 2),
        ("mt-overlap p", 2),
    ] {
        let peak = used(&folder, line, code).peak_kb;
        println!("{line}: {} MB", peak >> 10);
        assert!(peak < 72 << 10, "{line}: {} MB", peak >> 10);
    }
}
