//! Real measurements by others: pairs of jobs (Gavel), MIG slices (MISO). Nothing here without
//! `../shared/data`.
//!
//! Assumed: a Gavel job is a task (the model) at a batch size, 1 where its name has none; its
//! steps per second times the batch size are its throughput; both of a pair have the whole device
//! (share 100 %), since the GPU switched between them. Two jobs of the same model are left out,
//! because a task runs at most once in a co-run; so are pairs that did not fit (rate 0). A MIG
//! slice of g sevenths is a share of g/7 without company.

use std::fs;
use std::path::Path;

use predict::{Active, Dataset, FitOptions, Method, Predictor, Sample, TaskSpec, fit};
use units::{Batch, Share};

use crate::mixes::Failure;
use crate::rows::Row;

const FOLDER: &str = "../shared/data";

fn spec(batches: Vec<Batch>) -> TaskSpec {
    TaskSpec {
        flops_per_sample: None,
        bytes_per_sample: None,
        batches,
    }
}

fn quick() -> FitOptions {
    FitOptions {
        validate: false,
        ..FitOptions::default()
    }
}

pub fn rows() -> Result<Vec<Row>, Failure> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(FOLDER);
    let mut rows = Vec::new();
    let gavel = folder.join("gavel/simulation_throughputs.json");
    if gavel.exists() {
        let text = fs::read_to_string(gavel)?;
        for (gpu, pairs, jobs) in [("v100", 10.4, 14.6), ("p100", 3.3, 7.8)] {
            let data = pairs_of(&text, gpu)?;
            rows.push(row(
                &format!("gavel_{gpu}_pairs"),
                ten_fold(&data)?,
                "percent",
                pairs,
                "mean absolute error of job rates, ten-fold by pair of different models",
            ));
            rows.push(row(
                &format!("gavel_{gpu}_jobs"),
                by_job(&data)?,
                "percent",
                jobs,
                "the same, all pairs of one job (model and batch size) left out in turn",
            ));
        }
    }
    let miso = folder.join("miso/mig_step_seconds.csv");
    if miso.exists() {
        let text = fs::read_to_string(miso)?;
        rows.push(row(
            "miso_unseen_sizes",
            slices(&text, &[2, 3, 4])?,
            "percent",
            6.0,
            "median error of throughput at a slice size of 2, 3 or 4 sevenths left out",
        ));
        rows.push(row(
            "miso_unseen_sizes_ends",
            slices(&text, &[1, 7])?,
            "percent",
            6.0,
            "the same at 1 or 7 sevenths, which is extrapolation",
        ));
    }
    Ok(rows)
}

fn row(name: &str, value: f64, unit: &'static str, goal: f64, what: &str) -> Row {
    Row {
        name: name.to_owned(),
        value,
        unit,
        baseline: "best of GP, LightGBM, gradient boosting; for MISO the goal",
        baseline_value: goal,
        what: what.to_owned(),
    }
}

/// Model and batch size of `('ResNet-18 (batch size 16)', 1)`.
fn job_of(name: &str) -> Result<(&str, Batch), Failure> {
    let inner = name
        .trim_start_matches("('")
        .split('\'')
        .next()
        .unwrap_or(name);
    match inner.split_once(" (batch size ") {
        Some((model, size)) => Ok((model, Batch::new(size.trim_end_matches(')').parse()?)?)),
        None => Ok((inner, Batch::new(1)?)),
    }
}

/// Solo runs first, then pairs. The file is indented by 4: `"('NAME', 1)": {` at 8 opens a job,
/// `"null": RATE` at 12 is it alone, `"('OTHER', 1)": [` at 12 begins the two rates of a pair.
fn pairs_of(text: &str, gpu: &str) -> Result<Dataset, Failure> {
    let start = text.find(&format!("\"{gpu}\": {{")).ok_or("no such GPU")?;
    let mut names: Vec<&str> = Vec::new();
    let mut solos: Vec<f64> = Vec::new();
    let mut pairs: Vec<(usize, &str, Vec<f64>)> = Vec::new();
    let mut job = None;
    for line in text[start..].lines().skip(1) {
        let (level, bare) = (
            line.len() - line.trim_start().len(),
            line.trim().trim_end_matches(','),
        );
        let key = bare
            .split("\": ")
            .next()
            .unwrap_or("")
            .trim_start_matches('"');
        if level == 4 && bare.starts_with('}') {
            break;
        } else if level == 8 && bare.ends_with('{') {
            job = key.ends_with(", 1)").then_some(names.len());
            if job.is_some() {
                names.push(key);
                solos.push(0.0);
            }
        } else if let Some(i) = job {
            if key == "null" {
                solos[i] = bare.rsplit(": ").next().unwrap_or("").parse()?;
            } else if level == 12 && bare.ends_with('[') {
                pairs.push((i, key, Vec::new()));
            } else if level == 16
                && let (Ok(v), Some(last)) = (bare.parse::<f64>(), pairs.last_mut())
            {
                last.2.push(v);
            }
        }
    }
    dataset(&names, &solos, pairs)
}

fn dataset(
    names: &[&str],
    solos: &[f64],
    pairs: Vec<(usize, &str, Vec<f64>)>,
) -> Result<Dataset, Failure> {
    let mut models: Vec<&str> = Vec::new();
    let mut place = Vec::new();
    for name in names {
        let (model, batch) = job_of(name)?;
        let task = models.iter().position(|m| *m == model).unwrap_or_else(|| {
            models.push(model);
            models.len() - 1
        });
        place.push((task, batch));
    }
    let one = |rates: &[(usize, f64)]| Sample {
        active: rates
            .iter()
            .map(|&(job, _)| Active {
                task: place[job].0,
                batch: place[job].1,
                share: Share::FULL,
            })
            .collect(),
        throughput: rates
            .iter()
            .map(|&(job, r)| r * place[job].1.as_f64())
            .collect(),
        stderr: None,
    };
    let mut samples: Vec<Sample> = solos
        .iter()
        .enumerate()
        .map(|(i, r)| one(&[(i, *r)]))
        .collect();
    for (i, other, rates) in pairs {
        let Some(j) = names.iter().position(|n| *n == other).filter(|j| i < *j) else {
            continue;
        };
        if let [a, b] = rates[..]
            && a > 0.0
            && b > 0.0
            && place[i].0 != place[j].0
        {
            samples.push(one(&[(i, a), (j, b)]));
        }
    }
    Ok(Dataset {
        tasks: vec![spec(Vec::new()); models.len()],
        samples,
    })
}

/// Absolute relative errors of one sample, percent.
fn errors(model: &Predictor, s: &Sample) -> Vec<f64> {
    let mut out = vec![0.0; s.active.len()];
    model.means(&s.active, &mut out);
    // A rate beside another job is never above the rate alone.
    let pairs = out.iter().zip(&s.active).zip(&s.throughput);
    pairs
        .map(|((p, a), t)| 100.0 * (p.min(model.solo(a.task, a.batch)) / t - 1.0).abs())
        .collect()
}

fn mean(v: &[f64]) -> f64 {
    v.iter().sum::<f64>() / v.len() as f64
}

fn ten_fold(data: &Dataset) -> Result<f64, Failure> {
    let mut all = Vec::new();
    for fold in 0..10 {
        let out = |k: usize| data.samples[k].active.len() > 1 && (k * 7) % 10 == fold;
        all.extend(held(data, &out)?);
    }
    Ok(mean(&all))
}

/// All pairs of one job left out, its solo run known; errors of both rates of its pairs.
fn by_job(data: &Dataset) -> Result<f64, Failure> {
    let mut all = Vec::new();
    let solos = data.samples.iter().filter(|s| s.active.len() == 1);
    for job in solos.map(|s| s.active[0]) {
        let out = |k: usize| {
            let s = &data.samples[k];
            s.active.len() > 1 && s.active.contains(&job)
        };
        all.extend(held(data, &out)?);
    }
    Ok(mean(&all))
}

fn held(data: &Dataset, out: &dyn Fn(usize) -> bool) -> Result<Vec<f64>, Failure> {
    let (mut train, mut left) = (data.clone(), Vec::new());
    train.samples.clear();
    for (k, s) in data.samples.iter().enumerate() {
        if out(k) {
            left.push(s);
        } else {
            train.samples.push(s.clone());
        }
    }
    let model = fit(&train, Method::Gp, &quick())?.predictor;
    Ok(left.iter().flat_map(|s| errors(&model, s)).collect())
}

/// Median error with each of `sizes` left out in turn.
fn slices(text: &str, sizes: &[u64]) -> Result<f64, Failure> {
    let mut models: Vec<&str> = Vec::new();
    let mut data = Dataset {
        tasks: Vec::new(),
        samples: Vec::new(),
    };
    let mut size = Vec::new();
    for line in text.lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        let (batch, g): (u64, u64) = (f[1].parse()?, f[2].parse()?);
        let task = models.iter().position(|m| *m == f[0]).unwrap_or_else(|| {
            models.push(f[0]);
            models.len() - 1
        });
        let step: f64 = f[5].parse()?;
        let hundredths = (10_000 * g + 3) / 7;
        size.push(g);
        data.samples.push(Sample {
            active: vec![Active {
                task,
                batch: Batch::new(batch)?,
                share: Share::from_hundredths(hundredths as u32),
            }],
            throughput: vec![batch as f64 / step],
            stderr: None,
        });
    }
    data.tasks = vec![spec(Vec::new()); models.len()];
    let mut all = Vec::new();
    for left in sizes {
        all.extend(held(&data, &|k| size[k] == *left)?);
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}
