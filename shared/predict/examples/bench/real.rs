//! Real measurements by others: pairs of jobs (Gavel), MIG slices (MISO). Nothing here without
//! `../shared/data`.
//!
//! Assumed: a Gavel job (model and batch size) is a task with one batch size; its steps per second
//! are its throughput; both of a pair have the whole device (share 100 %), since the GPU switched
//! between them. A job paired with itself is left out, because a task runs at most once in a
//! co-run; so are pairs that did not fit (rate 0). A MIG slice of g sevenths is a share of g/7
//! without company.

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
                "mean absolute error of job rates, ten-fold by pair",
            ));
            rows.push(row(
                &format!("gavel_{gpu}_jobs"),
                by_job(&data)?,
                "percent",
                jobs,
                "mean absolute error of job rates, one job left out",
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

/// Solo runs first, then pairs. The file is Python-like: `"('NAME', 1)": {` opens a job, `"null":
/// RATE` is it alone, `"('OTHER', 1)": [A, B]` a pair; indentation tells the levels.
fn pairs_of(text: &str, gpu: &str) -> Result<Dataset, Failure> {
    let mut data = Dataset {
        tasks: Vec::new(),
        samples: Vec::new(),
    };
    let start = text.find(&format!("\"{gpu}\": {{")).ok_or("no such GPU")?;
    let mut names: Vec<&str> = Vec::new();
    let mut pairs: Vec<(usize, &str, Vec<f64>)> = Vec::new();
    let mut numbers: Option<(usize, &str, Vec<f64>)> = None;
    let mut job = None;
    for line in text[start..].lines().skip(1) {
        let level = line.len() - line.trim_start().len();
        let key = line
            .trim()
            .split("\": ")
            .next()
            .unwrap_or("")
            .trim_start_matches('"');
        if level == 4 && line.trim_start().starts_with('}') {
            break;
        } else if level == 8 && line.ends_with('{') {
            job = key.ends_with(", 1)").then(|| {
                names.push(key);
                names.len() - 1
            });
        } else if let Some(i) = job {
            if key == "null" {
                let rate: f64 = line
                    .trim()
                    .trim_end_matches(',')
                    .rsplit(": ")
                    .next()
                    .unwrap_or("")
                    .parse()?;
                data.samples.push(sample(&[(i, rate)])?);
            } else if level == 12 && line.ends_with('[') {
                numbers = Some((i, key, Vec::new()));
            } else if let Ok(v) = line.trim().trim_end_matches(',').parse::<f64>() {
                if let Some(n) = &mut numbers {
                    n.2.push(v);
                }
            } else if let Some(n) = numbers.take() {
                pairs.push(n);
            }
        }
    }
    data.tasks = vec![spec(vec![Batch::new(1)?]); names.len()];
    for (i, other, rates) in pairs {
        let Some(j) = names.iter().position(|n| *n == other).filter(|j| i < *j) else {
            continue;
        };
        if let [a, b] = rates[..]
            && a > 0.0
            && b > 0.0
        {
            data.samples.push(sample(&[(i, a), (j, b)])?);
        }
    }
    Ok(data)
}

fn sample(rates: &[(usize, f64)]) -> Result<Sample, Failure> {
    let batch = Batch::new(1)?;
    Ok(Sample {
        active: rates
            .iter()
            .map(|&(task, _)| Active {
                task,
                batch,
                share: Share::FULL,
            })
            .collect(),
        throughput: rates.iter().map(|r| r.1).collect(),
        stderr: None,
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
    let solos = data.tasks.len();
    let mut all = Vec::new();
    for fold in 0..10 {
        let out = |k: usize| k >= solos && (k * 7) % 10 == fold;
        all.extend(held(data, &out, &|_| true)?);
    }
    Ok(mean(&all))
}

/// All pairs of one job left out, its solo run known; errors of both rates of its pairs.
fn by_job(data: &Dataset) -> Result<f64, Failure> {
    let mut all = Vec::new();
    for job in 0..data.tasks.len() {
        let out = |k: usize| {
            let s = &data.samples[k];
            s.active.len() > 1 && s.active.iter().any(|a| a.task == job)
        };
        all.extend(held(data, &out, &|_| true)?);
    }
    Ok(mean(&all))
}

fn held(
    data: &Dataset,
    out: &dyn Fn(usize) -> bool,
    test: &dyn Fn(&Sample) -> bool,
) -> Result<Vec<f64>, Failure> {
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
    let tested = left.iter().filter(|s| test(s));
    Ok(tested.flat_map(|s| errors(&model, s)).collect())
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
        all.extend(held(&data, &|k| size[k] == *left, &|_| true)?);
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}
