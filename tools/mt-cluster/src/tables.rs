//! `mt-cluster generate`, `mt-cluster import` and `mt-cluster order`.

use ::drive::Tables;
use cli::{Console, Exit, Failure};
use cluster::generate::{self, Recipe};
use cluster::import::{Lumping, Pairs};
use cluster::{Fleet, fleet};

use crate::args::{GenerateArgs, ImportArgs, OrderArgs};

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
    let own = console.provenance(Some(args.seed.seed), None);
    ::drive::write_cluster(cluster, own, args.output.as_deref())
}

/// Writes the cluster that two tables describe.
pub fn import(args: &ImportArgs, console: &Console) -> Result<Exit, Failure> {
    let lumping = Lumping {
        gpus: gpus(&args.gpus)?,
        task_s: args.task,
        reference: args.reference.clone(),
        pairs: Pairs::new(),
    };
    let tables = Tables {
        jobs: &args.jobs,
        rates: &args.rates,
        pairs: args.pairs.as_deref(),
        models: &args.model,
        share: args.share,
    };
    let cluster = ::drive::import(&tables, lumping, console)?;
    let own = console.provenance(None, None);
    ::drive::write_cluster(cluster, own, args.output.as_deref())
}

/// Writes the order in which to run a queue.
pub fn order(args: &OrderArgs, console: &Console) -> Result<Exit, Failure> {
    ::drive::order_queue(&args.file, args.output.as_deref(), console)
}

fn gpus(text: &str) -> Result<Fleet, Failure> {
    fleet(text).map_err(|error| Failure::Usage(format!("--gpus: {error}")))
}
