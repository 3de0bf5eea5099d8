//! One golden test: parsing, comparing, blessing.

use regex::Regex;

use super::project::project;

const STDOUT: &str = "==== stdout";
const STDERR: &str = "==== stderr";
const NO_NEWLINE: &str = " (no newline at end)";

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GoldenRun {
    pub(super) exit: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// A parsed `.test` file.
#[derive(Debug)]
pub(super) struct Case {
    /// Every line before the sections, except `EXIT:`, verbatim; blessing keeps them.
    head: Vec<String>,
    pub(super) script: String,
    pub(super) env: Vec<(String, String)>,
    pub(super) timeout_s: u64,
    /// Paths of the document parts on standard output that are compared; if empty, standard output is
    /// compared verbatim.
    project: Vec<String>,
    normalise: Vec<(Regex, String)>,
    expected: GoldenRun,
}

impl Case {
    /// Parses a file's text; the error names the wrong line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut case = Case {
            head: Vec::new(),
            script: String::new(),
            env: Vec::new(),
            timeout_s: 60,
            project: Vec::new(),
            normalise: Vec::new(),
            expected: GoldenRun {
                exit: 0,
                stdout: String::new(),
                stderr: String::new(),
            },
        };
        let mut lines = text.split_inclusive('\n').enumerate().peekable();
        while let Some((i, line)) = lines.next_if(|(_, l)| section(l).is_none()) {
            case.head_line(line.trim_end())
                .map_err(|e| format!("line {}: {e}", i + 1))?;
        }
        while let Some((i, line)) = lines.next() {
            let Some((name, trim)) = section(line) else {
                return Err(format!("line {}: outside any section", i + 1));
            };
            let mut body = String::new();
            while let Some((_, line)) = lines.next_if(|(_, l)| section(l).is_none()) {
                body.push_str(line);
            }
            if trim {
                body.truncate(body.trim_end_matches('\n').len());
            }
            match name {
                STDOUT => case.expected.stdout = body,
                _ => case.expected.stderr = body,
            }
        }
        if case.script.is_empty() {
            return Err("there is no RUN line".into());
        }
        Ok(case)
    }

    fn head_line(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.trim();
        let number = || format!("{key} takes a whole number, not {value:?}");
        match key {
            "EXIT" => {
                self.expected.exit = value.parse().map_err(|_| number())?;
                return Ok(());
            }
            "RUN" => self.script += &format!("{value}\n"),
            "TIMEOUT" => self.timeout_s = value.parse().map_err(|_| number())?,
            "ENV" => {
                let (k, v) = value.split_once('=').ok_or("ENV takes NAME=VALUE")?;
                self.env.push((k.into(), v.into()));
            }
            "PROJECT" => {
                let paths = value.split_whitespace().map(str::to_owned);
                self.project.extend(paths);
                if self.project.is_empty() {
                    return Err("PROJECT takes names of fields, or *".into());
                }
            }
            "NORMALISE" => {
                let (regex, with) = value
                    .split_once(" => ")
                    .ok_or("NORMALISE takes: regex => text")?;
                let regex = Regex::new(regex).map_err(|e| e.to_string())?;
                self.normalise.push((regex, with.into()));
            }
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => return Err(format!("unknown line {line:?}")),
        }
        self.head.push(line.into());
        Ok(())
    }

    /// The outcome after applying this case's `PROJECT` and `NORMALISE` lines.
    pub(super) fn normalised(&self, seen: &GoldenRun) -> GoldenRun {
        let apply = |text: &str| {
            self.normalise
                .iter()
                .fold(text.to_owned(), |text, (regex, with)| {
                    regex.replace_all(&text, with).into_owned()
                })
        };
        let stdout = match &self.project[..] {
            [] => apply(&seen.stdout),
            paths => apply(&project(&seen.stdout, paths)),
        };
        GoldenRun {
            exit: seen.exit,
            stdout,
            stderr: apply(&seen.stderr),
        }
    }

    /// Difference between the expected and the actual outcome, as a message.
    pub(super) fn difference(&self, seen: &GoldenRun) -> Option<String> {
        let want = &self.expected;
        if want == seen {
            return None;
        }
        let mut text = String::new();
        if want.exit != seen.exit {
            text += &format!("exit code {}, expected {}\n", seen.exit, want.exit);
        }
        for (name, want, seen) in [
            ("stdout", &want.stdout, &seen.stdout),
            ("stderr", &want.stderr, &seen.stderr),
        ] {
            if want != seen {
                text += &first_difference(name, want, seen);
            }
        }
        Some(text)
    }

    /// The file's text with the actual outcome as the expected one.
    pub(super) fn blessed(&self, seen: &GoldenRun) -> Result<String, String> {
        let mut text = self.head.join("\n");
        text += &format!("\nEXIT: {}\n", seen.exit);
        for (header, body) in [(STDOUT, &seen.stdout), (STDERR, &seen.stderr)] {
            if body.is_empty() {
                continue;
            }
            if body.lines().any(|l| section(l).is_some()) {
                return Err(format!("the output holds a line {header:?}: cannot bless"));
            }
            let open_end = !body.ends_with('\n');
            let (mark, end) = if open_end {
                (NO_NEWLINE, "\n")
            } else {
                ("", "")
            };
            text += &format!("{header}{mark}\n{body}{end}");
        }
        Ok(text)
    }
}

/// The section that a header line opens, and whether its text lacks a final newline.
fn section(line: &str) -> Option<(&'static str, bool)> {
    let line = line.trim_end_matches('\n');
    [STDOUT, STDERR].into_iter().find_map(|name| {
        let rest = line.strip_prefix(name)?;
        (rest.is_empty() || rest == NO_NEWLINE).then_some((name, rest == NO_NEWLINE))
    })
}

fn first_difference(name: &str, want: &str, seen: &str) -> String {
    let (mut a, mut b) = (want.split('\n'), seen.split('\n'));
    let mut line = 1;
    loop {
        match (a.next(), b.next()) {
            (Some(x), Some(y)) if x == y => line += 1,
            (x, y) => {
                let show = |l: Option<&str>| l.map_or("(the end)".into(), |l| format!("{l:?}"));
                return format!(
                    "{name} line {line}:\n  expected {}\n  seen     {}\n  all seen:\n{seen}\n",
                    show(x),
                    show(y)
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# why\nRUN: echo a\nNORMALISE: [0-9]+ => N\nEXIT: 3\n==== stdout\na N\n==== stderr (no newline at end)\nb\n";

    fn outcome(exit: i32, stdout: &str, stderr: &str) -> GoldenRun {
        let (stdout, stderr) = (stdout.into(), stderr.into());
        GoldenRun {
            exit,
            stdout,
            stderr,
        }
    }

    #[test]
    fn a_bless_of_what_was_expected_changes_nothing() {
        let case = Case::parse(TEXT).unwrap();
        assert_eq!(case.expected, outcome(3, "a N\n", "b"));
        assert_eq!(case.blessed(&case.expected).unwrap(), TEXT);
    }

    #[test]
    fn each_part_that_differs_is_reported() {
        let case = Case::parse(TEXT).unwrap();
        let seen = case.normalised(&outcome(3, "a 17\n", "b"));
        assert_eq!(case.difference(&seen), None);
        for (seen, word) in [
            (outcome(0, "a N\n", "b"), "exit code 0, expected 3"),
            (outcome(3, "a N", "b"), "stdout line 2"),
            (outcome(3, "a N\n", "c"), "stderr line 1"),
        ] {
            assert!(case.difference(&seen).unwrap().contains(word), "{word}");
        }
    }

    #[test]
    fn malformed_files_are_refused_with_the_line() {
        for (text, word) in [
            ("EXIT: 0\n", "no RUN"),
            ("RUN: a\nEXIT: x\n", "line 2"),
            ("RUN: a\nwhat\n", "unknown line"),
            ("NORMALISE: (\n", "NORMALISE takes"),
            ("NORMALISE: ( => x\n", "line 1"),
            ("ENV: a\n", "NAME=VALUE"),
        ] {
            assert!(Case::parse(text).unwrap_err().contains(word), "{text}");
        }
    }

    #[test]
    fn output_that_looks_like_a_section_cannot_be_blessed() {
        let case = Case::parse("RUN: x\n").unwrap();
        assert!(case.blessed(&outcome(0, "==== stderr\n", "")).is_err());
    }
}
