use std::path::PathBuf;

use allocation::{Asked, Effort, Limits, Request, SearchOptions};
use clap::{Parser, ValueEnum};
use cli::{BalanceArg, BatchArg, Failure, ObjectiveArg, SeedArgs, SoloArg, StreamArgs};
use doc::ObjectiveKind;
use units::{Batch, Bytes, Share, TotalShare};

/// Choose batch sizes and GPU shares
///
/// Reads models (mt-fit) and writes a plan for each: the batch size and the share of every task that
/// maximise the objective under the constraints, what simpler schemes would reach, and whether the plan
/// is proven optimal under the model. If nothing is feasible, the plan has no tasks and says which
/// constraint is violated, by how much, and what would make it feasible; the exit code is then 1.
#[derive(Debug, Clone, Parser)]
#[command(version, after_help = include_str!("help.txt"))]
pub struct Args {
    #[command(flatten)]
    pub stream: StreamArgs,
    /// Workload of this round: its samples, update sizes, weights, memory and link replace those in the
    /// model; its tasks must have the same names
    #[arg(long, value_name = "WORKLOAD", value_hint = clap::ValueHint::FilePath)]
    pub workload: Option<PathBuf>,
    /// Plan nothing; predict the configurations of a table with one row `config,task,batch,share_percent`
    /// for each task, and write throughputs, 95 % intervals, and what lies outside the profile; `-`:
    /// standard input
    #[arg(long, value_name = "CSV", value_hint = clap::ValueHint::FilePath, conflicts_with_all = [
        "workload", "objective", "rv", "step", "floor", "solo", "memory", "batch", "max_batch",
        "mismatch", "balance", "previous", "damping", "pareto", "top", "outside", "predicted",
        "explain", "search", "max_points", "starts", "timing", "seed", "pretty", "only"])]
    pub predict: Option<PathBuf>,
    /// With --predict: one JSON object per line instead of CSV
    #[arg(long, requires = "predict")]
    pub json: bool,
    /// Plan only these tasks of the model, as if the others were not there; instead of the model the plan
    /// then carries the predictions for every subset of them
    #[arg(long, value_name = "TASK,...", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Objective; default: progress if the workload says what samples are worth, else the objective of
    /// the profile, else round if every task has samples, else raw
    #[arg(long, value_enum)]
    objective: Option<ObjectiveArg>,
    /// Sum of the shares in percent, on each GPU if there are several; `free`: any sum
    #[arg(long, value_name = "PERCENT|free", default_value = "free", value_parser = total_share)]
    rv: Total,
    /// Shares are multiples of this many percent, except those of a measured co-run
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    step: f64,
    /// Least throughput of every task, as a fraction of its throughput alone; default: that of the
    /// profile, else 0
    #[arg(long, value_name = "PHI")]
    floor: Option<f64>,
    /// Solo throughput that the floor, fairness and max-min compare with: at the best of the task's
    /// batch sizes, or at the chosen one (FedMT)
    #[arg(long, value_enum, default_value_t = SoloArg::Best)]
    solo: SoloArg,
    /// Memory that the tasks of one GPU may use; default: what the workload says
    #[arg(long, value_name = "BYTES")]
    memory: Option<u64>,
    /// How to choose batch sizes; default: free for progress and with --mismatch or --max-batch, else
    /// reference
    #[arg(long, value_enum)]
    batch: Option<BatchArg>,
    /// Largest batch size, in the plan and in the schemes that it is compared with
    #[arg(long, value_name = "N")]
    max_batch: Option<u64>,
    /// Largest mismatch between data volumes and batch sizes (FedMT eq. 6); `least`: minimise the mismatch
    /// first, then maximise the objective
    #[arg(long, value_name = "EPSILON|least", value_parser = mismatch)]
    mismatch: Option<Mismatch>,
    /// What is matched with the data volumes: batch sizes, workloads, or throughputs, so that all tasks
    /// finish together
    #[arg(long, value_enum, default_value_t = BalanceArg::Batch)]
    balance: BalanceArg,
    /// Plan of the previous round, for --damping
    #[arg(long, value_name = "PLAN", requires = "damping")]
    pub previous: Option<PathBuf>,
    /// Weight of the previous round's data volumes in the mismatch, from 0 to below 1: keeps batch sizes
    /// from oscillating after a spike
    #[arg(long, value_name = "LAMBDA")]
    damping: Option<f64>,
    /// Also give the Pareto front of two criteria
    #[arg(long, value_enum, value_name = "FRONT", value_delimiter = ',')]
    pareto: Vec<FrontChoice>,
    /// Give the K best plans; the runners-up are in `alternatives`
    #[arg(long, value_name = "K", default_value_t = 1)]
    top: usize,
    /// Allow plans beyond the shares, batch sizes and numbers of tasks of the profiled co-runs, where
    /// predictions are extrapolations; refused otherwise
    #[arg(long)]
    outside: bool,
    /// Take the plan that the model predicts to be best. Otherwise a measured co-run is the plan, unless a
    /// prediction is better by more than 3 % and its noise; for rounds this needs more measurements
    #[arg(long)]
    predicted: bool,
    /// Report the effect of 5 % more or less share for each task
    #[arg(long)]
    explain: bool,
    /// Search method
    #[arg(long, value_enum, default_value_t = SearchChoice::Auto)]
    search: SearchChoice,
    /// Points to evaluate before `auto` gives up on a proof
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    max_points: u64,
    /// Starts of the local search
    #[arg(long, value_name = "N", default_value_t = 16)]
    starts: u32,
    /// Write the seconds of the search into the plan (they differ from run to run)
    #[arg(long)]
    pub timing: bool,
    #[command(flatten)]
    pub seed: SeedArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FrontChoice {
    /// Mismatch and objective
    Mismatch,
    /// Total throughput and fairness
    Fairness,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SearchChoice {
    /// Proven if --max-points is enough
    Auto,
    /// Proven, however long it takes; refused if that is impossible, as for rounds of more than four tasks
    Exact,
    /// Local search only
    Local,
}

/// Sum of the shares: given, or free.
#[derive(Debug, Clone, Copy)]
enum Total {
    Free,
    Given(TotalShare),
}

/// Bound on the mismatch.
#[derive(Debug, Clone, Copy)]
enum Mismatch {
    Least,
    AtMost(f64),
}

fn mismatch(text: &str) -> Result<Mismatch, String> {
    if text == "least" {
        return Ok(Mismatch::Least);
    }
    let bound = text
        .parse()
        .ok()
        .filter(|m: &f64| m.is_finite() && *m >= 0.0);
    bound
        .map(Mismatch::AtMost)
        .ok_or_else(|| "give a finite number, 0 or more, or `least`".to_owned())
}

fn total_share(text: &str) -> Result<Total, String> {
    if text == "free" {
        return Ok(Total::Free);
    }
    let percent: f64 = text
        .parse()
        .map_err(|_| "give a number of percent, or `free`".to_owned())?;
    let total = TotalShare::from_percent(percent).ok();
    // Rounded to hundredths; a value that is not such a step was not meant, so it is refused.
    let exact = total.filter(|t| (t.percent() - percent).abs() < 1e-8);
    exact
        .map(Total::Given)
        .ok_or_else(|| "give a percentage above 0 in steps of 0.01, or `free`".to_owned())
}

impl Args {
    /// The parts of a request that a model completes.
    pub fn asked(&self) -> Asked {
        Asked {
            objective: self.objective.map(Into::into),
            floor: self.floor,
            batch: self.batch.map(Into::into),
        }
    }

    /// The request for the plans; the objective is that of a workload without samples.
    pub fn request(&self) -> Result<Request, Failure> {
        let usage =
            |option: &str, error: units::UnitError| Failure::Usage(format!("--{option}: {error}"));
        let in_range = |option: &str, ok: bool, expected: &str| {
            if ok {
                Ok(())
            } else {
                Err(Failure::Usage(format!("--{option}: give {expected}")))
            }
        };
        let step = Share::from_percent(self.step).map_err(|e| usage("step", e))?;
        in_range("step", step >= Share::from_hundredths(10), "0.1 or more")?;
        in_range(
            "floor",
            self.floor.is_none_or(|f| (0.0..=1.0).contains(&f)),
            "0 to 1",
        )?;
        let damping_is_fine = self.damping.is_none_or(|d| (0.0..1.0).contains(&d));
        in_range("damping", damping_is_fine, "0 to below 1")?;
        in_range("top", (1..=10_000).contains(&self.top), "1 to 10000")?;
        in_range("starts", (1..=10_000).contains(&self.starts), "1 to 10000")?;
        in_range("max-points", self.max_points > 0, "1 or more")?;
        let memory = self.memory.map(Bytes::new).transpose();
        let max_batch = self.max_batch.map(Batch::new).transpose();
        Ok(Request {
            objective: self.objective.map_or(ObjectiveKind::Raw, Into::into),
            limits: Limits {
                step,
                rv: match self.rv {
                    Total::Free => None,
                    Total::Given(share) => Some(share),
                },
                floor: self.floor.unwrap_or(0.0),
                memory: memory.map_err(|e| usage("memory", e))?,
                mismatch: match self.mismatch {
                    Some(Mismatch::AtMost(bound)) => Some(bound),
                    Some(Mismatch::Least) | None => None,
                },
                balance: self.balance.into(),
                solo: self.solo.into(),
                ..Limits::default()
            },
            options: SearchOptions {
                effort: match self.search {
                    SearchChoice::Auto => Effort::Auto,
                    SearchChoice::Exact => Effort::Exact,
                    SearchChoice::Local => Effort::Local,
                },
                max_points: self.max_points,
                starts: self.starts,
                top: self.top,
                seed: self.seed.seed,
                reasons: true,
            },
            mismatch_front: self.pareto.contains(&FrontChoice::Mismatch),
            fairness_front: self.pareto.contains(&FrontChoice::Fairness),
            explain: self.explain,
            outside: self.outside,
            measured: !self.predicted,
            damping: self.damping,
            max_batch: max_batch.map_err(|e| usage("max-batch", e))?,
            least_mismatch: matches!(self.mismatch, Some(Mismatch::Least)),
        })
    }
}
