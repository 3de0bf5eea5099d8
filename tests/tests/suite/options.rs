//! Every option of every tool changes an output, or is refused, or is used by a named test, or is exempt by name with
//! a reason: `options.txt`. The list of options is clap's own, from the completion scripts. Every option is also named
//! where its reader looks: in a page, an example or the Makefile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use mt_tests::{Folder, Ran};

const CASES: &str = include_str!("options.txt");

const TOOLS: [&str; 11] = [
    "mt",
    "mt-profile",
    "mt-fit",
    "mt-solve",
    "mt-overlap",
    "mt-elastic",
    "mt-launch",
    "mt-worker",
    "mt-check",
    "mt-report",
    "mt-cluster",
];

/// Options of every tool, which the tests of `cli` cover.
const COMMON: [&str; 4] = ["--help", "--version", "--completions", "--man"];

/// Options that a tool gives itself when it starts its own program again.
const HIDDEN: [&str; 2] = ["--guard", "--serve"];

/// Folder of a case, and the tool whose inputs it has.
const INPUTS: [(&str, &str); 9] = [
    ("p", "mt-profile"),
    ("f", "mt-fit"),
    ("s", "mt-solve"),
    ("o", "mt-overlap"),
    ("c", "mt-check"),
    ("r", "mt-report"),
    ("e", "mt-elastic"),
    ("l", "mt-launch"),
    ("u", "mt-cluster"),
];

/// Requirement for one option.
#[derive(Debug)]
enum Case {
    /// The lines print different things.
    Changes(String, String),
    /// The line ends with exit code 2.
    Refused(String),
    /// A test, this file of the workspace, uses it.
    Tested(String),
    /// The reason.
    Exempt,
}

/// Cases by tool, with its verb, and option.
fn cases() -> BTreeMap<(String, String), Case> {
    let mut all = BTreeMap::new();
    let (mut tool, mut base) = (String::new(), String::new());
    for line in CASES.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(head) = line.strip_prefix("@ ") {
            let (name, line) = head.split_once(" = ").unwrap_or((head, ""));
            (tool, base) = (name.to_owned(), line.to_owned());
            continue;
        }
        let (option, rest) = line.split_once(' ').unwrap_or((line, ""));
        let case = if let Some(lines) = rest.strip_prefix("= ") {
            let (one, other) = lines.split_once(" ==> ").expect(line);
            Case::Changes(one.to_owned(), other.to_owned())
        } else if let Some(line) = rest.strip_prefix("refused ") {
            Case::Refused(line.to_owned())
        } else if let Some(rest) = rest.strip_prefix("tested ") {
            Case::Tested(rest.split(' ').next().unwrap_or(rest).to_owned())
        } else if rest.starts_with("exempt ") {
            Case::Exempt
        } else {
            // A value may come with the short form.
            let given = match rest.starts_with('-') {
                true => rest.to_owned(),
                false => format!("{option} {rest}"),
            };
            Case::Changes(base.replace('%', ""), base.replace('%', &given))
        };
        let known = all.insert((tool.clone(), option.to_owned()), case);
        assert!(known.is_none(), "{tool} {option} stands there twice");
    }
    all
}

/// Options by tool and verb, as the completion script of bash lists them.
fn options(folder: &Folder, tool: &str) -> Vec<(String, String)> {
    let ran = folder.run(&format!("{tool} --completions bash"));
    ran.assert_code(0);
    let mut all = Vec::new();
    let mut label = String::new();
    for line in ran.stdout.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix(')').filter(|n| !n.contains(' ')) {
            let own = format!("{}__subcmd__", tool.replace('-', "__subcmd__"));
            let verb = name.strip_prefix(&own);
            label = verb.map_or(tool.to_owned(), |verb| format!("{tool} {verb}"));
        }
        let Some(list) = line.strip_prefix("opts=\"") else {
            continue;
        };
        let long = list
            .trim_end_matches('"')
            .split(' ')
            .filter(|o| o.starts_with("--") && !COMMON.contains(o));
        all.extend(long.map(|o| (label.clone(), o.to_owned())));
    }
    all
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Whether a test names the option itself, not a longer one with the same beginning.
fn uses(text: &str, option: &str) -> bool {
    let after = |part: &str| !part.starts_with(|c: char| c.is_alphanumeric() || c == '-');
    text.split(option).skip(1).any(after)
}

fn with_inputs() -> Folder {
    let folder = Folder::new();
    let root = root();
    for (name, tool) in INPUTS {
        let inputs = root.join("tools").join(tool).join("tests/cli/in");
        folder
            .run(&format!("cp -r '{}' {name}", inputs.display()))
            .assert_code(0);
    }
    folder
}

fn play(line: &str) -> Ran {
    with_inputs().run(line)
}

/// The error, if any.
fn fault(tool: &str, option: &str, case: &Case) -> Option<String> {
    let shown = |ran: &Ran| format!("{:?} {}{}", ran.code, ran.stdout, ran.stderr);
    match case {
        Case::Exempt => None,
        Case::Tested(file) => {
            let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            (!uses(&text, option)).then(|| format!("{tool} {option}: {file} does not use it"))
        }
        Case::Refused(line) => {
            let ran = play(line);
            (ran.code != Some(2))
                .then(|| format!("{tool} {option} is not refused: {}", shown(&ran)))
        }
        Case::Changes(one, other) => {
            let (one, other) = (play(one), play(other));
            // Usage errors and panics would differ from any output.
            let acts = matches!(other.code, Some(0 | 1));
            let differs = (one.code, &one.stdout) != (other.code, &other.stdout);
            if !acts {
                return Some(format!("{tool} {option}: {other:?}"));
            }
            (!differs).then(|| format!("{tool} {option} changes nothing: {}", shown(&one)))
        }
    }
}

#[test]
fn every_option_acts_or_is_refused() {
    let folder = Folder::new();
    let cases = cases();
    let listed: Vec<(String, String)> = TOOLS
        .iter()
        .flat_map(|tool| options(&folder, tool))
        .collect();
    let mut faults: Vec<String> = listed
        .iter()
        .filter(|o| !cases.contains_key(o))
        .map(|(tool, option)| format!("options.txt has no case for {tool} {option}"))
        .collect();
    let gone = cases.keys().filter(|key| !listed.contains(key));
    faults.extend(gone.map(|(tool, option)| format!("{tool} has no {option} (any more)")));
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let all: Vec<_> = cases.iter().collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(((tool, option), case)) =
                    all.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let fault = fault(tool, option, case);
                    found.lock().unwrap().extend(fault);
                }
            });
        }
    });
    faults.extend(found.into_inner().unwrap());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The text of what a reader looks at beside `--help`: pages, examples with their scripts, and the Makefile.
fn read_by_people(path: &Path, text: &mut String) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        // What examples measured or built says nothing about how to use an option.
        if name == "out" || name == "target" || name.starts_with('.') || path.is_symlink() {
            return;
        }
        for entry in std::fs::read_dir(path).expect("a folder of the project") {
            read_by_people(&entry.expect("an entry").path(), text);
        }
    } else if name == "Makefile" || [".md", ".sh", ".py"].iter().any(|end| name.ends_with(end)) {
        *text += &std::fs::read_to_string(path).unwrap_or_default();
    }
}

#[test]
fn every_option_is_named_in_a_page_an_example_or_the_makefile() {
    let folder = Folder::new();
    let mut text = String::new();
    for name in ["README.md", "Makefile", "docs", "examples"] {
        read_by_people(&root().join(name), &mut text);
    }
    let all = TOOLS.iter().flat_map(|tool| options(&folder, tool));
    let shown = all.filter(|(_, option)| !HIDDEN.contains(&option.as_str()));
    let unnamed: Vec<String> = shown
        .filter(|(_, option)| !uses(&text, option))
        .map(|(tool, option)| format!("{tool} {option} stands in no page, example or Makefile"))
        .collect();
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n"));
}
