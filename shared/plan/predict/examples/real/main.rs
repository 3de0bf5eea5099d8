//! Learns recorded co-runs and predicts those that were held out.
//!
//! `bench-real FOLDER`: every `NAME.csv` in the folder is a problem with the columns
//! `set,config,task,model,batch,share_percent,throughput`, tasks and their models numbered from 0; rows of the set `train`
//! are learnt as `mt-fit` learns a profile, those of `held` predicted. Writes `NAME.out` with
//! `config,task,samples_per_s,std_error` and, as the last line, the CPU seconds of the fit.
//! `benches/real` makes the problems of measurements by others and judges the answers.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use predict::{Dataset, FitOptions, Sample, TaskSpec, fit_by_merit};
use units::corun::Setting;
use units::{Batch, Share};

type Configurations = BTreeMap<usize, (Vec<Setting>, Vec<f64>)>;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: bench-real FOLDER")?;
    let mut problems: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    problems.retain(|p| p.extension().is_some_and(|e| e == "csv"));
    problems.sort();
    for path in problems {
        let text = answers(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        fs::write(path.with_extension("out"), text)?;
    }
    Ok(())
}

/// Predictions of the held-out configurations of one problem.
fn answers(path: &Path) -> Result<String, Box<dyn Error>> {
    let (train, held, models) = read(path)?;
    let tasks = train
        .values()
        .flat_map(|(a, _)| a)
        .map(|a| a.task + 1)
        .max();
    let mut batches = vec![Vec::new(); tasks.unwrap_or(0)];
    for a in train.values().flat_map(|(active, _)| active) {
        if !batches[a.task].contains(&a.batch) {
            batches[a.task].push(a.batch);
        }
    }
    let like = |task: usize| models[..task].iter().position(|m| *m == models[task]);
    let tasks = batches
        .into_iter()
        .enumerate()
        .map(|(task, batches)| TaskSpec {
            flops_per_sample: None,
            bytes_per_sample: None,
            batches,
            copy_of: like(task),
        });
    let samples = train.into_values().map(|(active, throughput)| Sample {
        active,
        throughput,
        stderr: None,
    });
    let data = Dataset {
        tasks: tasks.collect(),
        samples: samples.collect(),
    };
    let start = Instant::now();
    let model = fit_by_merit(&data, &FitOptions::default())?.predictor;
    let seconds = start.elapsed().as_secs_f64();
    let mut out = String::new();
    for (config, (active, _)) in held {
        for (a, p) in active.iter().zip(model.predict(&active)) {
            writeln!(
                out,
                "{config},{},{},{}",
                a.task, p.samples_per_s, p.std_error
            )?;
        }
    }
    writeln!(out, "# {seconds}")?;
    Ok(out)
}

/// What is learnt, what is held out, and the model of every task.
fn read(path: &Path) -> Result<(Configurations, Configurations, Vec<usize>), Box<dyn Error>> {
    let (mut train, mut held) = (Configurations::new(), Configurations::new());
    let mut models = Vec::new();
    for line in fs::read_to_string(path)?.lines().skip(1) {
        let [set, config, task, model, batch, share, rate] =
            line.split(',').collect::<Vec<_>>()[..]
        else {
            return Err(format!("{line:?} has not seven cells").into());
        };
        let into = if set == "train" {
            &mut train
        } else {
            &mut held
        };
        let (task, model): (usize, usize) = (task.parse()?, model.parse()?);
        models.resize(models.len().max(task + 1), usize::MAX);
        models[task] = model;
        let (active, throughput) = into.entry(config.parse()?).or_default();
        active.push(Setting {
            task,
            batch: Batch::new(batch.parse()?)?,
            share: Share::from_percent(share.parse()?)?,
        });
        throughput.push(rate.parse()?);
    }
    Ok((train, held, models))
}
