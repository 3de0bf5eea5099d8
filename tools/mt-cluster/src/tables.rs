//! `mt-cluster generate` and `mt-cluster import`.

use std::fs::File;
use std::path::Path;

use cli::{Console, Exit, Failure, Output};
use cluster::generate::{self, Recipe};
use cluster::import::{self, ImportError, Lumping};
use cluster::{Fleet, fleet};
use doc::{Cluster, Document as _};

use crate::args::{GenerateArgs, ImportArgs};

/// Writes a random cluster.
pub fn generate(args: &GenerateArgs, console: &Console) -> Result<Exit, Failure> {
    let recipe = Recipe {
        gpus: gpus(&args.gpus)?,
        jobs: args.jobs as usize,
        load: args.load,
        network_bps: args.network * 1e9,
        most_tasks: args.most_tasks,
        seed: args.seed.seed,
    };
    let cluster = generate::generate(&recipe).map_err(|e| Failure::Usage(e.to_string()))?;
    let seed = Some(args.seed.seed);
    write(cluster, seed, args.output.as_deref(), console)
}

/// Writes the cluster of two tables.
pub fn import(args: &ImportArgs, console: &Console) -> Result<Exit, Failure> {
    let failed = |error: ImportError| Failure::Input(error.to_string());
    let open = |path: &Path| File::open(path).map_err(|error| Failure::file(path, &error));
    if !(args.task.is_finite() && args.task > 0.0) {
        let text = "--task: give a number of seconds above 0";
        return Err(Failure::Usage(text.to_owned()));
    }
    let rates = import::rates(&args.rates.display().to_string(), open(&args.rates)?);
    let lumping = Lumping {
        gpus: gpus(&args.gpus)?,
        task_s: args.task,
        reference: args.reference.clone(),
    };
    let name = args.jobs.display().to_string();
    let cluster = import::cluster(&name, open(&args.jobs)?, &rates.map_err(failed)?, &lumping);
    let output = args.output.as_deref();
    write(cluster.map_err(failed)?, None, output, console)
}

fn gpus(text: &str) -> Result<Fleet, Failure> {
    fleet(text).map_err(|error| Failure::Usage(format!("--gpus: {error}")))
}

fn write(
    mut cluster: Cluster,
    seed: Option<u64>,
    path: Option<&Path>,
    console: &Console,
) -> Result<Exit, Failure> {
    // Tables can hold what a document may not: two jobs of one name, or too many tasks.
    let faults = cluster.faults();
    if !faults.is_empty() {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        return Err(Failure::Input(lines.join("\n")));
    }
    let own = console.provenance(seed, None);
    cluster.provenance.push(own);
    let mut output = Output::open(path, false)?;
    output.document(&cluster)?;
    output.finish()?;
    Ok(Exit::Done)
}
