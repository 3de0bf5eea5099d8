//! Tables, profiles, models and queues: files that a command line names in addition to documents.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use cli::{Console, Exit, Failure, Input, Output, open_reader};
use cluster::import::{self, ImportError, Lumping};
use cluster::{SoloRates, order};
use doc::{Cluster, Document as _, Provenance};
use predict::Predictor;
use units::Share;
use units::corun::Setting;

/// Maximum size of a queue in bytes: about that of 100,000 jobs of Slurm.
const LONGEST_QUEUE: u64 = 1 << 28;

/// The solo rates of profiles, each named as `TYPE=FILE`.
///
/// # Errors
/// [`Failure::Usage`] for an argument of another form; errors of reading profiles.
pub fn solo_rates(arguments: &[String], console: &Console) -> Result<SoloRates, Failure> {
    let mut rates = SoloRates::default();
    for argument in arguments {
        let (kind, path) = of_type("--profile", argument)?;
        for profile in Input::open(&[path], "profiles", console)?.profiles() {
            rates.add(kind, &profile?);
        }
    }
    Ok(rates)
}

/// Files from which a cluster is imported.
#[derive(Debug, Clone, Copy)]
pub struct Tables<'a> {
    /// Table of jobs.
    pub jobs: &'a Path,
    /// Table of rates.
    pub rates: &'a Path,
    /// Table of rates of pairs.
    pub pairs: Option<&'a Path>,
    /// Models of mt-fit, each as `TYPE=FILE`. Their tasks correspond to models in the tables.
    pub models: &'a [String],
    /// Share of a GPU, in percent, of each of two tasks; used for predictions of the models.
    pub share: f64,
}

/// Builds the cluster from the tables. Pairs in the table of pairs take precedence; the models predict others.
///
/// # Errors
/// [`Failure::Usage`] for a task without length or an invalid share, [`Failure::Input`] for an invalid table or model.
pub fn import(
    tables: &Tables<'_>,
    mut lumping: Lumping,
    console: &Console,
) -> Result<Cluster, Failure> {
    let failed = |error: ImportError| Failure::Input(error.to_string());
    let open = |path: &Path| File::open(path).map_err(|error| Failure::file(path, &error));
    if !(lumping.task_s.is_finite() && lumping.task_s > 0.0) {
        let text = "--task: give a number of seconds above 0";
        return Err(Failure::Usage(text.to_owned()));
    }
    let share = Share::from_percent(tables.share)
        .map_err(|error| Failure::Usage(format!("--share: {error}")))?;
    let name = tables.rates.display().to_string();
    let rates = import::rates(&name, open(tables.rates)?).map_err(failed)?;
    if let Some(pairs) = tables.pairs {
        let name = pairs.display().to_string();
        lumping.pairs = import::pairs(&name, open(pairs)?).map_err(failed)?;
    }
    for argument in tables.models {
        let (kind, path) = of_type("--model", argument)?;
        let types: Vec<&str> = lumping.gpus.iter().map(|g| g.0.as_str()).collect();
        if !types.contains(&kind) {
            let text = format!(
                "--model {argument}: no GPU of --gpus is of type {kind:?}; give one of: {}",
                types.join(", ")
            );
            return Err(Failure::Usage(text));
        }
        for model in Input::open(&[path], "models", console)?.documents() {
            let model: doc::Model = model?;
            let predictor = Predictor::from_model(&model)
                .map_err(|e| Failure::Input(format!("{argument}: {e}")))?;
            let found = predicted(&model.workload.tasks, &predictor, share);
            if !found.covered {
                console.warn(&format!(
                    "--model {argument}: some pair was not measured at shares of {share}; its rates are extrapolated"
                ));
            }
            for ([a, b], [own, other]) in found.pairs {
                let rate = |model: &str| rates.get(&(model.to_owned(), kind.to_owned(), 1));
                let Some((alone, others)) = rate(a).zip(rate(b)) else {
                    continue;
                };
                if import::known(&lumping.pairs, a, b, kind).is_none() {
                    let key = (a.to_owned(), b.to_owned(), kind.to_owned());
                    lumping.pairs.insert(key, (own * alone, other * others));
                }
            }
        }
    }
    let name = tables.jobs.display().to_string();
    import::cluster(&name, open(tables.jobs)?, &rates, &lumping).map_err(failed)
}

/// Predictions of a model for pairs of its tasks on one GPU.
struct Predicted<'m> {
    /// The names of both tasks, and the rate of each relative to its rate alone.
    pairs: Vec<([&'m str; 2], [f64; 2])>,
    /// Whether all predictions are within the range of the measurements.
    covered: bool,
}

/// Predicted rates of every pair of tasks, each at its reference batch size and with the same share of the GPU.
fn predicted<'m>(tasks: &'m [doc::Task], predictor: &Predictor, share: Share) -> Predicted<'m> {
    let mut out = Predicted {
        pairs: Vec::new(),
        covered: true,
    };
    let setting = |task: usize| Setting {
        task,
        batch: tasks[task].reference(),
        share,
    };
    for b in 0..tasks.len() {
        for a in 0..b {
            let both = [setting(a), setting(b)];
            let mut rates = [0.0; 2];
            predictor.means(&both, &mut rates);
            let part = |i: usize| rates[i] / predictor.solo(both[i].task, both[i].batch);
            out.covered &= predictor.covers(&both);
            let names = [a, b].map(|task| tasks[task].id.as_str());
            out.pairs.push((names, [part(0), part(1)]));
        }
    }
    out
}

/// The GPU type and the file of an argument `TYPE=FILE`.
fn of_type<'a>(option: &str, argument: &'a str) -> Result<(&'a str, PathBuf), Failure> {
    let found = argument
        .split_once('=')
        .map(|(kind, path)| (kind, PathBuf::from(path)));
    found.ok_or_else(|| Failure::Usage(format!("{option} {argument}: give TYPE=FILE")))
}

/// Writes a cluster that was built here.
///
/// # Errors
/// [`Failure::Input`] for a document that a reader would refuse; errors of writing.
pub fn write_cluster(
    mut cluster: Cluster,
    own: Provenance,
    output: Option<&Path>,
) -> Result<Exit, Failure> {
    // Tables can contain data that is invalid in a document: two jobs with one name, or too many tasks.
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
/// [`Failure::Input`] if the file is no output of `squeue --json`; errors of writing.
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
