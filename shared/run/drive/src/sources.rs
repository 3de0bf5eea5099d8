//! Tables, profiles and queues: files that a command line names beside its documents.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cli::{Console, Exit, Failure, Input, Output, open_reader};
use cluster::import::{self, ImportError, Lumping};
use cluster::{SoloRates, order};
use doc::{Cluster, Document as _, Provenance};

/// A queue of this many bytes is read, and no more: 100,000 jobs of Slurm have about as many.
const LONGEST_QUEUE: u64 = 1 << 28;

/// The solo rates of profiles, each named as `TYPE=FILE`.
///
/// # Errors
/// [`Failure::Usage`] for an argument of another form; those of reading profiles.
pub fn solo_rates(arguments: &[String], console: &Console) -> Result<SoloRates, Failure> {
    let mut rates = SoloRates::default();
    for argument in arguments {
        let Some((kind, path)) = argument.split_once('=') else {
            let text = format!("--profile {argument}: give TYPE=FILE");
            return Err(Failure::Usage(text));
        };
        for profile in Input::open(&[PathBuf::from(path)], "profiles", console)?.profiles() {
            rates.add(kind, &profile?);
        }
    }
    Ok(rates)
}

/// The cluster of a table of jobs and a table of rates, and perhaps one of rates of pairs.
///
/// # Errors
/// [`Failure::Usage`] for a task without length, [`Failure::Input`] for what is wrong in a table.
pub fn import(
    jobs: &Path,
    rates: &Path,
    pairs: Option<&Path>,
    mut lumping: Lumping,
) -> Result<Cluster, Failure> {
    let failed = |error: ImportError| Failure::Input(error.to_string());
    let open = |path: &Path| File::open(path).map_err(|error| Failure::file(path, &error));
    if !(lumping.task_s.is_finite() && lumping.task_s > 0.0) {
        let text = "--task: give a number of seconds above 0";
        return Err(Failure::Usage(text.to_owned()));
    }
    let rates = import::rates(&rates.display().to_string(), open(rates)?).map_err(failed)?;
    if let Some(pairs) = pairs {
        let name = pairs.display().to_string();
        lumping.pairs = import::pairs(&name, open(pairs)?).map_err(failed)?;
    }
    let name = jobs.display().to_string();
    import::cluster(&name, open(jobs)?, &rates, &lumping).map_err(failed)
}

/// Writes a cluster that was made here.
///
/// # Errors
/// [`Failure::Input`] for a document that a reader would refuse; errors of writing.
pub fn write_cluster(
    mut cluster: Cluster,
    own: Provenance,
    output: Option<&Path>,
) -> Result<Exit, Failure> {
    // Tables can hold what a document may not: two jobs of one name, or too many tasks.
    let faults: Vec<String> = cluster.faults().iter().map(ToString::to_string).collect();
    if !faults.is_empty() {
        return Err(Failure::Input(faults.join("\n")));
    }
    cluster.provenance.push(own);
    let mut output = Output::open(output, false)?;
    output.document(&cluster)?;
    output.finish()?;
    Ok(Exit::Done)
}

/// Writes lines for `sh` that put the pending jobs of a Slurm queue into order.
///
/// # Errors
/// [`Failure::Input`] for what is no answer of `squeue --json`; those of writing.
pub fn order_queue(path: &Path, output: Option<&Path>, console: &Console) -> Result<Exit, Failure> {
    let (reader, name) = open_reader(path, "the answer of squeue --json", console)?;
    let order = order::order(reader.take(LONGEST_QUEUE))
        .map_err(|e| Failure::Input(format!("{name}: {e}")))?;
    for warning in &order.warnings {
        console.warn(warning);
    }
    let mut output = Output::open(output, false)?;
    output.text(&order.lines())?;
    output.finish()?;
    Ok(Exit::Done)
}
