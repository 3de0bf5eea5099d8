//! Messages for users who typed something wrong: every tool, every kind of error. The answers are in `messages.txt`,
//! a table of what was typed and what was shown; `BLESS=1` rewrites it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use mt_tests::Folder;

/// A tool, a document that it reads, and a misspelt member of that document.
const TOOLS: [(&str, &str, [&str; 2]); 12] = [
    ("mt run", "workload.json", ["batch_sizes", "batch_size"]),
    ("mt-profile", "workload.json", ["batch_sizes", "batch_size"]),
    ("mt-fit", "profile.ndjson", ["window_s", "windows_s"]),
    ("mt-solve", "model.json", ["predictor", "predictr"]),
    ("mt-overlap", "plan.json", ["throughput", "troughput"]),
    ("mt-launch", "plan.json", ["throughput", "troughput"]),
    ("mt-cluster plan", "cluster.json", ["arrival_s", "arival_s"]),
    (
        "mt-cluster online",
        "cluster.json",
        ["arrival_s", "arival_s"],
    ),
    (
        "mt-cluster run",
        "schedule.json",
        ["utilisation", "utilization"],
    ),
    (
        "mt-elastic --gpus 4 --strict",
        "events.ndjson",
        ["total_steps", "total_step"],
    ),
    ("mt-report", "timeline.json", ["makespan_s", "makspan_s"]),
    ("mt-check", "run.ndjson", ["time_s", "times_s"]),
];

/// Documents, from golden tests of a tool.
const DOCUMENTS: [(&str, &str); 9] = [
    ("workload.json", "mt-report/tests/cli/in/workload.json"),
    ("profile.ndjson", "mt-fit/tests/cli/in/few.ndjson"),
    ("model.json", "mt-solve/tests/cli/in/model.json"),
    ("plan.json", "mt-report/tests/cli/in/plan.json"),
    ("timeline.json", "mt-report/tests/cli/in/timeline.json"),
    ("run.ndjson", "mt-report/tests/cli/in/run.ndjson"),
    ("cluster.json", "mt-cluster/tests/cli/in/three.json"),
    ("schedule.json", "mt-launch/tests/cli/in/schedule.json"),
    ("events.ndjson", "mt-elastic/tests/cli/in/two.ndjson"),
];

/// Options, values and commands that are nearly right, and commands without what they need.
const USAGE: [&str; 26] = [
    "mt",
    "mt rnu",
    "mt slove model.json",
    "mt help slove",
    "mt run --budgte 4",
    "mt try --seconds -1 true",
    "mt init --devise cpu",
    "mt init --gpu a10",
    "mt-profile --buget 3 workload.json",
    "mt-profile --objective rawr workload.json",
    "mt-fit --methd gp profile.ndjson",
    "mt-solve --objectiv raw model.json",
    "mt-solve --seed 0.5 model.json",
    "mt-overlap --batch-dela 0 plan.json",
    "mt-launch --dry-rnu plan.json",
    "mt-launch exce --share 60 -- true",
    "mt-launch envv plan.json",
    "mt-launch exec --share 60",
    "mt-launch env --task zz plan.json",
    "mt-cluster pln cluster.json",
    "mt-cluster plan --polcy all cluster.json",
    "mt-elastic events.ndjson",
    "mt-elastic --gpu 4 events.ndjson",
    "mt-report --fromat html plan.json",
    "mt-check --explian E201",
    "mt-worker --thread 2",
];

fn folder() -> Folder {
    let folder = Folder::new();
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools");
    for (name, from) in DOCUMENTS {
        fs::copy(tools.join(from), folder.path().join(name)).expect("a file of the test");
    }
    fs::create_dir(folder.path().join("folder")).expect("a file of the test");
    fs::write(folder.path().join("empty"), "").expect("a file of the test");
    fs::write(
        folder.path().join("half.json"),
        "{\"schema\":\"mt.plan/1\",\n",
    )
    .expect("a file of the test");
    fs::write(folder.path().join("secret"), "{}").expect("a file of the test");
    folder
}

/// Types a line with a prefix that is not shown, and records the output. It must be refused, say so only on standard
/// error with the tool's name, and leave the folder unchanged.
fn typed(folder: &Folder, page: &mut String, prefix: &str, line: &str) {
    let listed = |when: &str| {
        let all = folder.run("ls -AR");
        assert_eq!(all.code, Some(0), "{when} {line}");
        all.stdout
    };
    let before = listed("before");
    let ran = folder.run(&format!("{prefix} timeout 60 {line} </dev/null"));
    let code = ran.code.expect("no signal ends it");
    assert!((1..=3).contains(&code), "{ran:#?}");
    assert_eq!(ran.stdout, "", "{ran:#?}");
    let tool = line.split(' ').next().unwrap_or_default();
    assert!(
        ran.stderr.contains(&format!("{tool}: ")) || tool == "mt",
        "{ran:#?}"
    );
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
    assert_eq!(listed("after"), before, "{line} has left something");
    let here = fs::canonicalize(folder.path()).expect("a file of the test");
    let told = ran.stderr.replace(&here.display().to_string(), "$PWD");
    writeln!(page, "\n$ {line}\n{told}exit {code}").expect("a string takes it");
}

/// One part of the page: a heading, and each tool's answer.
fn part(heading: &str, each: impl FnOnce(&mut String)) -> String {
    let mut page = format!("== {heading}\n");
    each(&mut page);
    page
}

/// Each tool's answer to the words that `of` makes from the tool and its document.
fn tools(folder: &Folder, heading: &str, of: impl Fn(&str, &str) -> String) -> String {
    part(heading, |page| {
        for (tool, document, _) in TOOLS {
            typed(folder, page, "", &of(tool, document));
        }
    })
}

fn wrong_documents(folder: &Folder) -> String {
    let misspelt = "{\n \"schema\": \"mt.plam/1\"\n}\n";
    fs::write(folder.path().join("plam.json"), misspelt).expect("a file of the test");
    part("The document of another tool", |page| {
        for (tool, document, _) in TOOLS {
            let wrong = match tool {
                "mt-report" | "mt-check" => "plam.json",
                _ if document == "plan.json" => "model.json",
                _ => "plan.json",
            };
            typed(folder, page, "", &format!("{tool} {wrong}"));
        }
        typed(folder, page, "", "mt-elastic --gpus 4 plan.json");
        typed(folder, page, "", "mt-overlap plam.json");
        typed(
            folder,
            page,
            "",
            "mt-launch exec --plan model.json --task a -- true",
        );
        typed(folder, page, "", "mt-fit --test plan.json profile.ndjson");
    })
}

fn misspelt_keys(folder: &Folder) -> String {
    part("A misspelt key", |page| {
        for (tool, document, [key, typo]) in TOOLS {
            let path = folder.path().join(document);
            let text = fs::read_to_string(&path).expect("a file of the test");
            let wrong = text.replacen(&format!("\"{key}\""), &format!("\"{typo}\""), 1);
            assert_ne!(wrong, text, "{document} has no {key}");
            fs::write(folder.path().join("typo"), wrong).expect("a file of the test");
            typed(folder, page, "", &format!("{tool} typo"));
            assert!(page.contains(&format!("did you mean {key:?}?")), "{page}");
        }
    })
}

/// File modes also stop root if it has no right to override them; `None` if that is not possible here.
fn permissions(folder: &Folder) -> Option<String> {
    assert_eq!(folder.run("chmod 0 secret; chmod 555 folder").code, Some(0));
    let held = "setpriv --bounding-set=-dac_override,-dac_read_search";
    let prefix = ["", held].into_iter().find(|prefix| {
        folder
            .run(&format!("{prefix} cat secret 2>&1"))
            .stdout
            .contains("denied")
    });
    let Some(prefix) = prefix else {
        testkit::skipped("permissions", "modes do not stop this user");
        return None;
    };
    Some(part("No permission to read, or to write", |page| {
        for (tool, document, _) in TOOLS {
            typed(folder, page, prefix, &format!("{tool} secret"));
            typed(
                folder,
                page,
                prefix,
                &format!("{tool} {document} -o folder/out"),
            );
        }
        typed(folder, page, prefix, "mt init -o folder/out");
    }))
}

/// On a terminal without piped input, where the user types Ctrl-D; `None` without script(1).
fn terminals(folder: &Folder) -> Option<String> {
    if folder.run("script --version").code != Some(0) {
        testkit::skipped("script", "there is no script(1) to make a terminal");
        return None;
    }
    Some(part("Nothing piped in, on a terminal", |page| {
        for (tool, _, _) in TOOLS {
            if tool == "mt run" {
                continue;
            }
            let line = format!("TERM=dumb timeout 60 script -qec '{tool}' /dev/null </dev/null");
            let ran = folder.run(&line);
            assert_eq!(ran.code, Some(2), "{ran:#?}");
            let told = ran.stdout.replace("\r\n", "\n").replace("^D\u{8}\u{8}", "");
            assert!(told.contains("from the terminal"), "{ran:#?}");
            writeln!(page, "\n$ {tool}\n{told}exit 2").expect("a string takes it");
        }
    }))
}

#[test]
fn what_was_typed_and_what_is_seen() {
    let folder = folder();
    let parts = [
        Some(wrong_documents(&folder)),
        Some(misspelt_keys(&folder)),
        Some(tools(&folder, "A file that is not there", |tool, _| {
            format!("{tool} nothing.json")
        })),
        Some(tools(&folder, "A folder as input", |tool, _| {
            format!("{tool} folder")
        })),
        Some(tools(&folder, "An empty file", |tool, _| {
            format!("{tool} empty")
        })),
        Some(tools(&folder, "Half a document", |tool, _| {
            format!("{tool} half.json")
        })),
        Some(tools(
            &folder,
            "An output in a folder that is not there",
            |tool, file| format!("{tool} {file} -o none/out"),
        )),
        Some(tools(&folder, "A folder as output", |tool, file| {
            format!("{tool} {file} -o folder")
        })),
        Some(tools(&folder, "A misspelt option", |tool, _| {
            format!("{tool} --otput x")
        })),
        Some(part("Misspelt commands, options and values", |page| {
            for line in USAGE {
                typed(&folder, page, "", line);
            }
        })),
        terminals(&folder),
        permissions(&folder),
    ];
    compare(&parts);
}

/// Compares with the page of this folder; a part that was skipped is kept.
fn compare(parts: &[Option<String>]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/messages.txt");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let mut known = text.split_inclusive("\n\n\n");
    let page: String = parts
        .iter()
        .map(|part| match (part, known.next()) {
            (Some(part), _) => format!("{part}\n\n"),
            (None, old) => old.unwrap_or_default().to_owned(),
        })
        .collect();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &page).expect("a file of the test");
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    let mut lines = known.lines().zip(page.lines()).enumerate();
    let other = lines.find(|(_, (known, seen))| known != seen);
    assert_eq!(
        other, None,
        "line of messages.txt, and what is seen; BLESS=1 rewrites it"
    );
    assert_eq!(known.len(), page.len(), "messages.txt is longer or shorter");
}
