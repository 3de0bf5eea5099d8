use std::fmt::Write;

use serde::Serialize;

use crate::judge::{Judge, Lie, Remark};

/// Findings about one document, as printed with `--json`.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// `workload`, `profile`, `model`, `plan`, `timeline`, `run` or `allocations`.
    pub kind: &'static str,
    /// Name of the device or client, if the document has one.
    pub id: Option<String>,
    /// Whether nothing is wrong.
    pub ok: bool,
    /// Contradictions: fields that are wrong.
    pub lies: Vec<Lie>,
    /// Implausible values.
    pub doubts: Vec<Remark>,
    /// Fields that could not be recomputed.
    pub unjudged: Vec<Remark>,
}

/// Maximum number of doubts printed individually: a noisy profile has dozens of the same kind.
const MOST_DOUBTS: usize = 5;

impl Verdict {
    pub(crate) fn new(kind: &'static str, id: Option<String>, judge: Judge) -> Self {
        Self {
            kind,
            id,
            ok: judge.lies.is_empty(),
            lies: judge.lies,
            doubts: judge.doubts,
            unjudged: judge.unjudged,
        }
    }

    /// One line for each finding, with line feeds. Without `verbose`, prints only the first doubts and the number
    /// of the others.
    pub fn lines(&self, verbose: bool) -> String {
        let subject = match &self.id {
            Some(id) => format!("{} {}", self.kind, id.escape_debug()),
            None => format!("{} -", self.kind),
        };
        let mut out = String::new();
        // Writing to a String cannot fail.
        if self.ok {
            let _ = writeln!(out, "OK {subject}");
        }
        for lie in &self.lies {
            let Lie {
                path,
                claimed,
                recomputed,
            } = lie;
            let _ = writeln!(
                out,
                "LIE {subject} {path}: claimed {claimed}, recomputed {recomputed}"
            );
        }
        let told = if verbose {
            self.doubts.len()
        } else {
            MOST_DOUBTS
        };
        for Remark { path, text } in self.doubts.iter().take(told) {
            let _ = writeln!(out, "DOUBT {subject} {path}: {text}");
        }
        if let Some(more @ 1..) = self.doubts.len().checked_sub(told) {
            let _ = writeln!(out, "DOUBT {subject}: {more} more; --verbose tells them");
        }
        if verbose {
            for Remark { path, text } in &self.unjudged {
                let _ = writeln!(out, "UNJUDGED {subject} {path}: {text}");
            }
        }
        out
    }
}
