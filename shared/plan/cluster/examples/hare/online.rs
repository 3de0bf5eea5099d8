//! Online against the plan that knows everything, on draws that influenced no choice.

use std::io::Write;
use std::path::Path;

use cluster::generate::{Recipe, generate};
use cluster::import::Pairs;
use cluster::{OnlineSettings, PlanOptions, Problem, document, fleet, plan, play};

use crate::Outcome;
use crate::compare::cpu_seconds;
use crate::quality::mean;
use crate::traces::{self, Cut};

const HEAD: &str = "\
# Online and the plan

Written by `make -C examples/hare online`; everything is simulated. *Behind* is by how much the weighted flow time of
`online`, which knows a job when it arrives, is above that of a plan that knows all of them at once (4,000,000 starts);
below 0 it is ahead. With noise, durations deviate by up to 20 % from what both expect; what online reaches then is
still compared with the plan as it expects to be carried out. *Fixed* searches 50,000 starts after each event; *by
backlog* is the default: more where more jobs wait, at most 5 % of the time until the next event, and it begins from
AlloX' matching where that is better than what stands; *without aging* lets a job wait for ever, as a plan does.
Seconds are of a processor, on a machine that was not idle.

| jobs | noise | draws | fixed: behind, mean | worst | s | by backlog: behind, mean | worst | s | without aging: behind, mean | worst | s |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

/// How far behind the plan each instance is, and CPU seconds of all.
fn behind(
    problems: &[(Problem, f64)],
    noise: f64,
    effort: Option<u64>,
    aging: f64,
) -> Outcome<(Vec<f64>, f64)> {
    let before = cpu_seconds()?;
    let mut out = Vec::new();
    for (problem, planned) in problems {
        let settings = OnlineSettings {
            effort,
            aging,
            ..OnlineSettings::default()
        };
        let played = play(problem, noise, settings);
        out.push(100.0 * (played.schedule.flow_cost(problem) / planned - 1.0));
    }
    Ok((out, cpu_seconds()? - before))
}

fn drawn(gpus: &str, jobs: usize, load: f64, seeds: std::ops::Range<u64>) -> Outcome<Vec<Problem>> {
    let gpus = fleet(gpus)?;
    let one = |seed| {
        let recipe = Recipe {
            gpus: gpus.clone(),
            jobs,
            load,
            network_bps: 25e9,
            most_tasks: 4,
            seed,
        };
        Ok(document::problem(&generate(&recipe)?))
    };
    seeds.map(one).collect()
}

/// Writes the page, a line as soon as it is known. Seeds from 7,000 on were met by nothing before.
pub fn page(data: &Path, out: &mut impl Write) -> Outcome<()> {
    let (eight, fifteen) = ("v100=4,t4=2,k80=1,m60=1", "v100=8,t4=4,k80=1,m60=2");
    let mut sets = vec![
        (
            "16 on 8 GPUs, all there at once",
            drawn(eight, 16, 0.0, 7000..7004)?,
        ),
        (
            "16 on 8 GPUs, arriving at twice what can be served",
            drawn(eight, 16, 2.0, 7000..7004)?,
        ),
        (
            "300 on 15 GPUs, arriving at twice what can be served",
            drawn(fifteen, 300, 2.0, 7000..7001)?,
        ),
    ];
    if traces::there(data) {
        let rates = traces::gavel_rates(data)?;
        let whole = traces::gavel(data, &rates, &Pairs::new(), Cut::Whole)?;
        sets.insert(0, ("Gavel's 71 on 18 GPUs, all there, whole", vec![whole]));
    }
    write!(out, "{HEAD}")?;
    for (name, problems) in sets {
        let planned = problems.into_iter().map(|problem| {
            let cost = plan(&problem, &PlanOptions::default())
                .schedule
                .flow_cost(&problem);
            (problem, cost)
        });
        let planned: Vec<(Problem, f64)> = planned.collect();
        for noise in [0.0, 0.2] {
            let (draws, percent) = (planned.len(), 100.0 * noise);
            write!(out, "| {name} | {percent} % | {draws} ")?;
            row(&planned, noise, out)?;
        }
    }
    Ok(())
}

fn row(planned: &[(Problem, f64)], noise: f64, out: &mut impl Write) -> Outcome<()> {
    let default = OnlineSettings::default().aging;
    let ways = [
        (Some(50_000), default),
        (None, default),
        (None, f64::INFINITY),
    ];
    for (effort, aging) in ways {
        let (found, seconds) = behind(planned, noise, effort, aging)?;
        let worst = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        write!(
            out,
            "| {:.1} % | {worst:.1} % | {seconds:.1} ",
            mean(&found)
        )?;
    }
    writeln!(out, "|")?;
    Ok(out.flush()?)
}
