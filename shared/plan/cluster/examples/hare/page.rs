//! Writes the page and the summary.

use std::path::Path;

use cluster::Policy;
use cluster::import::Pairs;
use serde_json::{Value, json};

use crate::Outcome;
use crate::compare::{Means, compare, index};
use crate::peers::{CUTS, GAVEL, PHILLY};
use crate::poster::{self, Effort, Point, RIVALS};
use crate::quality::{self, mean, quantile};
use crate::switching;
use crate::traces;

/// What is written.
pub struct Page {
    pub text: String,
    pub summary: Value,
}

pub const FULL: Effort = Effort {
    seeds: 5,
    sweep_seeds: 3,
    starts: 4_000_000,
    large: &[100, 200, 300],
};
const QUICK: Effort = Effort {
    seeds: 1,
    sweep_seeds: 1,
    starts: 100_000,
    large: &[60],
};

const HEAD: &str = "\
# Hare's evaluation

Written by `make hare`. **Every time here is simulated**: jobs, GPUs and speeds are modelled
on the poster's (`mt-cluster generate`), and every policy faces the same simulated cluster. The poster gives no
distribution of arrivals, rounds, tasks or weights; ours are in `shared/plan/cluster/src/generate.rs`.

*Flow* is `sum w (C - a)`, from arrival to completion; *bound* is the best lower bound that holds for every
schedule, so that `flow / bound` says how far a policy can be from the best, and `1 - bound / flow` how much any
scheduler could save.
";

/// Runs everything.
pub fn write(data: &Path, quick: bool) -> Outcome<Page> {
    let effort = if quick { QUICK } else { FULL };
    let mut text = HEAD.to_owned();
    if quick {
        text += "\nReduced form (`QUICK=1`): fewer instances and less search.\n";
    }
    let testbed = poster::point(
        "15 GPUs, 40 jobs",
        &poster::testbed(),
        effort.seeds,
        effort.starts,
    )?;
    let large = poster::large(&effort)?;
    let largest = large.last().ok_or("no large instance")?;
    text += &weighted_completion(&testbed, &large);
    text += &why_less(&testbed, &poster::load(&effort)?, &poster::ahead(&effort)?);
    text += &soon(&testbed);
    for (title, points) in [
        ("Number of GPUs (the same jobs)", poster::gpus(&effort)?),
        (
            "GPU types alone (rounds of one task)",
            poster::heterogeneity(&effort)?,
        ),
        (
            "Parallel tasks alone (15 V100)",
            poster::parallelism(&effort)?,
        ),
        ("Network", poster::bandwidth(&effort)?),
    ] {
        text += &format!("\n## {title}\n\n{}", reductions(&points));
    }
    text += &switching_part(&testbed)?;
    let online = quality::online(effort.seeds, effort.starts, 0.0)?;
    let noisy = quality::online(effort.seeds, effort.starts, 0.2)?;
    let small = quality::small(if quick { 10 } else { 60 })?;
    text += &quality_part(&online, &noisy, &small);
    let (more, recorded) = recorded(data, effort.starts, quick)?;
    text += &more;
    let reduction: serde_json::Map<String, Value> = RIVALS
        .iter()
        .map(|&p| {
            (
                name(p).to_owned(),
                json!(rounded(testbed.means.reduction(p))),
            )
        })
        .collect();
    let summary = json!({
        "simulated": true,
        "quick": quick,
        "cost_over_bound_15x40": rounded(testbed.means.over_bound()),
        "completion_over_bound_15x40": rounded(testbed.means.mean(|c| c.ours.cost / c.bound)),
        "cost_over_bound_160x300": rounded(largest.means.over_bound()),
        "reduction_percent": reduction,
        "online_over_clairvoyant": rounded(online.over_clairvoyant),
        "small_over_optimum_mean": rounded(mean(&small.over_optimum)),
        "small_over_optimum_p95": rounded(quantile(&small.over_optimum, 0.95)),
        "small_proof_median_ms": rounded(1e3 * quantile(&small.proofs_s, 0.5)),
        "plan_seconds_160x300": rounded(largest.means.mean(|c| c.cpu_s)),
        "recorded": recorded,
    });
    Ok(Page { text, summary })
}

/// Four digits behind the point.
fn rounded(x: f64) -> f64 {
    (1e4 * x).round() / 1e4
}

pub fn name(policy: Policy) -> &'static str {
    doc::SchedulePolicy::from(policy).name()
}

/// A table in Markdown.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(header.iter().map(|&h| h.to_owned()).collect());
    text += &line(vec!["---".to_owned(); header.len()]);
    text + &rows.iter().cloned().map(line).collect::<String>()
}

/// For each point: ours over the bound, and by how much it is below each baseline.
fn reductions(points: &[Point]) -> String {
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|p| {
            let below = RIVALS.map(|r| format!("{:.1} %", p.means.reduction(r)));
            let over = format!("{:.3}", p.means.over_bound());
            [p.name.clone(), over].into_iter().chain(below).collect()
        })
        .collect();
    let header = [
        "",
        "ours / bound",
        "below fifo",
        "below srtf",
        "below homo",
        "below allox",
    ];
    table(&header, &rows)
}

fn weighted_completion(testbed: &Point, large: &[Point]) -> String {
    let row = |policy: Policy| {
        let m = &testbed.means;
        vec![
            name(policy).to_owned(),
            format!("{:.2}", m.other_over_bound(policy)),
            format!("{:.1} %", m.reduction(policy)),
            format!("{:.1} %", m.most_reduction(policy)),
            format!(
                "{:.1} %",
                m.mean(|c| 100.0 * (1.0 - c.ours.cost / c.others[index(policy)].cost))
            ),
        ]
    };
    let header = [
        "policy",
        "flow / bound",
        "ours below it",
        "anybody below it, at most",
        "ours below it in `sum w C`",
    ];
    let rows: Vec<Vec<String>> = Policy::BASELINES.map(row).to_vec();
    let seconds = |p: &Point| format!("{} {:.1} s", p.name, p.means.mean(|c| c.cpu_s));
    let times: Vec<String> = large.iter().map(seconds).collect();
    format!(
        "\n## Weighted completion time\n\n15 GPUs (8 V100, 4 T4, 1 K80, 2 M60), 40 jobs, 25 Gbit/s, jobs arrive at twice the \
         rate that can be served; ours is {:.3} times the bound. The poster: 47.6 to 75.3 % below its four baselines.\n\n{}\n\
         160 GPUs in the same proportions (the poster, 300 jobs: 54.6 to 80.5 %); CPU time of a plan with its bound: {}.\n\n{}",
        testbed.means.over_bound(),
        table(&header, &rows),
        times.join(", "),
        reductions(large)
    )
}

fn why_less(testbed: &Point, loads: &[Point], ahead: &poster::Ahead) -> String {
    let most = |p| testbed.means.most_reduction(p);
    format!(
        "\n### Where that is less than the poster's\n\nThe reduction depends on the arrival rate, which the poster does not state.\n\n{}\n\
         - `homo` here decides when a GPU is idle, with the next job by weight and *mean* speed. On the testbed no schedule can be more than \
         {:.1} % below it (`1 - bound / flow`), so 47.6 % is {} there: blindness costs what a slow GPU costs, and a queue \
         ordered by weight is most of the way. A scheduler that plans ahead with mean times and then keeps to its plan, as one \
         for equal GPUs may, is far worse: ours is {:.1} % below that one.\n\
         - `srtf` preempts at rounds and sees every GPU's speed, as its authors have it; at most {:.1} % is possible against it, `allox` {:.1} %.\n",
        reductions(loads),
        most(Policy::Homo),
        if most(Policy::Homo) < 47.6 {
            "out of reach"
        } else {
            "possible"
        },
        ahead.reduction,
        most(Policy::Srtf),
        most(Policy::Allox),
    )
}

fn soon(testbed: &Point) -> String {
    let m: &Means = &testbed.means;
    let row = |label: &str, poster: &str, policy: Option<Policy>| {
        vec![
            label.to_owned(),
            poster.to_owned(),
            format!("{:.1} %", m.soon(policy)),
        ]
    };
    let rows = [
        row("hare", "90.5 %", None),
        row("allox", "66.7 %", Some(Policy::Allox)),
        row("homo", "56.5 %", Some(Policy::Homo)),
        row("srtf", "", Some(Policy::Srtf)),
        row("fifo", "", Some(Policy::Fifo)),
    ];
    let header = ["policy", "poster", "here (simulated)"];
    format!(
        "\n## Jobs complete within 25 minutes of their arrival\n\n{}",
        table(&header, &rows)
    )
}

fn switching_part(testbed: &Point) -> Outcome<String> {
    let rows: Vec<Vec<String>> = switching::table()
        .iter()
        .map(|r| {
            let pairs = (0..3).flat_map(|i| {
                [
                    format!("{:.2}", r.reported[i]),
                    format!("{:.2}", r.modelled[i]),
                ]
            });
            let share = format!("{:.2} %", 100.0 * r.share);
            std::iter::once(r.name.to_owned())
                .chain(pairs)
                .chain([share])
                .collect()
        })
        .collect();
    let header = [
        "model",
        "default, poster",
        "modelled",
        "PipeSwitch, poster",
        "modelled",
        "Hare, poster",
        "modelled (early cleaning)",
        "of task time, modelled",
    ];
    let (problem, schedule) = testbed.first()?;
    let rows_charged: Vec<Vec<String>> = switching::charged(&problem, &schedule)?
        .iter()
        .map(|c| {
            vec![
                c.name.to_owned(),
                format!("{:.4}", c.over_free),
                format!("{:.2} ms", c.mean_ms),
                format!("{}", c.switches),
                format!("{}", c.hits_newest),
                format!("{}", c.hits_belady),
            ]
        })
        .collect();
    let charged = [
        "mechanism",
        "flow over that without switching",
        "mean switch",
        "switches",
        "hits, newest stay",
        "hits, Belady",
    ];
    Ok(format!(
        "\n## Switching (milliseconds, modelled)\n\nAssumed: {}.\n\n{}\nOn the first testbed instance:\n\n{}",
        switching::assumptions(),
        table(&header, &rows),
        table(&charged, &rows_charged)
    ))
}

fn quality_part(
    online: &quality::Online,
    noisy: &quality::Online,
    small: &quality::Small,
) -> String {
    format!(
        "\n## How good the answers are\n\n\
         - Online, jobs known when they arrive: flow {:.3} times that of the plan that knows everything (`sum w C` {:.3}); with durations \
         that deviate by up to 20 %: {:.3}. Slowest answer to an event {:.1} ms.\n\
         - 11 to 14 tasks on 3 GPUs: {} of {} proven optimal, median {:.1} ms of CPU.\n\
         - 15 to 22 tasks, planned within 0.3 s, against the optimum (which a longer search proves; {} instances, at most {:.2} s of CPU \
         each): mean {:.4}, p95 {:.4}.\n",
        online.over_clairvoyant,
        online.cost_over_clairvoyant,
        noisy.over_clairvoyant,
        online.slowest_ms.max(noisy.slowest_ms),
        small.proven,
        small.proofs_s.len(),
        1e3 * quantile(&small.proofs_s, 0.5),
        small.over_optimum.len(),
        quantile(&small.searches_s, 1.0),
        mean(&small.over_optimum),
        quantile(&small.over_optimum, 0.95),
    )
}

/// Gavel's and Philly's, where their data is.
fn recorded(data: &Path, starts: u64, quick: bool) -> Outcome<(String, Value)> {
    if !traces::there(data) {
        let text = format!(
            "\n## Recorded traces\n\nLeft out: there are no traces in {}.\n",
            data.file_name().unwrap_or_default().to_string_lossy()
        );
        return Ok((text, Value::Null));
    }
    let rates = traces::gavel_rates(data)?;
    let mut rows = Vec::new();
    let mut means = serde_json::Map::new();
    for (_, label, cut) in CUTS.into_iter().take(if quick { 1 } else { 3 }) {
        let c = compare(&traces::gavel(data, &rates, &Pairs::new(), cut)?, starts)?;
        let allox = c.others[index(Policy::Allox)].mean;
        let less = 100.0 * (1.0 - c.ours.mean / allox);
        rows.push(vec![
            label.to_owned(),
            format!("{:.0} s", c.ours.mean),
            format!("{allox:.0} s"),
            format!("{less:.1} %"),
            format!("{:.1} %", 100.0 * (1.0 - c.ours.mean / GAVEL[0].1)),
            format!("{:.3}", c.ours.flow / c.flow_bound),
        ]);
        means.insert(
            label.to_owned(),
            json!({"ours_s": rounded(c.ours.mean), "allox_s": rounded(allox)}),
        );
    }
    let header = [
        "",
        "ours, mean completion",
        "AlloX here",
        "ours below it",
        "ours below Gavel's AlloX",
        "ours / bound",
    ];
    let jobs = traces::philly_jobs(data)?;
    let count = if quick { 1 } else { PHILLY };
    let all = (0..count)
        .map(|seed| compare(&traces::philly(&jobs, &rates, &Pairs::new(), seed)?, starts));
    let philly = Means::of(all.collect::<Outcome<_>>()?);
    let mut lines = vec![vec![
        "hare".to_owned(),
        format!("{:.3}", philly.over_bound()),
        String::new(),
    ]];
    lines.extend(Policy::BASELINES.map(|p| {
        let over = format!("{:.3}", philly.other_over_bound(p));
        vec![
            name(p).to_owned(),
            over,
            format!("{:.1} %", philly.reduction(p)),
        ]
    }));
    let text = format!(
        "\n## Recorded traces\n\n### Gavel\n\nThe 71 single-GPU jobs of `minimize_makespan.trace`, all there at the start, on 6 V100, 6 P100, 6 K80 with \
         Gavel's rates; weights 1. Gavel's own simulator, at its 360 s rounds, gave: {}. Without preemption AlloX' matching is the optimum here, \
         because everybody is there at the start.\n\n{}\n### Philly\n\n{count} instances of 40 jobs on 5 V100, 5 P100, 5 K80: arrivals, durations and \
         GPUs of Philly's jobs (gaps compressed to a load of 2, a third on several GPUs), models and rates of Gavel's, weights 1 to 5.\n\n{}",
        GAVEL
            .map(|(policy, s)| format!("{policy} {s:.0} s"))
            .join(", "),
        table(&header, &rows),
        table(&["policy", "flow / bound", "ours below it"], &lines)
    );
    let summary = json!({"gavel": means, "philly_over_bound": rounded(philly.over_bound())});
    Ok((text, summary))
}
