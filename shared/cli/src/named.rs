//! One program that acts as several tools, selected by its name.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::ExitCode;

use jobs::process::this_program;

use crate::{Console, Failure};

/// A tool: its name, and the function that runs it with the arguments of this process.
pub type Tool = (&'static str, fn() -> ExitCode);

/// Runs the tool that is named by the last component of `argv[0]`, so links and copies of the program act as the tool
/// of their name. `mt` is the first of `tools`; `mt mt-fit` is `mt-fit`, for packages that cannot contain links.
#[must_use]
pub fn run_named(tools: &[Tool]) -> ExitCode {
    let failed = |failure: &Failure| {
        Console::new("mt").error(&failure.to_string());
        failure.exit().into()
    };
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    let (name, main) = match named(tools, &called) {
        Ok(tool) => tool,
        Err(message) => return failed(&Failure::Usage(message)),
    };
    let word = words.next().unwrap_or_default();
    if name == tools[0].0 && tools[1..].iter().any(|(tool, _)| word == *tool) {
        let error = this_program(&word).args(words).exec();
        let word = word.display();
        return failed(&Failure::Environment(format!("cannot run {word}: {error}")));
    }
    // Set the process name. Otherwise ps and pkill would show a tool as `exe` if another tool started it through
    // /proc/self/exe. Without /proc this fails, which is harmless.
    std::fs::write("/proc/self/comm", name).ok();
    main()
}

/// The tool named by the last part of a path.
fn named(tools: &[Tool], called: &OsStr) -> Result<Tool, String> {
    let name = Path::new(called).file_name().unwrap_or_default();
    let tool = tools.iter().find(|(tool, _)| name == *tool);
    tool.copied().ok_or_else(|| {
        let names: Vec<&str> = tools.iter().map(|(tool, _)| *tool).collect();
        format!(
            "this program contains several tools, selected by the name it is called by, and {} is none of them: {}",
            crate::shell_word(&name.to_string_lossy()),
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: [Tool; 2] = [
        ("mt", || ExitCode::SUCCESS),
        ("mt-fit", || ExitCode::SUCCESS),
    ];

    #[test]
    fn the_last_part_of_the_path_names_the_tool() {
        for called in ["mt-fit", "./mt-fit", "/usr/bin/mt-fit"] {
            assert_eq!(named(&TOOLS, OsStr::new(called)).unwrap().0, "mt-fit");
        }
        assert_eq!(named(&TOOLS, OsStr::new("mt-fit/mt")).unwrap().0, "mt");
    }

    #[test]
    fn any_other_name_is_told_the_tools() {
        for called in ["", "/", "mt-fi", "mt-fits", "fit", "a b", ".."] {
            let message = named(&TOOLS, OsStr::new(called)).unwrap_err();
            assert!(message.ends_with("mt, mt-fit"), "{message}");
        }
    }
}
