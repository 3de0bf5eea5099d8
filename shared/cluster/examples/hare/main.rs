//! Hare's evaluation, and recorded traces: its figures beside ours.
//!
//! `hare OUT DATA [--quick]` writes `OUT/RESULTS.md` and `OUT/summary.json`; DATA holds the traces
//! of others (`gavel`, `philly`), whose parts are left out where it does not exist.

mod compare;
mod page;
mod poster;
mod quality;
mod switching;
mod traces;

use std::error::Error;
use std::path::Path;

/// Why nothing was written.
type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let quick = args.iter().any(|a| a == "--quick");
    let folders: Vec<&Path> = args
        .iter()
        .filter(|a| *a != "--quick")
        .map(Path::new)
        .collect();
    let [out, data] = folders[..] else {
        return Err("usage: hare OUT DATA [--quick]".into());
    };
    let page = page::write(data, quick)?;
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("RESULTS.md"), page.text)?;
    let summary = serde_json::to_string_pretty(&page.summary)? + "\n";
    Ok(std::fs::write(out.join("summary.json"), summary)?)
}
