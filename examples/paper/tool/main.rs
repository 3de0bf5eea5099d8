//! What the pipes of the paper example need in addition to the tools: workloads of every setting, lists of
//! configurations, and the comparison with the paper.

mod cycle;
mod figures;
mod measure;
mod overlaps;
mod panels;
mod reported;
mod search;
mod settings;
mod summary;
mod table;

use std::error::Error;
use std::io::Write;
use std::path::Path;

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "paper workloads DATA OUT quick|full DEVICE
paper window
paper tasks|step WORKLOAD
paper check OUT NAME AGAIN STEP
paper cycle OUT NAME
paper together DATA OUT NAME DEVICE
paper scheme OUT NAME temporal|isolated|sharing|ours
paper summary DATA OUT DEVICE INPUTS_SHA256";

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut out = std::io::stdout().lock();
    match words.as_slice() {
        ["workloads", data, folder, size, device] => {
            let plan = settings::Plan {
                data: Path::new(data),
                out: Path::new(folder),
                device,
                quick: *size == "quick",
            };
            plan.write_all(&mut out)
        }
        ["window"] => Ok(writeln!(out, "{}", gpusim::RATE_WINDOW_S)?),
        ["tasks", workload] => {
            let tasks = settings::tasks_of(Path::new(workload))?;
            Ok(writeln!(out, "{}", tasks.len())?)
        }
        ["step", workload] => {
            let tasks = settings::tasks_of(Path::new(workload))?;
            Ok(writeln!(out, "{}", measure::grid_step(tasks.len()))?)
        }
        ["check", folder, name, again, step] => {
            let effort = measure::Effort {
                again: again.parse()?,
                step: step.parse()?,
            };
            measure::check(Path::new(folder), name, &effort)?.write(&mut out)
        }
        ["cycle", folder, name] => measure::cycle(Path::new(folder), name)?.write(&mut out),
        ["together", data, folder, name, device] => {
            let plan = settings::Plan {
                data: Path::new(data),
                out: Path::new(folder),
                device,
                quick: false,
            };
            settings::together(&plan, name)
        }
        ["scheme", folder, name, scheme] => {
            measure::scheme(Path::new(folder), name, scheme)?.write(&mut out)
        }
        ["summary", data, folder, device, inputs] => {
            let about = summary::About { device, inputs };
            summary::write(Path::new(data), Path::new(folder), &about, &mut out)
        }
        _ => Err(USAGE.into()),
    }
}
