//! `mt-cluster generate` and `mt-cluster import`.

use std::fs::File;
use std::path::Path;

use cli::{Console, Exit, Failure, Output, provenance};
use cluster::generate::{Recipe, TYPES};
use cluster::import::{self, ImportError, Lumping};
use doc::{Cluster, Document};

use crate::args::{GenerateArgs, ImportArgs};

/// Writes a random cluster.
pub fn generate(args: &GenerateArgs, console: &Console) -> Result<Exit, Failure> {
    let gpus = fleet(&args.gpus)?;
    if let Some((other, _)) = gpus
        .iter()
        .find(|(kind, _)| !TYPES.contains(&kind.as_str()))
    {
        let known = TYPES.join(", ");
        return Err(Failure::Usage(format!(
            "--gpus: {other:?} is none of {known}"
        )));
    }
    for (name, value, least) in [
        ("--load", args.load, 0.0),
        ("--network", args.network, 1e-6),
    ] {
        if !value.is_finite() || value < least {
            return Err(Failure::Usage(format!(
                "{name}: {value} is not a number above 0"
            )));
        }
    }
    let recipe = Recipe {
        gpus,
        jobs: args.jobs as usize,
        load: if args.load > 0.0 {
            args.load
        } else {
            f64::INFINITY
        },
        network_bps: args.network * 1e9,
        most_tasks: args.most_tasks,
        seed: args.seed.seed,
    };
    let cluster = cluster::generate::generate(&recipe)
        .map_err(|error| Failure::Usage(format!("nothing can be generated: {error}")))?;
    write(
        cluster,
        Some(args.seed.seed),
        args.output.as_deref(),
        console,
    )
}

/// Writes the cluster of two tables.
pub fn import(args: &ImportArgs, console: &Console) -> Result<Exit, Failure> {
    let failed = |error: ImportError| Failure::Input(error.to_string());
    let open = |path: &Path| File::open(path).map_err(|error| Failure::file(path, &error));
    if !(args.task.is_finite() && args.task > 0.0) {
        return Err(Failure::Usage(
            "--task: give a number of seconds above 0".to_owned(),
        ));
    }
    let rates = import::rates(&args.rates.display().to_string(), open(&args.rates)?);
    let lumping = Lumping {
        gpus: fleet(&args.gpus)?,
        task_s: args.task,
        reference: args.reference.clone(),
    };
    let name = args.jobs.display().to_string();
    let cluster = import::cluster(&name, open(&args.jobs)?, &rates.map_err(failed)?, &lumping);
    write(
        cluster.map_err(failed)?,
        None,
        args.output.as_deref(),
        console,
    )
}

/// `v100=8,k80=1` as a list.
fn fleet(text: &str) -> Result<Vec<(String, u32)>, Failure> {
    let one = |part: &str| {
        let (kind, count) = part.split_once('=')?;
        let count = count.trim().parse().ok().filter(|&n| n > 0)?;
        Some((kind.trim().to_owned(), count))
    };
    text.split(',')
        .map(|part| one(part).ok_or(part))
        .collect::<Result<_, _>>()
        .map_err(|part| Failure::Usage(format!("--gpus: {part:?} is not TYPE=COUNT")))
}

fn write(
    mut cluster: Cluster,
    seed: Option<u64>,
    path: Option<&Path>,
    console: &Console,
) -> Result<Exit, Failure> {
    // Tables can hold what a document may not: two jobs of one name, or too many tasks.
    let mut checker = doc::Checker::default();
    if Cluster::from_wire(&cluster.to_wire(), &mut checker).is_none() {
        let faults: Vec<String> = checker
            .into_faults()
            .iter()
            .map(ToString::to_string)
            .collect();
        return Err(Failure::Input(faults.join("\n")));
    }
    let own = provenance(console.tool(), env!("CARGO_PKG_VERSION"), seed, None);
    cluster.provenance.push(own);
    let mut output = Output::open(path, false)?;
    output.document(&cluster)?;
    output.finish()?;
    Ok(Exit::Done)
}
