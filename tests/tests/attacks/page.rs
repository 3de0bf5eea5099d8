//! `tests/attacks.md`: every attack of the suites, made from their sources.

#[path = "../mutants/exempt/table.rs"]
mod table;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use table::EXEMPT;

/// The suites, with what their attacks are aimed at.
const SUITES: [(&str, &str); 12] = [
    (
        "tests/tests/attacks",
        "What a user has, and the tools' ends",
    ),
    (
        "tests/tests/suite/bad_input.rs",
        "Hostile input of every tool",
    ),
    (
        "tests/tests/mutants",
        "Documents in which one field is altered",
    ),
    (
        "tests/tests/crash",
        "Writers that stop at every system call",
    ),
    ("tools/mt-launch/tests/faults", "The launcher and its jobs"),
    ("tools/mt-profile/tests/suite", "The profiler and its jobs"),
    (
        "shared/launch/tests/simulation",
        "Rounds on a host that misbehaves by a seed",
    ),
    (
        "shared/host/tests/suite",
        "Hosts, and faults of their devices",
    ),
    ("shared/device/tests", "Workers that are measured"),
    ("shared/jobs/tests/suite", "Processes, protocol and MPS"),
    (
        "shared/jobs/src",
        "Whose processes and folders are touched, parsers",
    ),
    (
        "shared/doc/tests",
        "Documents: round trips, hostile and random input",
    ),
];

const HEAD: &str = "# Attacks

Everything that is tried against the tools by a test. A row is a test: what is tried and what is
expected is its name, with its remark where it has one; the test passes only if that is what came.
`make test` runs all rows (those that need control groups, a compiler for the fake GPU or a terminal
say `skipped` where there is none), `make test-faults`, `make hostile` and `make soak` the long forms. This page is
made from the suites (`BLESS=1 cargo test -p mt-tests --test attacks page`), and a test fails if it
is not fresh.
";

const EXEMPTED: &str = "## What may be altered unnoticed

Every field of every document is altered in turn (`tests/tests/mutants`); reader or `mt-check` refuse it,
but where one of these rows stands: a document, part of the place, what was done to it.

| document | place | alteration | why |
|---|---|---|---|
";

/// The Rust files of a suite, sorted.
fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    found.sort();
    let all = found.iter().flat_map(|p| match p.is_dir() {
        true => sources(p),
        false => vec![p.clone()],
    });
    all.filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .collect()
}

/// Name in words and remark of each test of a file.
fn tests(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut remark = String::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("///") {
            remark = format!("{remark} {}", more.trim()).trim().to_owned();
        } else if line == "#[test]" {
            is_test = true;
        } else if line.starts_with("#[") {
            // The test that another one starts.
            is_test &= !line.starts_with("#[ignore");
        } else {
            let name = line.strip_prefix("fn ").and_then(|l| l.split('(').next());
            if let (true, Some(name)) = (is_test, name) {
                found.push((name.replace('_', " "), std::mem::take(&mut remark)));
            }
            remark.clear();
            is_test = false;
        }
    }
    found
}

fn page(root: &Path) -> String {
    let mut page = HEAD.to_owned();
    let mut all = 0;
    for (path, aim) in SUITES {
        write!(page, "\n## {aim}\n\n").unwrap();
        for file in sources(&root.join(path)) {
            let text = fs::read_to_string(&file).unwrap();
            let rows = tests(&text);
            let shown = file.strip_prefix(root).unwrap().display().to_string();
            if !rows.is_empty() {
                write!(page, "`{shown}`\n\n").unwrap();
            }
            all += rows.len();
            for (name, remark) in &rows {
                let remark = if remark.is_empty() {
                    String::new()
                } else {
                    format!(": {remark}")
                };
                writeln!(page, "- {name}{remark}").unwrap();
            }
            if !rows.is_empty() {
                page.push('\n');
            }
        }
        page.truncate(page.trim_end().len());
        page.push('\n');
    }
    write!(page, "\n{all} tests.\n\n{EXEMPTED}").unwrap();
    for (document, part, kind, reason) in EXEMPT {
        let cell = |text: &str| match text {
            "" => "any".to_owned(),
            text => format!("`{text}`"),
        };
        let (document, part, kind) = (cell(document), cell(part), cell(kind));
        writeln!(page, "| {document} | {part} | {kind} | {reason} |").unwrap();
    }
    page
}

#[test]
fn the_page_of_attacks_is_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = root.join("tests/attacks.md");
    let page = page(root);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let stands = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stands == page,
        "tests/attacks.md is not what the suites say; \
         run BLESS=1 cargo test -p mt-tests --test attacks page"
    );
}

#[test]
fn tests_are_found_with_their_remarks() {
    let text = "/// Of something else.\nstruct X;\n\n/// In two\n/// lines.\n#[test]\nfn it_holds() {}\n\
                #[test]\n#[ignore = \"x\"]\nfn helper() {}\n#[test]\nfn second() {\n}\nfn third() {}\n";
    let found = tests(text);
    let row = |name: &str, remark: &str| (name.to_owned(), remark.to_owned());
    assert_eq!(found, [row("it holds", "In two lines."), row("second", "")]);
}
