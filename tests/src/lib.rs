//! Pipelines across the tools: the tests are in this crate's folder tests. Here are a folder to work in with the
//! tools of this build on PATH, and functions that alter and read documents.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use doc::{Any, AnyDocuments, Frames};
use serde_json::Value;

/// A temporary folder in which shell lines run with the tools of this build on PATH.
pub struct Folder {
    folder: tempfile::TempDir,
}

/// Result of a shell line.
#[derive(Debug)]
pub struct Ran {
    /// The line.
    pub line: String,
    /// Exit code; absent after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Folder {
    /// Makes an empty folder; the tools must have been built (`cargo build --workspace --bins`).
    #[must_use]
    pub fn new() -> Self {
        let launch = tools().join("mt-launch");
        assert!(
            launch.exists(),
            "{} is missing; run `cargo build --workspace --bins` first",
            launch.display()
        );
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a line of bash in the folder.
    #[must_use]
    pub fn run(&self, line: &str) -> Ran {
        let mut path = OsString::from(tools());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let output = Command::new("bash")
            .args(["-c", line])
            .current_dir(self.path())
            .env("PATH", path)
            .output()
            .expect("bash starts");
        Ran {
            line: line.to_owned(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Fails with the whole output unless the exit code is `code`.
    pub fn assert_code(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{self:#?}");
    }
}

/// Folder of this build's tools: the parent of the test's folder.
#[must_use]
pub fn tools() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().and_then(Path::parent);
    folder.expect("target/PROFILE/deps/TEST").to_owned()
}

/// A file of `examples/`.
#[must_use]
pub fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    root.join("examples").join(name).display().to_string()
}

/// A document of many records: one per line.
#[must_use]
pub fn lines(records: &[Value]) -> String {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    lines.join("\n") + "\n"
}

/// The documents of a text; nothing if one of them is refused.
#[must_use]
pub fn parsed(text: &str) -> Option<Vec<Any>> {
    let documents = AnyDocuments::new(Frames::new(text.as_bytes(), "mutant"));
    documents.collect::<Result<_, _>>().ok()
}
