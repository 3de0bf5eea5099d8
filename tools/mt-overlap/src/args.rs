use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use cli::{Failure, SeedArgs, StreamArgs};
use doc::{Duplex, RatesKind};
use overlap::{OrderOptions, PlanRequest};

/// Order transfers and compute of a round
///
/// Reads plans (of mt-solve, or written by hand) and writes a timeline for each: the order of downloads and
/// uploads that ends the round soonest, when each phase starts and ends, the gap to a lower bound, and the
/// length of the round without overlap. How fast a task computes depends on which tasks compute with it.
#[derive(Debug, Clone, Parser)]
#[command(version, after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Workload of this round: its samples, update sizes, memory and link replace those of the plans, whose
    /// batch sizes and shares stay; its tasks must have the same names
    #[arg(long, value_name = "WORKLOAD", value_hint = clap::ValueHint::FilePath)]
    pub workload: Option<PathBuf>,
    /// Compute rates; default: the plan's table if it has one, else its model
    #[arg(long, value_enum)]
    rates: Option<RatesChoice>,
    /// Uploads keep the order of the downloads (with `--rates fixed`: FedMT Algorithm 1)
    #[arg(long)]
    single_order: bool,
    /// Never wait. Otherwise a task's compute may wait until another's has ended, and transfers may go one
    /// at a time, if that ends the round sooner
    #[arg(long)]
    no_wait: bool,
    /// How transfers share the link; default: as the plan says
    #[arg(long, value_enum)]
    link: Option<LinkChoice>,
    /// Also try batch sizes this much below and above the plan's, within the workload's sizes and memory;
    /// default: 20 if the plan left them free, else 0
    #[arg(long, value_name = "PERCENT")]
    batch_delta: Option<f64>,
    /// Stop after this many seconds with the best answer found; results may then differ from run to run
    #[arg(long, value_name = "SECONDS")]
    time_limit: Option<f64>,
    /// Nodes of branch and bound to visit before giving up on a proof
    #[arg(long, value_name = "N", default_value_t = OrderOptions::default().nodes)]
    max_nodes: u64,
    /// Rounds to simulate in the descent from heuristic orders
    #[arg(long, value_name = "N", default_value_t = OrderOptions::default().plays)]
    max_plays: u64,
    /// Treat the plans as the devices of one federation: report when its round ends, the straggler and the
    /// total samples per second, and write the time, idle time, samples and update weights (FedMT eq. 1) of
    /// every device to FILE (CSV)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub federation: Option<PathBuf>,
    /// For every device that ends later, report how it could end in time: with other batch sizes and shares,
    /// if its plan carries a model (columns replanned...), and if that is not enough with which part of its
    /// samples (columns kept_...: samples, end, weights and progress). If all plans are for progress, each
    /// late device gets the plan that reaches the targets soonest, compared with waiting for all; otherwise
    /// the batch sizes and shares of its shortest round
    #[arg(long, value_name = "SECONDS", requires = "federation")]
    pub deadline: Option<f64>,
    /// Write the seconds of the search into the timeline (they differ from run to run)
    #[arg(long)]
    pub timing: bool,
    #[command(flatten)]
    pub seed: SeedArgs,
}

const EXAMPLES: &str = "Examples:
  mt-profile workload.json | mt-fit | mt-solve | mt-overlap > t.json
  mt-overlap --pretty plan.json
  mt-overlap --workload this-round.json plan.json
  mt-overlap --rates fixed --single-order plan.json
  mt-overlap --federation devices.csv plans.ndjson > timelines.ndjson
  mt-overlap --federation devices.csv --deadline 60 plans.ndjson
  mt-overlap --link half --batch-delta 0 --time-limit 5 plan.json

A plan written by hand, with a table of rates in place of a model:
  {\"schema\":\"mt.plan/1\",\"link\":{\"down_bps\":4e8,\"up_bps\":4e8},
   \"tasks\":[{\"id\":\"a\",\"samples\":18000,
             \"update_bytes\":{\"down\":30000000,\"up\":30000000}},
            {\"id\":\"b\",\"samples\":6400,
             \"update_bytes\":{\"down\":9000000,\"up\":9000000}}],
   \"rates\":[{\"active\":[\"a\"],\"samples_per_s\":{\"a\":1886.5}},
            {\"active\":[\"b\"],\"samples_per_s\":{\"b\":1515.7}},
            {\"active\":[\"a\",\"b\"],
             \"samples_per_s\":{\"a\":1279.1,\"b\":1027.7}}]}

Exit codes: 0 done; 1 a plan is infeasible; 2 bad input or usage.";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum RatesChoice {
    /// Predictions for every set of active tasks
    Model,
    /// The plan's table
    Table,
    /// Always the rate with all tasks active
    Fixed,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LinkChoice {
    /// One download and one upload at a time
    Full,
    /// One transfer at a time, in either direction
    Half,
    /// All transfers of a direction at once, with equal parts of the link
    Shared,
}

impl Args {
    /// Inputs for ordering each plan.
    pub fn request(&self) -> Result<PlanRequest, Failure> {
        let fine = self.batch_delta.is_none_or(|d| (0.0..=90.0).contains(&d));
        if !fine {
            return Err(Failure::Usage(
                "--batch-delta: give a percentage from 0 to 90".to_owned(),
            ));
        }
        Ok(PlanRequest {
            rates: self.rates.map(|rates| match rates {
                RatesChoice::Model => RatesKind::Model,
                RatesChoice::Table => RatesKind::Table,
                RatesChoice::Fixed => RatesKind::Fixed,
            }),
            duplex: self.link.map(|link| match link {
                LinkChoice::Full => Duplex::Full,
                LinkChoice::Half => Duplex::Half,
                LinkChoice::Shared => Duplex::Shared,
            }),
            batch_percent: self.batch_delta,
            workload: None,
        })
    }

    /// The deadline of a federation, above 0.
    pub fn deadline(&self) -> Result<Option<f64>, Failure> {
        let fine = self.deadline.is_none_or(|s| s.is_finite() && s > 0.0);
        if !fine {
            let text = "--deadline: give a number of seconds above 0";
            return Err(Failure::Usage(text.to_owned()));
        }
        Ok(self.deadline)
    }

    /// Effort of the search.
    pub fn options(&self) -> Result<OrderOptions, Failure> {
        let time_limit = self
            .time_limit
            .map(|s| Duration::try_from_secs_f64(s).ok().filter(|d| !d.is_zero()))
            .map(|d| {
                d.ok_or_else(|| {
                    Failure::Usage("--time-limit: give a number of seconds above 0".to_owned())
                })
            })
            .transpose()?;
        if self.max_plays == 0 {
            return Err(Failure::Usage("--max-plays: give 1 or more".to_owned()));
        }
        Ok(OrderOptions {
            single_order: self.single_order,
            batches: Vec::new(),
            nodes: self.max_nodes,
            plays: self.max_plays,
            time_limit,
            seed: self.seed.seed,
            waits: !self.no_wait,
            ..OrderOptions::default()
        })
    }
}
