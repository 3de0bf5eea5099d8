//! Finds out why a job could not be measured, from its exit status and the last line of its output.

use doc::FailureCause;
use jobs::Exit;

/// Classifies the end of a job.
pub(crate) fn of_exit(exit: Exit, tail: &str, out_of_memory: bool) -> FailureCause {
    if out_of_memory {
        return FailureCause::Memory;
    }
    let last = tail.lines().last().unwrap_or_default().trim();
    if last.starts_with("ModuleNotFoundError:") || last.starts_with("ImportError:") {
        return FailureCause::Module;
    }
    match exit {
        // Exit codes of a shell for a program that does not exist or cannot be run; Python has its own exit code for a
        // missing script.
        Exit::Code(126 | 127) => FailureCause::Program,
        Exit::Code(2) if last.contains("can't open file") => FailureCause::Program,
        // `argparse` and most other argument parsers: the usage, and exit code 2.
        Exit::Code(2) if tail.to_ascii_lowercase().contains("usage:") => FailureCause::Arguments,
        Exit::Code(0) => FailureCause::Silent,
        Exit::Code(_) | Exit::Signal(_) => FailureCause::Crash,
    }
}

/// How a process ended, as text for users.
pub(crate) fn how(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(9) => {
            "signal 9, SIGKILL, as the kernel sends it where memory runs out".to_owned()
        }
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}

/// The last line of a job's output, as a part of a sentence.
pub(crate) fn last_line(tail: &str) -> String {
    match jobs::plain(tail).lines().last() {
        None => "; it printed nothing".to_owned(),
        Some(line) => jobs::last_words(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_ends_are_told_apart() {
        let of = |code, tail: &str| of_exit(Exit::Code(code), tail, false);
        let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1\n";
        let module = format!("{trace}ModuleNotFoundError: No module named 'torch'");
        assert_eq!(of(1, &module), FailureCause::Module);
        assert_eq!(
            of(1, &format!("{trace}KeyError: 'lr'")),
            FailureCause::Crash
        );
        let usage =
            "usage: a.py [-h] --data DATA\na.py: error: the following arguments are required";
        assert_eq!(of(2, usage), FailureCause::Arguments);
        let file = "python3: can't open file '/a.py': [Errno 2] No such file or directory";
        assert_eq!(of(2, file), FailureCause::Program);
        assert_eq!(of(127, "sh: 1: x: not found"), FailureCause::Program);
        assert_eq!(of(0, ""), FailureCause::Silent);
        assert_eq!(of_exit(Exit::Signal(11), "", false), FailureCause::Crash);
        assert_eq!(of_exit(Exit::Code(1), "", true), FailureCause::Memory);
    }
}
