//! Instances from recorded traces: Gavel's jobs and rates, and Philly's arrivals and sizes.

use std::fmt::Write as _;
use std::path::Path;

use cluster::import::{self, Lumping, Pairs, Rates};
use cluster::{Problem, document};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::Outcome;

/// GPU types that Gavel measured.
const TYPES: [&str; 3] = ["v100", "p100", "k80"];

/// Whether both traces are in a folder.
pub fn there(data: &Path) -> bool {
    data.join("gavel").is_dir() && data.join("philly").is_dir()
}

/// Gavel's rates in steps per second, by model (as its traces name it), type and number of GPUs.
///
/// Several GPUs: the rate over machines of one GPU each, since tasks of a round may be anywhere.
pub fn gavel_rates(data: &Path) -> Outcome<Rates> {
    let text = std::fs::read_to_string(data.join("gavel/simulation_throughputs.json"))?;
    let table: Value = serde_json::from_str(&text)?;
    let mut rates = Rates::new();
    for kind in TYPES {
        for (suffix, several) in [("", false), ("_unconsolidated", true)] {
            let jobs = table[format!("{kind}{suffix}")].as_object();
            for (job, pairs) in jobs.into_iter().flatten() {
                let Some((model, gpus)) = job_key(job) else {
                    return Err(format!("{job} is no job of Gavel's rates").into());
                };
                let rate = pairs["null"].as_f64().filter(|&r| r > 0.0);
                if let Some(rate) = rate.filter(|_| several == (gpus > 1)) {
                    rates.insert((model.to_owned(), kind.to_owned(), gpus), rate);
                }
            }
        }
    }
    Ok(rates)
}

/// Gavel's rates in steps per second of two jobs of one GPU each on one GPU; without pairs that did not fit.
pub fn gavel_pairs(data: &Path) -> Outcome<Pairs> {
    let text = std::fs::read_to_string(data.join("gavel/simulation_throughputs.json"))?;
    let table: Value = serde_json::from_str(&text)?;
    let mut out = Pairs::new();
    for kind in TYPES {
        for (job, others) in table[kind].as_object().into_iter().flatten() {
            for (other, rates) in others.as_object().into_iter().flatten() {
                let (Some((a, 1)), Some((b, 1))) = (job_key(job), job_key(other)) else {
                    continue;
                };
                let rate = |i: usize| rates[i].as_f64().filter(|&r| r > 0.0);
                if let Some(both) = rate(0).zip(rate(1)) {
                    out.insert((a.to_owned(), b.to_owned(), kind.to_owned()), both);
                }
            }
        }
    }
    Ok(out)
}

/// `('ResNet-18 (batch size 16)', 4)` as the model and its GPUs.
fn job_key(text: &str) -> Option<(&str, u32)> {
    let (model, gpus) = text
        .strip_prefix("('")?
        .strip_suffix(')')?
        .rsplit_once("', ")?;
    Some((model, gpus.parse().ok()?))
}

/// How a job of Gavel's trace becomes rounds of tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cut {
    /// A job is one task: nothing is preempted.
    Whole,
    /// Tasks of this many seconds on the fastest type, between which a job may change GPUs.
    Seconds(f64),
}

/// The single-GPU jobs of Gavel's `minimize_makespan.trace` on 6 GPUs of each type.
pub fn gavel(data: &Path, rates: &Rates, pairs: &Pairs, cut: Cut) -> Outcome<Problem> {
    let text = std::fs::read_to_string(data.join("gavel/minimize_makespan.trace"))?;
    let mut jobs = "model,arrival_s,gpus,steps\n".to_owned();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let [model, .., steps, gpus, _, _, arrival] = cells[..] else {
            return Err(format!("not a line of Gavel's trace: {line}").into());
        };
        if gpus == "1" {
            writeln!(jobs, "{model},{arrival},1,{steps}")?;
        }
    }
    let lumping = Lumping {
        gpus: TYPES.map(|kind| (kind.to_owned(), 6)).to_vec(),
        task_s: match cut {
            Cut::Whole => 1e9,
            Cut::Seconds(s) => s,
        },
        reference: None,
        pairs: pairs.clone(),
    };
    let cluster = import::cluster("gavel", jobs.as_bytes(), rates, &lumping)?;
    Ok(document::problem(&cluster))
}

/// A job of Philly's.
#[derive(Debug, Clone, Copy)]
pub struct Recorded {
    arrival: f64,
    duration: f64,
    gpus: u32,
}

/// Philly's jobs in order of arrival, with those left out that Gavel has no rates for (other than
/// 1, 2, 4 or 8 GPUs), that ended within a minute, or took more than a day (a queue of 40 would be
/// that one job).
pub fn philly_jobs(data: &Path) -> Outcome<Vec<Recorded>> {
    let mut reader = csv::Reader::from_path(data.join("philly/philly_jobs.csv"))?;
    let mut jobs = Vec::new();
    for row in reader.records() {
        let row = row?;
        let cell = |i: usize| row.get(i).ok_or("a row of Philly's jobs is too short");
        let job = Recorded {
            arrival: seconds(cell(0)?).ok_or_else(|| format!("{row:?}: no moment"))?,
            duration: cell(1)?.parse()?,
            gpus: cell(2)?.parse()?,
        };
        if [1, 2, 4, 8].contains(&job.gpus) && (60.0..=86_400.0).contains(&job.duration) {
            jobs.push(job);
        }
    }
    jobs.sort_by(|a, b| a.arrival.total_cmp(&b.arrival));
    Ok(jobs)
}

/// `2017-10-09 07:01:55` in seconds from some moment.
fn seconds(text: &str) -> Option<f64> {
    let parts: Vec<f64> = text
        .split(['-', ' ', ':'])
        .map(|p| p.parse().ok())
        .collect::<Option<_>>()?;
    let [year, month, day, hour, minute, second] = parts[..] else {
        return None;
    };
    // Days of the Gregorian calendar with the year begun in March (Fliegel and van Flandern 1968).
    let shifted = (month + 9.0) % 12.0;
    let year = year - (shifted / 10.0).floor();
    let days = 365.0 * year + (year / 4.0).floor() - (year / 100.0).floor()
        + (year / 400.0).floor()
        + ((306.0 * shifted + 5.0) / 10.0).floor()
        + day;
    Some(((days * 24.0 + hour) * 60.0 + minute) * 60.0 + second)
}

/// Jobs of an instance from Philly, GPUs of each type, and how much work arrives over capacity.
const JOBS: usize = 40;
const EACH: u32 = 5;
const LOAD: f64 = 2.0;

/// 40 jobs that arrived one after another, a third of them on several GPUs, on 15 GPUs: a model of
/// Gavel's drawn for each, tasks of 30 s on the fastest GPU, rounds by the recorded duration (as on
/// P100s), gaps compressed to a load of 2, weights 1 to 5.
pub fn philly(jobs: &[Recorded], rates: &Rates, pairs: &Pairs, seed: u64) -> Outcome<Problem> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let start = rng.random_range(0..jobs.len() * 3 / 4);
    let chosen = |several: bool, count: usize| {
        let own = jobs[start..]
            .iter()
            .filter(move |j| (j.gpus > 1) == several);
        own.take(count)
    };
    let mut picked: Vec<&Recorded> = chosen(true, JOBS / 3).collect();
    picked.extend(chosen(false, JOBS - JOBS / 3));
    picked.sort_by(|a, b| a.arrival.total_cmp(&b.arrival));
    let known = |gpus: u32| {
        let all = rates.keys().filter(|k| k.1 == "p100" && k.2 == gpus);
        let has =
            |m: &&String, kind: &str, n| rates.contains_key(&((*m).clone(), kind.to_owned(), n));
        all.map(|k| &k.0)
            .filter(|m| has(m, "p100", 1) && has(m, "v100", gpus))
            .collect::<Vec<_>>()
    };
    let mut table = "model,arrival_s,gpus,duration_s,weight\n".to_owned();
    for job in &picked {
        let models = known(job.gpus);
        let model = models.choose(&mut rng).ok_or("Gavel has no rates")?;
        let arrival = job.arrival - picked[0].arrival;
        let weight = rng.random_range(1..=5);
        writeln!(
            table,
            "{model},{arrival},{},{},{weight}",
            job.gpus, job.duration
        )?;
    }
    let lumping = Lumping {
        gpus: TYPES.map(|kind| (kind.to_owned(), EACH)).to_vec(),
        task_s: 30.0,
        reference: Some("p100".to_owned()),
        pairs: pairs.clone(),
    };
    let cluster = import::cluster("philly", table.as_bytes(), rates, &lumping)?;
    Ok(compressed(document::problem(&cluster)))
}

/// The problem with its gaps compressed to [`LOAD`].
fn compressed(problem: Problem) -> Problem {
    let work = |job: &cluster::TrainingJob| {
        let speed: f64 = problem.gpus.iter().map(|&g| 1.0 / job.train[g]).sum();
        job.volume() as f64 / speed
    };
    let span = problem.jobs.iter().map(work).sum::<f64>() / LOAD;
    let last = problem.jobs.iter().map(|j| j.arrival).fold(0.0, f64::max);
    let mut jobs = problem.jobs.clone();
    for job in &mut jobs {
        job.arrival *= span / last.max(1.0);
    }
    let rates = problem.rates().clone();
    Problem::new(problem.classes.clone(), problem.gpus.clone(), jobs).sharing(rates)
}
