//! Message about the failure of a solo run: its last output, and advice.

use doc::{Failure, FailureCause};

/// Maximum number of output lines that are shown: enough for a short traceback.
const LINES: usize = 15;

/// The message for a session that ends with a failure.
pub fn told(failure: &Failure) -> String {
    let output = failure.output.as_deref().unwrap_or_default();
    // A run that was too short did not fail, so its output explains nothing.
    let told = failure.cause != Some(FailureCause::Short);
    let lines: Vec<&str> = output.lines().filter(|_| told).collect();
    let mut text = format!("alone, {}", failure.reason);
    if let [.., _, last] = lines[..] {
        // The record also contains the last line.
        let said = jobs::last_words(last);
        let without = failure.reason.strip_suffix(&said);
        let reason = without.unwrap_or(&failure.reason);
        text = format!("alone, {reason}; the end of what it printed:");
        let shown = lines.iter().skip(lines.len().saturating_sub(LINES));
        text.extend(shown.map(|line| format!("\n  | {line}")));
    }
    if let Some(advice) = advice(failure.cause) {
        text += &format!("\n{advice}");
    }
    text
}

/// Advice on what to change.
const fn advice(cause: Option<FailureCause>) -> Option<&'static str> {
    let Some(cause) = cause else { return None };
    Some(match cause {
        FailureCause::Crash => {
            "Run the task's command by hand until it works; jobs get MT_BATCH_SIZE and the like, and \
             only some variables of this environment (`env` of the job sets others)."
        }
        FailureCause::Module => {
            "Install the module for the Python that runs, or start the Python of your environment: \
             \"argv\": [\"/path/to/venv/bin/python\", ...]."
        }
        FailureCause::Arguments => {
            "Add the arguments to `argv` of the task's job; {batch}, {share} and {samples} stand for \
             the numbers."
        }
        FailureCause::Program => {
            "Correct `argv` or `cwd` of the task's job: the program or a file that it reads is not \
             found."
        }
        FailureCause::Silent => {
            "Say how to read its progress: \"progress\": {\"regex\": \"step (?P<steps>[0-9]+)\"} for \
             lines like `step 20` (groups: samples, total, steps, epochs), or let it print \
             {\"mt\":\"step\",\"samples\":N}. A program that ends by itself needs neither if the task has \
             `samples`: then a whole run is its measure."
        }
        FailureCause::Timeout => {
            "Let it print progress sooner, at least once a minute, and without a buffer \
             (flush=True); if it hangs, run its command by hand."
        }
        FailureCause::Stall => {
            "Let it print progress more often, at least once a minute; if it hangs, run its command by \
             hand."
        }
        FailureCause::Memory => "Use smaller `batch_sizes`, or a device with more memory.",
        FailureCause::Short => {
            "It ends before sharing matters: leave it out of the workload, or make its runs longer."
        }
        FailureCause::Other => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_reason_and_advice_are_told() {
        let failure = |output: &str| Failure {
            config: 0,
            tasks: Vec::new(),
            reason: "task a: ended (exit code 1) before its first step; its last line was: \
                     ModuleNotFoundError: x"
                .to_owned(),
            cause: Some(FailureCause::Module),
            task: None,
            output: Some(output.to_owned()),
        };
        let text = told(&failure("Traceback:\nModuleNotFoundError: x"));
        assert_eq!(
            text.lines().take(3).collect::<Vec<_>>(),
            [
                "alone, task a: ended (exit code 1) before its first step; the end of what it printed:",
                "  | Traceback:",
                "  | ModuleNotFoundError: x"
            ]
        );
        assert!(text.contains("Install the module"), "{text}");
        let long = "line\n".repeat(100);
        assert_eq!(told(&failure(&long)).lines().count(), 1 + LINES + 1);
    }
}
