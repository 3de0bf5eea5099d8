//! Fig. 10: tasks with data volumes 1:2:3, in both meanings of its speed-up.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use doc::{Documents, EventPayload, Frames, RunEvent, Workload};

use crate::Outcome;
use crate::measure::{planned, rounds, schemes};
use crate::reported;
use crate::settings::{GPUS, MIXES, read, tasks_of};
use crate::summary::{Page, there};
use crate::table::{CoRun, Table};

/// One order of the volumes: isolated, sharing and ours over temporal sharing at batch size 128.
struct Cycle {
    /// Images per second while all run.
    steady: [f64; 3],
    /// `sum P_i / S_i` while all run, `S_i` alone at batch size 128.
    fairness: [f64; 3],
    /// Time of temporal sharing for the round, relative to theirs.
    makespan: [f64; 3],
    /// Upper limit of that for any schedule: given by the longest task alone at its fastest batch size.
    limit: f64,
}

/// Images of each task of a round, by name.
type Volumes = Vec<(String, f64)>;

fn volumes(workload: &Path) -> Outcome<Volumes> {
    let workload: Workload = read(workload)?;
    let tasks = workload.tasks.iter().map(|t| {
        let samples = t.samples.ok_or("a task without samples")?;
        Ok((t.id.to_string(), samples.as_f64()))
    });
    tasks.collect()
}

fn measured<'a>(table: &'a Table, run: &CoRun) -> Outcome<&'a CoRun> {
    Ok(table
        .at(run)
        .ok_or_else(|| format!("not measured: {run:?}"))?)
}

/// Seconds until every task has trained on its volume, if all start at once with fixed shares: after each end, the
/// remaining tasks have the rates that were measured for them together.
fn makespan(table: &Table, run: &CoRun, volumes: &Volumes) -> Outcome<f64> {
    let of = |task: &str| volumes.iter().find(|v| v.0 == task).map(|v| v.1);
    let mut left: Vec<f64> = Vec::new();
    for cell in &run.0 {
        left.push(of(&cell.task).ok_or("a task without a volume")?);
    }
    let mut active: Vec<usize> = (0..left.len()).collect();
    let mut now = 0.0;
    while !active.is_empty() {
        let set = CoRun(active.iter().map(|&i| run.0[i].clone()).collect());
        let rates: Vec<f64> = measured(table, &set)?.0.iter().map(|c| c.rate).collect();
        let ends = active.iter().zip(&rates).map(|(&i, rate)| left[i] / rate);
        let step = ends.fold(f64::INFINITY, f64::min);
        for (&i, rate) in active.iter().zip(&rates) {
            left[i] -= rate * step;
        }
        now += step;
        // Rounding leaves a little work of the task that ends.
        active.retain(|&i| left[i] > 1e-6);
    }
    Ok(now)
}

/// Seconds of a round that mt-launch ran.
fn launched(run: &Path) -> Outcome<f64> {
    let name = run.display().to_string();
    let file = File::open(run).map_err(|e| format!("{name}: {e}"))?;
    for event in Documents::<_, RunEvent>::new(Frames::new(BufReader::new(file), &name)) {
        if let EventPayload::Round {
            ok: true, makespan, ..
        } = event?.payload
        {
            return Ok(makespan.get());
        }
    }
    Err(format!("{name}: no round was finished").into())
}

fn cycle(out: &Path, name: &str, round: &str, table: &Table) -> Outcome<Cycle> {
    let volumes = volumes(&out.join(format!("{round}.workload.json")))?;
    let tasks = tasks_of(&out.join(format!("{name}.workload.json")))?;
    let [isolated, sharing, ..] = schemes(&tasks);
    let steady = planned(&out.join(format!("{round}.steady.json")))?;
    let ours = launched(&out.join(format!("{round}.run.ndjson")))?;
    let (mut images, mut temporal, mut longest) = (0.0, 0.0, 0.0_f64);
    for (task, volume) in &volumes {
        let alone = table.solo(task).ok_or("a task without a solo run")?;
        let fastest = table.solos(task).map(|s| s.1).fold(alone, f64::max);
        images += volume;
        temporal += volume / alone;
        longest = longest.max(volume / fastest);
    }
    let fairness = |run: &CoRun| -> Outcome<f64> {
        let cells = measured(table, run)?.0.iter();
        Ok(cells
            .filter_map(|c| Some(c.rate / table.solo(&c.task)?))
            .sum())
    };
    let rate = |run: &CoRun| Ok::<f64, Box<dyn std::error::Error>>(measured(table, run)?.total());
    let gain = |run: &CoRun| {
        Ok::<f64, Box<dyn std::error::Error>>(temporal / makespan(table, run, &volumes)?)
    };
    let base = images / temporal;
    Ok(Cycle {
        steady: [
            rate(&isolated)? / base,
            rate(&sharing)? / base,
            rate(&steady)? / base,
        ],
        fairness: [
            fairness(&isolated)?,
            fairness(&sharing)?,
            fairness(&steady)?,
        ],
        makespan: [gain(&isolated)?, gain(&sharing)?, temporal / ours],
        limit: temporal / longest,
    })
}

/// The panels of Fig. 10.
pub fn write(page: &mut Page<'_>) -> Outcome<()> {
    let Page {
        data, out, label, ..
    } = *page;
    let (low, high) = reported::claim(data, "inter-device speed-up")?;
    writeln!(
        page.md,
        "## Fig. 10: data volumes 1:2:3 in every order ({label})\n\nAll figures are relative to temporal sharing, which runs one task at a time on the whole GPU at batch size 128; isolated and sharing also use batch size 128. Each range is from the lowest to the highest of all orders of the volumes. *Throughput* is measured while all tasks run, which the paper plots as the average within one synchronisation cycle; ours has batch sizes in proportion to the volumes (128:256:384) and the best shares for them. *Fairness* is `sum P/S` at the same time, with `S` alone at batch size 128. *Round* is the time until every task has trained on its volume. Isolated and sharing start all tasks at once and keep their shares; after each end, the remaining tasks have the rates that were measured for them together. Ours is the plan for the shortest round from {} samples, as `mt-launch` ran it, including the start of its jobs; it may hold a task back and, on processors, move shares. `limit` is given by the longest task alone at its fastest batch size; no schedule can beat it. The paper reports {low:.2} to {high:.2}, and does not say whether it means throughput or round; ours reaches it in neither.\n\n| GPU | mix | throughput: isolated | sharing | ours | fairness: isolated | sharing | ours | round: isolated | sharing | ours | limit |\n|---|---|---|---|---|---|---|---|---|---|---|---|",
        std::env::var("BUDGET").unwrap_or_else(|_| "60".to_owned())
    )?;
    let mut steady = Range::default();
    let mut round = Range::default();
    for (g, gpu) in GPUS.iter().enumerate() {
        for (i, mix) in MIXES.iter().enumerate() {
            let name = format!("cycle{g}_{i}");
            if !there(out, &name) {
                continue;
            }
            let table = Table::read_file(&out.join(format!("{name}.checked.csv")))?;
            let mut ranges = [Range::default(); 10];
            for order in rounds(out, &name) {
                let c = cycle(out, &name, &order, &table)?;
                let values = [c.steady, c.fairness, c.makespan].concat();
                for (range, value) in ranges.iter_mut().zip(values.iter().chain([&c.limit])) {
                    range.add(*value);
                }
                steady.add(c.steady[2]);
                round.add(c.makespan[2]);
            }
            let cells: Vec<String> = ranges.iter().map(Range::text).collect();
            writeln!(page.md, "| {gpu} | {mix} | {} |", cells.join(" | "))?;
        }
    }
    page.summary.cycle_throughput_min = steady.low;
    page.summary.cycle_throughput_max = steady.high;
    page.summary.cycle_round_min = round.low;
    page.summary.cycle_round_max = round.high;
    writeln!(
        page.md,
        "\nRange of ours in all rows: throughput {}, round {}; the paper's {low:.2}-{high:.2}.\n",
        steady.text(),
        round.text()
    )?;
    Ok(())
}

/// Minimum and maximum of some values.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

impl Default for Range {
    fn default() -> Self {
        Self {
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
        }
    }
}

impl Range {
    pub fn add(&mut self, value: f64) {
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    /// `1.23-1.45`, or `1.23` if both have the same digits; empty if there are none.
    pub fn text(&self) -> String {
        if self.low > self.high {
            return String::new();
        }
        let [low, high] = [self.low, self.high].map(|v| format!("{v:.2}"));
        if low == high {
            low
        } else {
            format!("{low}-{high}")
        }
    }
}
