//! Command lines, parsed without a shell.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use doc::{Job, Progress};
use jobs::program::{Missing, shell_word};
use units::TaskId;

/// A program with its arguments and variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Name, derived from its script or its program.
    pub id: TaskId,
    /// Program and arguments; not empty.
    pub argv: Vec<String>,
    /// `NAME=VALUE` words before the program.
    pub env: BTreeMap<String, String>,
}

/// Why a command cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The text is not a valid command.
    #[error("{text:?}: {why}")]
    Words {
        /// The command.
        text: String,
        /// The error and the correction.
        why: &'static str,
    },
    /// Its program or its script does not exist.
    #[error("{text:?}: {missing}{hint}")]
    Missing {
        /// The command.
        text: String,
        /// Which word.
        missing: Missing,
        /// Suggestion.
        hint: String,
    },
}

/// Minimum similarity (Jaro-Winkler) of a suggested name: `pyhton3` and `python3` have 0.97.
const ALIKE: f64 = 0.88;

impl Command {
    /// Splits one line into words like a shell: by spaces, with quotes and backslashes.
    ///
    /// # Errors
    /// [`CommandError::Words`] if it would need a shell, or is empty.
    pub fn parse(text: &str) -> Result<Self, CommandError> {
        let wrong = |why| CommandError::Words {
            text: text.to_owned(),
            why,
        };
        let words = split(text).map_err(wrong)?;
        Self::of(words)
            .ok_or_else(|| wrong("no program is named; write for example 'python3 train.py'"))
    }

    /// A command from words that are already split; `None` if there is no program.
    #[must_use]
    pub fn of(words: Vec<String>) -> Option<Self> {
        let mut env = BTreeMap::new();
        let mut argv = words.into_iter().peekable();
        while let Some((name, value)) = argv.peek().and_then(|word| assignment(word)) {
            env.insert(name, value);
            argv.next();
        }
        let argv: Vec<String> = argv.collect();
        let id = TaskId::new(&name_of(&argv)?).ok()?;
        Some(Self { id, argv, env })
    }

    /// The command as a line that a shell and [`Command::parse`] split into the same words.
    #[must_use]
    pub fn text(&self) -> String {
        let set = self
            .env
            .iter()
            .map(|(name, value)| format!("{name}={}", shell_word(value)));
        let argv = self.argv.iter().map(|word| shell_word(word).into_owned());
        set.chain(argv).collect::<Vec<_>>().join(" ")
    }

    /// Checks that the program exists and, for an interpreter, its script.
    ///
    /// # Errors
    /// [`CommandError::Missing`] with a suggestion.
    pub fn check(&self) -> Result<(), CommandError> {
        jobs::program::check(&self.job()).map_err(|missing| {
            let word = &self.argv[missing.word];
            let hint = hint(word, missing.word == 0 && !word.contains('/'));
            CommandError::Missing {
                text: self.text(),
                missing,
                hint,
            }
        })
    }

    /// The command as the job of a workload, without its progress expression.
    #[must_use]
    pub fn job(&self) -> Job {
        Job {
            argv: self.argv.clone(),
            env: self.env.clone(),
            cwd: None,
            progress: Progress::default(),
            pool: false,
            download: Vec::new(),
            upload: Vec::new(),
            resume: Vec::new(),
        }
    }
}

/// Makes names unique, for copies and for commands with the same name: `train`, `train-2`.
#[must_use]
pub fn distinct(mut commands: Vec<Command>) -> Vec<Command> {
    let mut seen: Vec<TaskId> = Vec::new();
    for command in &mut commands {
        let base = command.id.as_str().to_owned();
        let mut number = 1;
        while seen.contains(&command.id) {
            number += 1;
            if let Ok(id) = TaskId::new(&format!("{base}-{number}")) {
                command.id = id;
            }
        }
        seen.push(command.id.clone());
    }
    commands
}

/// For each command, the index of the first command that is equal except for its name.
pub(crate) fn kinds(commands: &[Command]) -> Vec<usize> {
    let same = |a: &Command, b: &Command| a.argv == b.argv && a.env == b.env;
    let first = |c: &Command| commands.iter().position(|other| same(other, c));
    commands
        .iter()
        .map(|c| first(c).unwrap_or_default())
        .collect()
}

/// Splits a line into words like sh(1). Syntax that only a shell can evaluate is refused. Brackets are literal,
/// although a shell would treat them as a pattern if a file matched: lists of sizes, `[64,64]`, are more frequent than
/// such files.
fn split(text: &str) -> Result<Vec<String>, &'static str> {
    const SHELL: &str = "it needs a shell, and none is involved; put the character in quotes if it is meant itself, \
                         or the command into a file and give 'sh FILE'";
    const OPEN: &str = "a quote is not closed";
    if text.contains('\0') {
        return Err("it has a zero byte, which no argument of a program can have; remove the byte");
    }
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => quoted.push(c),
                        None => return Err(OPEN),
                    }
                }
            }
            '"' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        // Before any other character, a backslash in quotes is literal.
                        Some('\\') => match chars.next_if(|c| "\"\\$`".contains(*c)) {
                            Some(c) => quoted.push(c),
                            None => quoted.push('\\'),
                        },
                        Some('$' | '`') => return Err(SHELL),
                        Some(c) => quoted.push(c),
                        None => return Err(OPEN),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("it ends with a backslash; write the command on one line"),
            },
            '#' if word.is_none() => break,
            '~' if is_home(&words, word.as_deref()) => {
                let ends = |c: &char| matches!(c, '/' | ' ' | '\t');
                let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
                match home {
                    Some(home) if chars.peek().is_none_or(ends) => {
                        word.get_or_insert_default().push_str(&home);
                    }
                    // The home folder of another user needs a shell.
                    _ => return Err(SHELL),
                }
            }
            '|' | '&' | ';' | '<' | '>' | '$' | '`' | '(' | ')' | '*' | '?' => return Err(SHELL),
            '!' if words.is_empty() && word.is_none() => return Err(SHELL),
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Whether a tilde at this position stands for the home folder: at the beginning of a word, or of the value of a
/// variable before the program.
fn is_home(before: &[String], word: Option<&str>) -> bool {
    let Some(word) = word else { return true };
    let sets = |word: &str| assignment(word).is_some();
    let begins =
        assignment(word).is_some_and(|(_, value)| value.is_empty() || value.ends_with(':'));
    begins && before.iter().all(|word| sets(word))
}

fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = name.chars().all(letters) && name.starts_with(|c: char| !c.is_ascii_digit());
    is_name.then(|| (name.to_owned(), value.to_owned()))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The script's name without its extension; without a script, the program's name.
fn name_of(argv: &[String]) -> Option<String> {
    let is_script = |word: &&String| word.ends_with(".py") || word.ends_with(".sh");
    let word = argv.iter().find(is_script).or(argv.first())?;
    let stem = file_name(word).split('.').next().unwrap_or_default();
    let legal = |c: char| match c {
        c if c.is_ascii_alphanumeric() || c == '_' => c,
        _ => '-',
    };
    let name: String = stem.chars().map(legal).take(40).collect();
    Some(if name.is_empty() {
        "job".to_owned()
    } else {
        name
    })
}

/// The name most similar to `wanted` among the files of some folders.
fn nearest(wanted: &str, folders: &[PathBuf]) -> Option<String> {
    let files = folders
        .iter()
        .filter_map(|folder| folder.read_dir().ok())
        .flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let likeness = |name: &str| strsim::jaro_winkler(name, wanted);
    let best = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(&best) >= ALIKE).then_some(best)
}

/// A suggestion for a missing name: a program on `PATH`, or a file in the same folder.
fn hint(word: &str, on_path: bool) -> String {
    if on_path {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        return nearest(word, &folders)
            .map_or_else(String::new, |name| format!("; did you mean {name}?"));
    }
    let folder = Path::new(word)
        .parent()
        .filter(|p| !p.as_os_str().is_empty());
    let beside = nearest(
        file_name(word),
        &[folder.unwrap_or(Path::new(".")).to_owned()],
    );
    match (beside, folder) {
        (Some(name), _) if name == file_name(word) => String::new(),
        (Some(name), Some(folder)) => format!("; did you mean {}?", folder.join(name).display()),
        (Some(name), None) => format!("; did you mean {name}?"),
        (None, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_as_a_shell_cuts_them() {
        let command = Command::parse(r#"A=1 LR="0 1" python3 my\ train.py --x 'a b' """#).unwrap();
        assert_eq!(command.argv, ["python3", "my train.py", "--x", "a b", ""]);
        assert_eq!(command.env["LR"], "0 1");
        assert_eq!(command.id.as_str(), "my-train");
        assert_eq!(Command::parse(&command.text()), Ok(command));
        for (text, why) in [
            ("", "no program"),
            ("A=1", "no program"),
            ("python3 'x", "not closed"),
            ("python3 x.py > log", "needs a shell"),
            ("echo $HOME", "needs a shell"),
            ("cat ~root/x", "needs a shell"),
            ("cat a?.csv", "needs a shell"),
            ("! true", "needs a shell"),
            ("echo \\", "ends with a backslash"),
            ("echo 'a\0b'", "zero byte"),
        ] {
            let error = Command::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn words_are_those_of_a_shell() {
        for line in [
            r#"printf %s- "\d+" "C:\temp" "a\"b\\c\$" a\ b"#,
            r"printf %s- ~/data ~ a~ '~' x=~/y \~ # a comment",
            r"A=~/x B=1:~/y printf %s- a#b '' [64,64] x!",
            "printf %s- a\tb\u{a0}c",
        ] {
            let shell = std::process::Command::new("sh").args(["-c", line]).output();
            let command = Command::parse(line).unwrap();
            let ours = std::process::Command::new(&command.argv[0])
                .args(&command.argv[1..])
                .output();
            let text = |o: std::io::Result<std::process::Output>| {
                String::from_utf8(o.unwrap().stdout).unwrap()
            };
            assert_eq!(text(ours), text(shell), "{line}");
        }
        let home = std::env::var("HOME").unwrap();
        assert_eq!(
            Command::parse("A=~/x sh").unwrap().env["A"],
            format!("{home}/x")
        );
    }

    #[test]
    fn copies_have_names_of_their_own() {
        let one = Command::parse("python3 train.py").unwrap();
        let names: Vec<String> = distinct(vec![one.clone(), one.clone(), one])
            .iter()
            .map(|c| c.id.to_string())
            .collect();
        assert_eq!(names, ["train", "train-2", "train-3"]);
    }

    #[test]
    fn what_is_not_there_is_named_with_what_may_be_meant() {
        let folder = std::env::temp_dir().join("trial-command-test");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("train.py"), "").unwrap();
        let check = |text: &str| Command::parse(text).unwrap().check();
        let error = check(&format!("sh {}/trian.py", folder.display())).unwrap_err();
        assert!(error.to_string().contains("train.py?"), "{error}");
        let error = check("./trian x").unwrap_err().to_string();
        assert!(error.contains("there is no program /"), "{error}");
        let error = check(&format!("{}/train.py", folder.display())).unwrap_err();
        assert!(error.to_string().contains("chmod"), "{error}");
        assert_eq!(check("sh -c true"), Ok(()));
    }
}
