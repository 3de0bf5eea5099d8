//! Writes the JSON Schemas and the page of faults into a folder, or checks that they are up to
//! date.
//!
//! `cargo run -p mt-doc --example schemas -- [--check] FOLDER`

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

#[expect(clippy::print_stderr, reason = "a program of its own, run by make")]
fn main() -> ExitCode {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let check = arguments.first().is_some_and(|a| a == "--check");
    if check {
        arguments.remove(0);
    }
    let [folder] = arguments.as_slice() else {
        eprintln!("usage: schemas [--check] FOLDER");
        return ExitCode::from(2);
    };
    let folder = PathBuf::from(folder);
    let mut files = doc::schemas();
    files.push(("errors.md".to_owned(), doc::error_reference()));
    let mut failed = false;
    for (name, text) in files {
        let path = folder.join(name);
        if check {
            let fresh = fs::read_to_string(&path).is_ok_and(|found| found == text);
            if !fresh {
                eprintln!("{} is stale; run `make schemas`", path.display());
            }
            failed |= !fresh;
        } else if let Err(error) = fs::write(&path, text) {
            eprintln!("{}: {error}", path.display());
            failed = true;
        }
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
