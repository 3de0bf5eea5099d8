//! What was seen in a cell.

use std::fmt;
use std::fs;
use std::path::Path;

/// Files up to this size are a part of what is seen.
const MOST_SHOWN: u64 = 6000;

/// Names of the inputs, which are not a part of what is seen.
const INPUTS: [&str; 8] = [
    "job.sh",
    "save.py",
    "plan.json",
    "workload.json",
    "schedule.json",
    "old.ndjson",
    "home",
    "tmp",
];

/// What was seen in a cell.
#[derive(Debug)]
pub struct Seen {
    /// The words that the row gave.
    pub given: &'static str,
    /// Exit code; after a signal 128 and its number, as in a shell.
    pub code: Option<i32>,
    /// Standard error.
    pub stderr: String,
    /// Standard output and error, and the names and contents of the files.
    pub text: String,
    /// Seconds from the act, or from the start, to the end.
    pub took: f64,
    /// It was still running when patience ended.
    pub late: bool,
    /// Processes that it left.
    pub left: Vec<String>,
}

impl Seen {
    /// How it ended, and its last line.
    pub fn end(&self) -> String {
        let code = self
            .code
            .map_or("a signal".to_owned(), |code| format!("code {code}"));
        let last: String = self
            .stderr
            .lines()
            .rfind(|l| !l.contains("note: "))
            .unwrap_or_default()
            .chars()
            .take(120)
            .collect();
        format!("{code} ({last})")
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    took {:.1} s, {}", self.took, self.end())?;
        self.text
            .lines()
            .try_for_each(|line| writeln!(f, "    | {line}"))
    }
}

/// Adds the names and contents of the files in a folder.
pub fn show(root: &Path, folder: &Path, text: &mut String) {
    let Ok(all) = fs::read_dir(folder) else {
        return;
    };
    for entry in all.flatten() {
        let path = entry.path();
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        if INPUTS.contains(&name.as_str()) {
            continue;
        }
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            text.push_str(&format!("folder: {name}\n"));
            show(root, &path, text);
        } else if kind.is_file() {
            text.push_str(&format!("file: {name}\n"));
            if entry.metadata().is_ok_and(|m| m.len() <= MOST_SHOWN) {
                let bytes = fs::read(&path).unwrap_or_default();
                text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }
}
