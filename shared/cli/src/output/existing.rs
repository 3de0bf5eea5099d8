//! Existing profiles and runs.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::Failure;

/// What to do with an existing profile or run. By default it is kept and the output is rejected, because it may
/// contain hours of measurements.
#[derive(Debug, Clone, Copy, Default)]
pub struct Existing<'a> {
    /// Whether to replace it (`--force`).
    pub replace: bool,
    /// The file that the output continues (`--resume`), which may be the output itself. The output then begins with
    /// that file's contents, and takes its name when [`crate::Output::settle`] is called.
    pub continues: Option<&'a Path>,
}

impl Existing<'_> {
    pub(super) fn is(&self, target: &Path) -> bool {
        let continued = self.continues.map(fs::canonicalize);
        continued.is_some_and(|path| path.is_ok_and(|p| p == target))
    }
}

/// Rejects a target that is a profile or a run. Other documents can be made again in seconds, but a profile may have
/// taken hours of GPU time, and a run cannot be repeated.
pub(super) fn keep(target: &Path, shown: &Path) -> Result<(), Failure> {
    let kind = match held(target) {
        Some(kind) => kind,
        None => return Ok(()),
    };
    let advice = match kind {
        "profile" => "continue it (--resume), name another file, or replace it (--force)",
        _ => "name another file, or replace it (--force)",
    };
    Err(Failure::Usage(format!(
        "{}: there is already a {kind}; {advice}",
        shown.display()
    )))
}

/// Whether a file begins like a profile or a run.
fn held(target: &Path) -> Option<&'static str> {
    // Enough bytes for the first member of a document, which is its schema.
    let mut start = [0; 256];
    let mut file = fs::File::open(target).ok()?;
    let length = file.read(&mut start).ok()?;
    let text: Vec<u8> = start[..length]
        .iter()
        .copied()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    let begins = |kind: &str| text.starts_with(format!(r#"{{"schema":"mt.{kind}/"#).as_bytes());
    ["profile", "run"].into_iter().find(|kind| begins(kind))
}
