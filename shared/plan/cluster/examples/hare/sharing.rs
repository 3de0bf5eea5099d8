//! Two jobs on one GPU at Gavel's measured rates, against one at a time.

use std::io::Write;
use std::path::Path;

use cluster::import::Pairs;
use cluster::{OnlineSettings, PlanOptions, Policy, Problem, Schedule, packed, plan, play};

use crate::Outcome;
use crate::compare::reached;
use crate::peers::{CUTS, GAVEL};
use crate::quality::mean;
use crate::traces;

const HEAD: &str = "\
# Two jobs on one GPU

Written by `make -C examples/hare sharing`; everything is simulated, at the rates that Gavel measured for pairs of its
jobs on one GPU (K80, P100, V100; over the rate alone, together 1.07, 1.20 and 1.36 on average). Every column is the
weighted flow time, `sum w (C - a)`, over that of the plan with one job at a time on a GPU (*alone*), of the same jobs
on the same GPUs in the same simulator; below 1 it is better.

- *plan*: two jobs share a GPU where the plan finds that it pays. *online*: the same without knowing arrivals.
- *packed*: the trivial rival. In order of arrival every task takes the fastest idle GPU, or else joins another
  wherever the two fit. *fifo*: in order of arrival without sharing.
- *bound*: no schedule with sharing is below this.

";

const TABLE: &str = "\
| jobs | draws | alone | plan | online alone | online | fifo | packed | bound | tasks beside another |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

/// What each way reaches on one instance, over the plan without sharing.
struct Reached {
    /// Mean seconds from arrival to completion of the plans without and with sharing.
    means: [f64; 2],
    over: [f64; 6],
    beside: f64,
}

/// Part of the tasks that start while another trains on their GPU.
fn beside(problem: &Problem, schedule: &Schedule) -> f64 {
    let mut until = vec![[0.0_f64; 2]; problem.gpus.len()];
    let mut count = 0;
    for a in &schedule.assignments {
        let busy = until[a.gpu].map(|end| end > a.start * (1.0 + 1e-9));
        count += usize::from(busy[0] || busy[1]);
        until[a.gpu][usize::from(busy[0])] = a.trained;
    }
    100.0 * count as f64 / schedule.assignments.len() as f64
}

fn reach(problem: &Problem, starts: u64) -> Outcome<Reached> {
    let options = PlanOptions {
        starts,
        ..PlanOptions::default()
    };
    let apart = problem.apart();
    let alone = plan(&apart, &options).schedule;
    let shared = plan(problem, &options);
    let online = |p: &Problem| play(p, 0.0, OnlineSettings::default()).schedule;
    let fifo = Policy::Fifo.baseline(&apart).ok_or("fifo is a baseline")?;
    let flow = |schedule: &Schedule| Ok(reached(problem, schedule)?.flow);
    let base: f64 = flow(&alone)?;
    let bound = shared.lower_bound - problem.weighted_arrivals();
    let ways = [
        flow(&shared.schedule),
        flow(&online(&apart)),
        flow(&online(problem)),
        flow(&fifo),
        flow(&packed(problem)),
        Ok(bound),
    ];
    let flows: Vec<f64> = ways.into_iter().collect::<Outcome<_>>()?;
    let over: [f64; 6] = flows.try_into().map_err(|_| "six ways")?;
    Ok(Reached {
        means: [&alone, &shared.schedule].map(|s| s.mean_flow(problem)),
        over: over.map(|flow| flow / base),
        beside: beside(problem, &shared.schedule),
    })
}

fn row(name: &str, all: &[Reached]) -> String {
    let of = |pick: &dyn Fn(&Reached) -> f64| mean(&all.iter().map(pick).collect::<Vec<_>>());
    let over: Vec<String> = (0..6)
        .map(|i| format!("{:.3}", of(&|r: &Reached| r.over[i])))
        .collect();
    format!(
        "| {name} | {} | {:.0} s | {:.0} s: {} | {} | {:.0} % |\n",
        all.len(),
        of(&|r: &Reached| r.means[0]),
        of(&|r: &Reached| r.means[1]),
        over[0],
        over[1..].join(" | "),
        of(&|r: &Reached| r.beside)
    )
}

/// Writes the page, a line as soon as it is known. Philly's seeds from 500 on were met by nothing before.
pub fn page(data: &Path, quick: bool, out: &mut impl Write) -> Outcome<()> {
    let starts = if quick { 100_000 } else { 1_000_000 };
    let rates = traces::gavel_rates(data)?;
    let pairs: Pairs = traces::gavel_pairs(data)?;
    write!(out, "{HEAD}{TABLE}")?;
    for (_, label, cut) in CUTS.into_iter().take(if quick { 1 } else { 2 }) {
        let problem = traces::gavel(data, &rates, &pairs, cut)?;
        let name = format!("Gavel's 71 on 18 GPUs, {label}");
        write!(out, "{}", row(&name, &[reach(&problem, starts)?]))?;
        out.flush()?;
    }
    let jobs = traces::philly_jobs(data)?;
    let seeds = 500..if quick { 501 } else { 503 };
    let all = seeds
        .map(|seed| reach(&traces::philly(&jobs, &rates, &pairs, seed)?, starts))
        .collect::<Outcome<Vec<_>>>()?;
    write!(out, "{}", row("Philly's, 40 on 15 GPUs, load 2", &all))?;
    let policies = GAVEL.map(|(policy, s)| format!("{policy} {s:.0} s"));
    writeln!(
        out,
        "\nGavel's own simulator gave for the mean completion of the 71 jobs: {}.\n\n*Online* may be below *plan*, \
         because it searches again after every event.",
        policies.join(", ")
    )?;
    Ok(())
}
