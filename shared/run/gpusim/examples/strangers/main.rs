//! Tests the simulator against measurements by others: slow-downs of trainings that shared a GPU.
//!
//! ```sh
//! cargo run --release -p mt-gpusim --example strangers -- ../shared/data [summary.json]
//! ```
//!
//! The folder holds `gavel/simulation_throughputs.json` (pairs on V100, P100 and K80, stanford-futuredata/gavel) and
//! `miso/mps_mixes.csv` (mixes under MPS on an A100, boringlee24/socc22-miso). Only jobs whose model, or one close
//! to it, is in the catalogue are used ([`stand_in`]). Nothing was fitted to these data.

#![expect(clippy::print_stdout, reason = "a program that prints a table")]

mod rivals;

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::path::Path;

use doc::GpuDescription;
use gpusim::{Gpu, Network, Program, RATE_WINDOW_S, SimOptions, SimTask, Simulator};
use serde_json::{Value, json};
use units::{Batch, Share};

type Failure = Box<dyn Error>;

/// A model and its batch size.
type Job = (String, u32);

/// One measured job of a co-run: its rate beside the others, relative to the reference.
struct Seen {
    /// Which co-run.
    corun: usize,
    job: Job,
    /// The other job of a pair; none in mixes.
    other: Option<Job>,
    real: f64,
    simulated: f64,
}

/// Model of the catalogue and side of its inputs that represent a recorded model; `None`: left out.
///
/// Gavel trains ResNet-18 on CIFAR-10 and ResNet-50 on ImageNet. MISO's `resnet` and `mobilenet` process 14,000 and
/// 16,000 samples a second on an A100, so their images must be small.
fn stand_in(model: &str) -> Option<(&'static str, u32)> {
    match model {
        "ResNet-18" => Some(("resnet18", 32)),
        "ResNet-50" => Some(("resnet50", 224)),
        "resnet" => Some(("resnet50", 32)),
        "mobilenet" => Some(("mobilenet_v3_large", 32)),
        _ => None,
    }
}

/// GPUs of Gavel by the vendor's data sheets: the P100 for PCIe, one of the two chips of a K80.
fn gavel_gpu(name: &str) -> Result<Gpu, Failure> {
    let (sms, fp32_tflops, memory_gb_per_s) = match name {
        "v100" => (80, 15.7, 900.0),
        "p100" => (56, 9.3, 732.0),
        _ => (13, 4.37, 240.0),
    };
    Ok(Gpu::new(&GpuDescription {
        name: name.to_owned(),
        sms,
        fp32_tflops,
        memory_gb_per_s,
        memory_bytes: None,
        host: None,
    })?)
}

/// Rates on one GPU; each configuration is simulated once.
struct Rates {
    simulator: Simulator,
    programs: HashMap<Job, Program>,
    known: HashMap<(Vec<Job>, u32), Vec<f64>>,
}

impl Rates {
    fn new(gpu: Gpu) -> Self {
        Self {
            simulator: Simulator::new(gpu),
            programs: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// Samples per second of each job, all with the same share in percent.
    fn of(&mut self, jobs: &[Job], percent: u32) -> Result<Vec<f64>, Failure> {
        let key = (jobs.to_vec(), percent);
        if let Some(rates) = self.known.get(&key) {
            return Ok(rates.clone());
        }
        for job in jobs {
            if !self.programs.contains_key(job) {
                let (name, side) = stand_in(&job.0).ok_or("a job that stands for nothing")?;
                let network = Network::catalogue(name, side)?;
                let program =
                    self.simulator
                        .program(&network, Batch::new(u64::from(job.1))?, None)?;
                self.programs.insert(job.clone(), program);
            }
        }
        let share = Share::from_percent(f64::from(percent))?;
        let tasks: Vec<SimTask<'_>> = jobs
            .iter()
            .map(|job| SimTask {
                program: &self.programs[job],
                share,
            })
            .collect();
        let options = SimOptions::default();
        let outcome = self.simulator.run_for(&tasks, RATE_WINDOW_S, &options);
        self.known.insert(key, outcome.samples_per_s.clone());
        Ok(outcome.samples_per_s)
    }
}

/// `('ResNet-18 (batch size 16)', 1)` on one GPU, if the catalogue represents it.
fn gavel_job(name: &str) -> Option<Job> {
    let name = name.strip_prefix("('")?.strip_suffix("', 1)")?;
    let (model, batch) = name.strip_suffix(')')?.split_once(" (batch size ")?;
    stand_in(model)?;
    Some((model.to_owned(), batch.parse().ok()?))
}

/// Pairs that fit on a GPU: rates relative to solo rates.
fn gavel(all: &Value, gpu: &str) -> Result<Vec<Seen>, Failure> {
    let mut rates = Rates::new(gavel_gpu(gpu)?);
    let jobs = all[gpu].as_object().ok_or("no such GPU")?;
    let mut seen = Vec::new();
    let mut corun = 0;
    for (name, beside) in jobs {
        let Some(job) = gavel_job(name) else { continue };
        for (other_name, both) in beside.as_object().ok_or("a job is no object")? {
            let other = gavel_job(other_name).filter(|_| other_name >= name);
            let (Some(other), Some(first), Some(second)) =
                (other, both[0].as_f64(), both[1].as_f64())
            else {
                continue;
            };
            let alone = |name: &str| jobs[name]["null"].as_f64().ok_or("no rate alone");
            if first.min(second) <= 0.0 {
                continue;
            }
            let together = rates.of(&[job.clone(), other.clone()], 100)?;
            let sides = [
                (&job, &other, first / alone(name)?, together[0]),
                (&other, &job, second / alone(other_name)?, together[1]),
            ];
            for (one, beside, real, rate) in sides {
                let solo = rates.of(std::slice::from_ref(one), 100)?[0];
                seen.push(Seen {
                    corun,
                    job: one.clone(),
                    other: Some(beside.clone()),
                    real,
                    simulated: rate / solo,
                });
            }
            corun += 1;
        }
    }
    Ok(seen)
}

/// Mixes of at least two jobs at a share each: rates relative to those at 100 % each.
fn miso(text: &str, percent: u32) -> Result<Vec<Seen>, Failure> {
    let column = if percent == 50 { 4 } else { 5 };
    let mut mixes: BTreeMap<usize, Vec<(String, u32, f64)>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split(',').collect();
        let row = (
            words[2].to_owned(),
            words[3].parse()?,
            words[column].parse()?,
        );
        mixes.entry(words[0].parse()?).or_default().push(row);
    }
    let mut rates = Rates::new(Gpu::built_in("a100")?);
    let mut seen = Vec::new();
    for (corun, mix) in mixes {
        if mix.len() < 2 || mix.iter().any(|(model, ..)| stand_in(model).is_none()) {
            continue;
        }
        let jobs: Vec<Job> = mix
            .iter()
            .map(|(m, batch, _)| (m.clone(), *batch))
            .collect();
        let (full, part) = (rates.of(&jobs, 100)?, rates.of(&jobs, percent)?);
        for (i, (_, _, real)) in mix.iter().enumerate() {
            seen.push(Seen {
                corun,
                job: jobs[i].clone(),
                other: None,
                real: *real,
                simulated: part[i] / full[i],
            });
        }
    }
    Ok(seen)
}

/// A row of the table.
fn judge(problem: &str, seen: &[Seen]) -> Value {
    let real: Vec<f64> = seen.iter().map(|s| s.real).collect();
    let simulated: Vec<f64> = seen.iter().map(|s| s.simulated).collect();
    let constant = rivals::constant(seen);
    let product = rivals::product(seen);
    let rounded = |x: f64| (x * 1e3).round() / 1e3;
    let of = |told: &[f64]| {
        let error = rounded(rivals::error(&real, told));
        json!({"error": error, "rank": rounded(rivals::rank_correlation(&real, told))})
    };
    json!({
        "problem": problem,
        "jobs": seen.len(),
        "simulator": of(&simulated),
        "constant_error": rounded(rivals::error(&real, &constant)),
        "product": product.map(|told| of(&told)),
    })
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("give the folder of the measurements")?;
    let folder = Path::new(&folder);
    if !folder.is_dir() {
        println!(
            "no measurements of others in {}: nothing to do",
            folder.display()
        );
        return Ok(());
    }
    let text = fs::read_to_string(folder.join("gavel/simulation_throughputs.json"))?;
    let pairs: Value = serde_json::from_str(&text)?;
    let mixes = fs::read_to_string(folder.join("miso/mps_mixes.csv"))?;
    let mut rows = Vec::new();
    for gpu in ["v100", "p100", "k80"] {
        rows.push(judge(&format!("Gavel, pairs, {gpu}"), &gavel(&pairs, gpu)?));
    }
    for percent in [50, 14] {
        let problem = format!("MISO, mixes, {percent} % each");
        rows.push(judge(&problem, &miso(&mixes, percent)?));
    }
    println!(
        "| problem | jobs | simulator: error, rank | constant: error | product law: error, rank |\n\
         |---|---|---|---|---|"
    );
    for row in &rows {
        let both = |of: &Value| match (of["error"].as_f64(), of["rank"].as_f64()) {
            (Some(error), Some(rank)) => format!("{error:.3}, {rank:.2}"),
            _ => "-".to_owned(),
        };
        println!(
            "| {} | {} | {} | {:.3} | {} |",
            row["problem"].as_str().unwrap_or_default(),
            row["jobs"],
            both(&row["simulator"]),
            row["constant_error"].as_f64().unwrap_or(f64::NAN),
            both(&row["product"]),
        );
    }
    if let Some(path) = arguments.next() {
        let summary = json!({"command": "make simulator", "rows": rows});
        fs::write(path, serde_json::to_string_pretty(&summary)? + "\n")?;
    }
    Ok(())
}
