//! Checks that the program of a job, and its script, exist before anything is started.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Passing;

/// A word of `argv` names a file that cannot be started or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {advice}")]
pub struct Missing {
    /// Which word of `argv`, from 0.
    pub word: usize,
    /// The error.
    pub problem: String,
    /// The correction.
    pub advice: String,
}

/// Programs that read a script; their names are compared without a version number.
const INTERPRETERS: [&str; 11] = [
    "python", "pypy", "bash", "sh", "dash", "zsh", "perl", "ruby", "node", "Rscript", "julia",
];

/// File extensions of scripts. A word without one is only checked if it contains a folder, because interpreters also
/// take subcommands and modules.
const SCRIPTS: [&str; 8] = ["py", "sh", "bash", "pl", "rb", "js", "R", "jl"];

/// Options of the interpreters above that take a value.
const WITH_VALUE: [&str; 3] = ["-W", "-X", "-r"];

/// Searches for the program of a job in the same way as the start, and for the script of an interpreter. Words with
/// placeholders such as `{batch}` are not known yet and are not checked.
///
/// # Errors
/// [`Missing`] for the first file that does not exist.
pub fn check(job: &doc::Job) -> Result<(), Missing> {
    let Some(program) = job.argv.first() else {
        return Ok(());
    };
    let folder = job.cwd.as_ref().map_or_else(PathBuf::new, PathBuf::from);
    if !folder.as_os_str().is_empty() && !folder.is_dir() {
        return Err(Missing {
            word: 0,
            problem: format!("its folder {} does not exist", folder.display()),
            advice: "name one that exists as `cwd`, or none".to_owned(),
        });
    }
    if !program.contains('{') {
        executable(program, &folder, job)?;
    }
    let Some((word, script)) = script(&job.argv) else {
        return Ok(());
    };
    let path = folder.join(script);
    if path.exists() {
        return Ok(());
    }
    let full = std::path::absolute(&path).unwrap_or(path);
    Err(Missing {
        word,
        problem: format!("there is no file {}", full.display()),
        advice: "correct the name of the script, or set `cwd` to its folder".to_owned(),
    })
}

/// Checks that the program exists: at its path, or by name in one of the folders of `PATH`.
fn executable(program: &str, folder: &Path, job: &doc::Job) -> Result<(), Missing> {
    let missing = |problem: String, advice: &str| Missing {
        word: 0,
        problem,
        advice: advice.to_owned(),
    };
    if program.contains('/') {
        let path = folder.join(program);
        let full = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        let shown = full.display();
        let Ok(facts) = path.metadata() else {
            return Err(missing(
                format!("there is no program {shown}"),
                "correct its path, or set `cwd` to the folder that it is relative to",
            ));
        };
        if !facts.is_file() || facts.permissions().mode() & 0o111 == 0 {
            return Err(missing(
                format!("{shown} is no program"),
                "make the file executable (chmod +x), or put its interpreter before it, for example \
                 \"python3\"",
            ));
        }
        return Ok(());
    }
    let path = job.env.get("PATH").map(OsString::from).or_else(|| {
        let all = Passing::default().base_environment();
        all.get(std::ffi::OsStr::new("PATH")).cloned()
    });
    // Without PATH the system searches its own folders.
    let Some(path) = path else { return Ok(()) };
    let runs = |file: PathBuf| {
        file.metadata()
            .is_ok_and(|f| f.is_file() && f.permissions().mode() & 0o111 != 0)
    };
    if std::env::split_paths(&path).any(|folder| runs(folder.join(program))) {
        return Ok(());
    }
    let problem = format!("there is no program {program:?} on PATH");
    if folder.join(program).is_file() {
        let advice = format!(
            "for the file in the folder write ./{program}, or put its interpreter before it, for example \"python3\""
        );
        return Err(missing(problem, &advice));
    }
    let advice = "check its spelling, install it, or give its path";
    Err(missing(problem, advice))
}

/// The script of an interpreter, and its index in `argv`.
fn script(argv: &[String]) -> Option<(usize, &str)> {
    let name = Path::new(argv.first()?)
        .file_name()?
        .to_str()?
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&name) {
        return None;
    }
    let mut words = argv.iter().enumerate().skip(1);
    loop {
        let (at, word) = words.next()?;
        match word.as_str() {
            // A module, inline code, or standard input: there is no script file.
            "-m" | "-c" | "-e" | "-" => return None,
            option if WITH_VALUE.contains(&option) => drop(words.next()),
            option if option.starts_with('-') => {}
            word => {
                let path = Path::new(word);
                let ending = path.extension().and_then(|e| e.to_str());
                let is_file = word.contains('/') || ending.is_some_and(|e| SCRIPTS.contains(&e));
                return (is_file && !word.contains('{')).then_some((at, word));
            }
        }
    }
}

/// A word quoted for a POSIX shell.
#[must_use]
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return Cow::Borrowed(word);
    }
    // Within single quotes everything except a single quote is literal, even a line end.
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn job(argv: &str, cwd: Option<&Path>) -> doc::Job {
        doc::Job {
            argv: words(argv),
            env: Default::default(),
            cwd: cwd.map(|c| c.display().to_string()),
            progress: doc::Progress::default(),
            pool: false,
            download: Vec::new(),
            upload: Vec::new(),
            resume: Vec::new(),
        }
    }

    #[test]
    fn the_script_is_the_first_word_that_is_no_option() {
        let found = |text: &str| script(&words(text)).map(|(at, word)| (at, word.to_owned()));
        assert_eq!(
            found("python3 train.py --lr 1"),
            Some((1, "train.py".into()))
        );
        assert_eq!(
            found("/usr/bin/python3.11 -u -X dev a/train x"),
            Some((4, "a/train".into()))
        );
        for none in [
            "python3 -m torch.run a.py",
            "./train.py b.py",
            "python3",
            "sh -c ./a.sh",
            "python3 {batch}.py",
            "node serve",
        ] {
            assert_eq!(found(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_word() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("train.py"), "").unwrap();
        let at = |argv: &str| check(&job(argv, Some(folder.path()))).err();
        assert_eq!(at("sh train.py"), None);
        assert_eq!(at("sh -c true"), None);
        let missing = at("sh -u trian.py").unwrap();
        assert_eq!(missing.word, 2);
        assert!(missing.to_string().contains("trian.py"), "{missing}");
        for (argv, why) in [
            (
                "pyhton3 train.py",
                "there is no program \"pyhton3\" on PATH",
            ),
            ("./train.py", "is no program; make the file executable"),
            ("train.py", "write ./train.py, or put its interpreter"),
            ("./a.out", "there is no program /"),
        ] {
            let missing = at(argv).unwrap();
            assert_eq!(missing.word, 0);
            assert!(missing.to_string().contains(why), "{missing}");
        }
        let nowhere = check(&job("sh -c true", Some(Path::new("/nowhere")))).unwrap_err();
        assert!(nowhere.to_string().contains("folder /nowhere"), "{nowhere}");
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell_word("a-b/c.d"), "a-b/c.d");
        for word in [
            "",
            "it's $x",
            "a\nb; touch evil",
            "`id`",
            "*",
            "~",
            "#",
            "\\",
        ] {
            let script = format!("printf %s {}", shell_word(word));
            let shell = std::process::Command::new("sh")
                .args(["-c", &script])
                .output();
            let output = shell.unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
