//! Hare's evaluation, and recorded traces: its figures beside ours.
//!
//! `hare OUT DATA HASH [--quick]` writes `OUT/RESULTS.md` and `OUT/summary.json`, which names HASH, that of the recorded
//! jobs. DATA holds the traces of others (`gavel`, `philly`), whose parts are left out where it does not exist.
//! `hare --peers DATA [--json]` prints what others reach on those traces as rows of a benchmark; `hare --online DATA` how
//! far online is behind the plan; `hare --sharing DATA [--quick]` what it is worth that two jobs share a GPU.

mod compare;
mod online;
mod page;
mod peers;
mod poster;
mod quality;
mod sharing;
mod switching;
mod traces;

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use testkit::bench;

/// Why nothing was written.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, data, ..] = &args[..]
        && first == "--peers"
    {
        let data = Path::new(data);
        if !traces::there(data) {
            let text = format!("hare: skipped: there are no traces in {}", data.display());
            writeln!(std::io::stderr(), "{text}").ok();
            return ExitCode::SUCCESS;
        }
        return bench::run(|| peers::rows(data, page::FULL.starts));
    }
    if let [first, data] = &args[..]
        && first == "--online"
    {
        return told(online::page(Path::new(data), &mut std::io::stdout().lock()));
    }
    if let [first, data, rest @ ..] = &args[..]
        && first == "--sharing"
    {
        let quick = rest.iter().any(|a| a == "--quick");
        let page = sharing::page(Path::new(data), quick, &mut std::io::stdout().lock());
        return told(page);
    }
    told(reproduce(&args))
}

fn told(done: Outcome<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(std::io::stderr(), "hare: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

fn reproduce(args: &[String]) -> Outcome<()> {
    let quick = args.iter().any(|a| a == "--quick");
    let folders: Vec<&Path> = args
        .iter()
        .filter(|a| *a != "--quick")
        .map(Path::new)
        .collect();
    let [out, data, inputs] = folders[..] else {
        return Err("usage: hare OUT DATA HASH [--quick]".into());
    };
    let mut page = page::write(data, quick)?;
    page.summary["command"] = "make hare".into();
    page.summary["inputs_sha256"] = inputs.display().to_string().into();
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("RESULTS.md"), page.text)?;
    let summary = serde_json::to_string_pretty(&page.summary)? + "\n";
    Ok(std::fs::write(out.join("summary.json"), summary)?)
}
