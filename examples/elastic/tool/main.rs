//! The experiments of Wei and Shudo, and what goes beyond them: writes a summary and a page.
//!
//! `elastic OUT [--quick] [--data FILE] [--inputs-sha256 HASH]`: reads the measurements in folders of `OUT` and writes
//! `OUT/summary.json` and `OUT/RESULTS.md`. The hash is that of the recorded trainings in FILE.

mod clock;
mod forecast;
mod live;
mod machine;
mod measured;
mod page;
mod paper;
mod phases;
mod results;
mod steps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

struct Arguments {
    out: PathBuf,
    quick: bool,
    data: Option<PathBuf>,
    inputs: Option<String>,
}

fn arguments() -> Option<Arguments> {
    let mut words = std::env::args().skip(1);
    let mut arguments = Arguments {
        out: words.next()?.into(),
        quick: false,
        data: None,
        inputs: None,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => arguments.quick = true,
            "--data" => arguments.data = Some(words.next()?.into()),
            "--inputs-sha256" => arguments.inputs = Some(words.next()?),
            _ => return None,
        }
    }
    Some(arguments)
}

#[expect(clippy::print_stderr, reason = "a program of its own, run by make")]
fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("usage: elastic OUT [--quick] [--data FILE] [--inputs-sha256 HASH]");
        return ExitCode::from(2);
    };
    match write(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("elastic: {why}");
            ExitCode::from(2)
        }
    }
}

fn write(arguments: &Arguments) -> Result<(), String> {
    let curves = arguments.data.as_deref().and_then(forecast::curves);
    let measured = measured::Measured::read(&arguments.out)?;
    let results = results::Results::compute(arguments.quick, curves.as_deref(), measured);
    save(
        &arguments.out,
        "summary.json",
        &results.summary(arguments.inputs.as_deref()),
    )?;
    save(&arguments.out, "RESULTS.md", &page::page(&results))
}

fn save(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|e| format!("{}: {e}", path.display()))
}
