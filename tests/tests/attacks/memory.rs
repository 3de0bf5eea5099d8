//! Large documents are read as a stream: memory does not grow with them without bound.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};

use mt_tests::Folder;

/// What a tool may take for any input of 20 MB.
const MOST_KB: i64 = 256 << 10;
const LARGE: usize = 20 << 20;

/// Runs the tool that the variables name and prints its peak of memory. A test for itself alone,
/// because the system gives the peak of all children of a process.
#[test]
#[ignore = "run by the test below"]
fn measured() {
    let line = std::env::var("MT_MEASURED").unwrap();
    let status = Command::new("sh").args(["-c", &line]).status().unwrap();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    println!(
        "code {} peak {} kB",
        status.code().unwrap(),
        usage.max_rss()
    );
}

/// Peak of memory, kB, of a line that ends with `code`.
fn peak(folder: &Folder, line: &str, code: i32) -> i64 {
    let this = std::env::current_exe().unwrap();
    let out = folder.run(&format!(
        "MT_MEASURED='exec {line}' {} --exact memory::measured --ignored --nocapture",
        this.display()
    ));
    let told = format!("code {code} peak ");
    let peak = out.stdout.split(&told).nth(1);
    let peak = peak.unwrap_or_else(|| panic!("{out:#?}"));
    peak.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_run_of_20_mb_is_judged_and_reported_within_256_mb() {
    let folder = Folder::new();
    // A job that tells of every step, a thousand a second.
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
        let peak = peak(&folder, line, code);
        println!("{line}: {} MB", peak >> 10);
        assert!(peak < MOST_KB, "{line}: {} MB", peak >> 10);
    }
}
