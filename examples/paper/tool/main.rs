//! What the pipes of the paper example need around the tools: workloads of every setting, lists
//! of configurations, and the comparison with what the paper reports.

mod figures;
mod reported;
mod settings;
mod summary;
mod table;

use std::error::Error;
use std::io::Write;
use std::path::Path;

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "paper workloads DATA OUT quick|full
paper window
paper tasks|step WORKLOAD
paper check OUT NAME
paper scheme OUT NAME temporal|isolated|sharing|ours
paper rescale DATA OUT NAME
paper summary DATA OUT DEVICE";

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut out = std::io::stdout().lock();
    match words.as_slice() {
        ["workloads", data, folder, size] => settings::write_all(
            Path::new(data),
            Path::new(folder),
            *size == "quick",
            &mut out,
        ),
        ["window"] => Ok(writeln!(out, "{}", gpusim::RATE_WINDOW_S)?),
        ["tasks", workload] => {
            let tasks = settings::tasks_of(Path::new(workload))?;
            Ok(writeln!(out, "{}", tasks.len())?)
        }
        ["step", workload] => {
            let tasks = settings::tasks_of(Path::new(workload))?;
            Ok(writeln!(out, "{}", settings::grid_step(tasks.len()))?)
        }
        ["check", folder, name] => settings::check(Path::new(folder), name)?.write(&mut out),
        ["scheme", folder, name, scheme] => {
            settings::scheme(Path::new(folder), name, scheme)?.write(&mut out)
        }
        ["rescale", data, folder, name] => {
            settings::rescale(Path::new(data), Path::new(folder), name)
        }
        ["summary", data, folder, device] => {
            summary::write(Path::new(data), Path::new(folder), device, &mut out)
        }
        _ => Err(USAGE.into()),
    }
}
