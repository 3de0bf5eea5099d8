//! Terminal contents after tables and bars are redrawn: nothing twice, no broken line.

use std::fmt::Write as _;
use std::fs;
use std::num::NonZero;

use mt_tests::Folder;

/// A plan of jobs of three seconds on processors, with names of realistic length.
fn plan(tasks: usize) -> String {
    let script = r#"echo '{\"mt\":\"ready\"}'; for i in 1 2 3 4 5 6; do sleep 0.5; echo '{\"mt\":\"step\",\"samples\":10,\"loss\":1.25}'; done"#;
    let (mut planned, mut known) = (Vec::new(), Vec::new());
    for i in 0..tasks {
        let id = format!("densenet-on-cifar-100-{i:02}");
        planned.push(format!(
            r#"{{"id":"{id}","batch":10,"share_percent":50,"samples":60}}"#
        ));
        known.push(format!(
            r#"{{"id":"{id}","batch_sizes":[10],"job":{{"argv":["sh","-c","{script}"]}}}}"#
        ));
    }
    format!(
        r#"{{"schema":"mt.plan/1","tasks":[{}],"workload":{{"schema":"mt.workload/1","device":{{"kind":"cpu"}},"tasks":[{}]}}}}"#,
        planned.join(","),
        known.join(",")
    )
}

/// The lines of a terminal and those that have scrolled off, after a line of sh; `None` if there can be no terminal,
/// or the tool ends because the machine does not support it.
fn lines(folder: &Folder, line: &str, rows: u16, columns: u16, term: &str) -> Option<Vec<String>> {
    fs::write(
        folder.path().join("line"),
        format!("stty cols {columns} rows {rows}; {line}"),
    )
    .expect("a file of the test");
    let ran = folder.run(&format!(
        "TERM={term} timeout 60 script -qec 'sh line' typescript </dev/null >/dev/null"
    ));
    match ran.code {
        Some(0) => {}
        Some(3) => {
            testkit::skipped("cgroups", "no control group can be made");
            return None;
        }
        Some(127) => {
            testkit::skipped("script", "there is no script(1) to make a terminal");
            return None;
        }
        _ => panic!("{ran:#?}"),
    }
    let typed = fs::read(folder.path().join("typescript")).expect("a file of the test");
    // The first line is script(1)'s own message, and moves no terminal to its next line.
    let typed = typed.splitn(2, |b| *b == b'\n').last().unwrap_or_default();
    let size = |n| NonZero::new(n).expect("a size");
    let mut terminal = vt100::Parser::new(size(rows), size(columns), 10_000);
    terminal.process(typed);
    let screen = terminal.screen_mut();
    screen.set_scrollback(usize::MAX);
    let gone = screen.scrollback();
    let mut all = Vec::new();
    for offset in (1..=gone).rev() {
        screen.set_scrollback(offset);
        all.extend(screen.rows(0, columns).next());
    }
    screen.set_scrollback(0);
    all.extend(screen.rows(0, columns));
    // So is the last.
    all.retain(|line| !line.starts_with("Script ") && !line.is_empty());
    Some(all)
}

fn times(lines: &[String], word: &str) -> usize {
    lines.iter().filter(|line| line.contains(word)).count()
}

#[test]
fn the_live_table_of_a_launch_stands_once() {
    let folder = Folder::new();
    fs::write(folder.path().join("plan"), plan(2)).expect("a file of the test");
    for (rows, columns) in [(24, 80), (50, 200)] {
        let line = "mt-launch --keep-shares plan --force -o run";
        let Some(seen) = lines(&folder, line, rows, columns, "xterm") else {
            return;
        };
        let page = seen.join("\n");
        assert_eq!(times(&seen, "round 0"), 1, "{columns} columns:\n{page}");
        assert_eq!(times(&seen, "60/60"), 2, "{columns} columns:\n{page}");
        // At 200 columns a name is on one line.
        let whole = times(&seen, "densenet-on-cifar-100-01");
        assert!(columns == 80 || whole == 1, "{page}");
    }
}

#[test]
fn a_table_that_is_higher_than_the_terminal_stands_once() {
    let folder = Folder::new();
    fs::write(folder.path().join("plan"), plan(12)).expect("a file of the test");
    let line = "mt-launch --keep-shares plan -o run";
    let Some(seen) = lines(&folder, line, 10, 120, "xterm") else {
        return;
    };
    let page = seen.join("\n");
    assert_eq!(times(&seen, "round 0"), 1, "{page}");
    assert_eq!(times(&seen, "more lines"), 1, "{page}");
}

#[test]
fn a_dumb_terminal_gets_no_table() {
    let folder = Folder::new();
    fs::write(folder.path().join("plan"), plan(1)).expect("a file of the test");
    let line = "mt-launch plan -o run";
    let Some(seen) = lines(&folder, line, 24, 80, "dumb") else {
        return;
    };
    let page = seen.join("\n");
    assert_eq!(times(&seen, "round 0"), 0, "{page}");
    assert!(!page.contains('\u{1b}'), "{page}");
}

#[test]
fn the_bar_of_a_profile_gives_way_to_what_was_found() {
    let folder = Folder::new();
    let mut tasks = String::new();
    for model in ["resnet18", "vgg16", "mobilenet_v3_large"] {
        write!(
            tasks,
            r#"{{"id":"{model}-with-a-name-that-is-long","model":"{model}","batch_sizes":[32,64]}},"#
        )
        .expect("a string takes it");
    }
    let tasks = tasks.trim_end_matches(',');
    let workload =
        format!(r#"{{"schema":"mt.workload/1","device":{{"kind":"sim"}},"tasks":[{tasks}]}}"#);
    fs::write(folder.path().join("workload.json"), workload).expect("a file of the test");
    for (rows, columns) in [(24, 80), (50, 200)] {
        let line = "mt-profile --budget 16 workload.json --force -o profile";
        let Some(seen) = lines(&folder, line, rows, columns, "xterm") else {
            return;
        };
        let page = seen.join("\n");
        assert_eq!(times(&seen, "measuring"), 0, "{columns} columns:\n{page}");
        assert_eq!(times(&seen, "left"), 0, "{columns} columns:\n{page}");
        assert_eq!(times(&seen, "best so far"), 1, "{columns} columns:\n{page}");
    }
}

/// `mt top` uses the whole terminal, shows the state of each task and the keys, obeys them, and restores the
/// terminal.
#[test]
fn a_run_is_watched_until_a_key_ends_it() {
    let folder = Folder::new();
    let event = |rest: &str| format!(r#"{{"schema":"mt.run/1",{rest}}}"#) + "\n";
    let run = [
        r#""event":"launch","time_s":0,"device":{"kind":"cpu","name":"two cores","simulated":false,"units":2}"#,
        r#""event":"start","time_s":0.1,"round":0,"task":"digits","batch":8,"share_percent":60,"predicted_samples_per_s":50"#,
        r#""event":"progress","time_s":11,"round":0,"task":"digits","samples":400,"samples_per_s":40,"loss":0.25"#,
    ];
    let text: String = run.into_iter().map(event).collect();
    fs::write(folder.path().join("run"), text).expect("a file of the test");
    for (rows, columns) in [(24, 80), (10, 60)] {
        let line = format!("stty cols {columns} rows {rows}; mt top run; echo code $?");
        fs::write(folder.path().join("line"), line).expect("a file of the test");
        let ran = folder.run(
            "(sleep 2; printf jkeq) | TERM=xterm timeout 60 script -qec 'sh line' typed >/dev/null",
        );
        if ran.code == Some(127) {
            return testkit::skipped("script", "there is no script(1) to make a terminal");
        }
        let bytes = fs::read(folder.path().join("typed")).expect("a file of the test");
        let typed = String::from_utf8_lossy(&bytes);
        // The alternate screen of the terminal, which it leaves at the end.
        let (screen, after) = typed.split_once("\u{1b}[?1049l").expect(&typed);
        let (_, screen) = screen.split_once("\u{1b}[?1049h").expect(&typed);
        let size = |n| NonZero::new(n).expect("a size");
        let mut terminal = vt100::Parser::new(size(rows), size(columns), 0);
        terminal.process(screen.as_bytes());
        let seen = terminal.screen().contents();
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines[0], "run: round 1, 11s", "{seen}");
        assert!(seen.contains("processors busy"), "{seen}");
        assert!(
            (seen.contains("digits training") && seen.contains("60 %") && seen.contains("80 %"))
                || columns < 80,
            "{seen}"
        );
        let last = lines.last().expect("lines");
        assert_eq!(lines.len(), usize::from(rows), "{seen}");
        assert!(last.starts_with("q quit"), "{seen}");
        assert!(
            after.contains("\u{1b}[?25h") && after.contains("code 0"),
            "{after}"
        );
    }
}
