//! Simulated profiles, the basis of this crate's figures.
//!
//! Batches 32 to 256, shares in steps of 10 %, a simulated RTX 3090. A measurement is the true value multiplied by
//! `1 + 0.015 z`, z standard normal; the held-out configurations are compared without noise. Every seed has its own solo
//! runs (one per task and batch) and its own training configurations, of which the first n are used.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gpusim::{Gpu, Network, Program, SimOptions, SimTask, Simulator};
use predict::{Dataset, Sample, TaskSpec};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use units::corun::Setting;
use units::{Batch, Share};

pub type Failure = Box<dyn std::error::Error>;

pub const BATCHES: [u64; 4] = [32, 64, 128, 256];
pub const SEEDS: u64 = 5;
pub const HELD_OUT: usize = 1500;
pub const MOST_SAMPLES: usize = 125;
const NOISE: f64 = 0.015;

/// Name and models of each mix.
pub type Mixes = [(&'static str, &'static [&'static str]); 4];

/// The mixes of the reported figures.
const MIXES: Mixes = [
    ("light", &["resnet18", "vgg16", "mobilenet_v3_large"]),
    ("middle", &["resnet34", "resnet50", "shufflenet_v2_x1_0"]),
    ("heavy", &["vgg16", "resnet101", "densenet121"]),
    (
        "five",
        &["vgg16", "resnet18", "resnet34", "resnet50", "densenet121"],
    ),
];

/// Other mixes, with other seeds, for trying ideas, so that no choice depends on the configurations of the reported
/// figures.
const TRIALS: Mixes = [
    (
        "trial_light",
        &["alexnet", "resnet34", "shufflenet_v2_x1_0"],
    ),
    ("trial_middle", &["resnet50", "mobilenet_v3_large", "vgg16"]),
    ("trial_heavy", &["resnet18", "densenet121", "resnet50"]),
    (
        "trial_five",
        &[
            "alexnet",
            "resnet50",
            "mobilenet_v3_large",
            "resnet18",
            "vgg16",
        ],
    ),
];
/// Added to the seeds of the trials.
const TRIAL_SEED: u64 = 5000;

/// A configuration with its measurement and its true value.
#[derive(Debug, Clone)]
pub struct Measured {
    pub active: Vec<Setting>,
    pub truth: Vec<f64>,
    pub measured: Vec<f64>,
}

/// One workload with all its data.
pub struct Mix {
    pub tasks: Vec<TaskSpec>,
    /// Solo runs, by seed.
    pub solos: Vec<Vec<Measured>>,
    /// Training configurations, by seed.
    pub train: Vec<Vec<Measured>>,
    pub held_out: Vec<Measured>,
}

/// Its profile.
pub fn sample(m: &Measured) -> Sample {
    Sample {
        active: m.active.clone(),
        throughput: m.measured.clone(),
        stderr: None,
    }
}

impl Mix {
    /// The solo runs and the first `n` training configurations of a seed.
    pub fn dataset(&self, seed: usize, n: usize) -> Dataset {
        let samples = self.solos[seed].iter().chain(&self.train[seed][..n]);
        Dataset {
            tasks: self.tasks.clone(),
            samples: samples.map(sample).collect(),
        }
    }
}

/// The simulator with the programs of one mix, compiled once.
pub struct Bed {
    sim: Simulator,
    programs: BTreeMap<(usize, u32), Program>,
}

impl Bed {
    pub fn new(models: &[&str]) -> Result<(Self, Vec<TaskSpec>), Failure> {
        let sim = Simulator::new(Gpu::built_in("rtx-3090")?);
        let batches: Vec<Batch> = BATCHES
            .iter()
            .map(|b| Batch::new(*b))
            .collect::<Result<_, _>>()?;
        let mut programs = BTreeMap::new();
        let mut tasks = Vec::new();
        for (i, model) in models.iter().enumerate() {
            let network = Network::by_name(model)?;
            for b in &batches {
                programs.insert((i, b.get()), sim.program(&network, *b, None)?);
            }
            tasks.push(TaskSpec {
                flops_per_sample: Some(network.flops_per_sample()),
                bytes_per_sample: Some(network.bytes_per_sample()),
                batches: batches.clone(),
                copy_of: None,
            });
        }
        Ok((Self { sim, programs }, tasks))
    }

    /// True throughput of each task.
    pub fn truth(&self, active: &[Setting]) -> Vec<f64> {
        let tasks: Vec<SimTask<'_>> = active
            .iter()
            .map(|a| SimTask {
                program: &self.programs[&(a.task, a.batch.get())],
                share: a.share,
            })
            .collect();
        let options = SimOptions {
            seed: 1,
            min_steps: 8,
        };
        self.sim.run(&tasks, &options).samples_per_s
    }

    pub fn measure(&self, active: Vec<Setting>, rng: &mut StdRng) -> Measured {
        let truth = self.truth(&active);
        let measured = truth
            .iter()
            .map(|t| t * (1.0 + NOISE * normal(rng)))
            .collect();
        Measured {
            active,
            truth,
            measured,
        }
    }
}

/// A standard normal number (Box and Muller).
pub fn normal(rng: &mut StdRng) -> f64 {
    let u: f64 = rng.random_range(f64::MIN_POSITIVE..1.0);
    let v: f64 = rng.random();
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// All tasks at a random batch and share.
pub fn draw(tasks: usize, rng: &mut StdRng) -> Result<Vec<Setting>, Failure> {
    (0..tasks)
        .map(|task| {
            Ok(Setting {
                task,
                batch: Batch::new(BATCHES[rng.random_range(0..BATCHES.len())])?,
                share: Share::from_percent(10.0 * f64::from(rng.random_range(1..=10_u32)))?,
            })
        })
        .collect()
}

/// The solo runs of all tasks at all batch sizes.
pub fn alone(bed: &Bed, tasks: usize, rng: &mut StdRng) -> Result<Vec<Measured>, Failure> {
    let mut solos = Vec::new();
    for task in 0..tasks {
        for b in BATCHES {
            let alone = Setting {
                task,
                batch: Batch::new(b)?,
                share: Share::FULL,
            };
            solos.push(bed.measure(vec![alone], rng));
        }
    }
    Ok(solos)
}

/// Simulates one mix.
fn simulate(models: &[&str], base: u64) -> Result<Mix, Failure> {
    let (bed, tasks) = Bed::new(models)?;
    let mut mix = Mix {
        tasks,
        solos: Vec::new(),
        train: Vec::new(),
        held_out: Vec::new(),
    };
    for seed in 0..SEEDS {
        let mut rng = StdRng::seed_from_u64(base + 100 + seed);
        let solos = alone(&bed, models.len(), &mut rng)?;
        mix.solos.push(solos);
        let mut train = Vec::new();
        for _ in 0..MOST_SAMPLES {
            let active = draw(models.len(), &mut rng)?;
            train.push(bed.measure(active, &mut rng));
        }
        mix.train.push(train);
    }
    let mut rng = StdRng::seed_from_u64(base + 7);
    for _ in 0..HELD_OUT {
        let active = draw(models.len(), &mut rng)?;
        mix.held_out.push(bed.measure(active, &mut rng));
    }
    Ok(mix)
}

fn write(mix: &Mix, path: &Path) -> Result<(), Failure> {
    let mut out = String::from("set,config,task,batch,share_percent,measured,truth\n");
    let sets = (0..mix.train.len())
        .flat_map(|s| {
            [
                (format!("solo{s}"), &mix.solos[s]),
                (format!("train{s}"), &mix.train[s]),
            ]
        })
        .chain([("held".to_owned(), &mix.held_out)]);
    for (set, list) in sets {
        for (k, m) in list.iter().enumerate() {
            for (i, a) in m.active.iter().enumerate() {
                out += &format!(
                    "{set},{k},{},{},{},{},{}\n",
                    a.task,
                    a.batch,
                    a.share.percent(),
                    m.measured[i],
                    m.truth[i]
                );
            }
        }
    }
    fs::write(path, out)?;
    Ok(())
}

fn read(models: &[&str], path: &Path) -> Result<Mix, Failure> {
    let (_, tasks) = Bed::new(models)?;
    let mut sets: BTreeMap<String, BTreeMap<usize, Measured>> = BTreeMap::new();
    for line in fs::read_to_string(path)?.lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        let m = sets
            .entry(f[0].to_owned())
            .or_default()
            .entry(f[1].parse()?)
            .or_insert_with(|| Measured {
                active: Vec::new(),
                truth: Vec::new(),
                measured: Vec::new(),
            });
        m.active.push(Setting {
            task: f[2].parse()?,
            batch: Batch::new(f[3].parse()?)?,
            share: Share::from_percent(f[4].parse()?)?,
        });
        m.measured.push(f[5].parse()?);
        m.truth.push(f[6].parse()?);
    }
    let mut take = |set: String| -> Vec<Measured> {
        sets.remove(&set)
            .unwrap_or_default()
            .into_values()
            .collect()
    };
    Ok(Mix {
        tasks,
        solos: (0..SEEDS).map(|s| take(format!("solo{s}"))).collect(),
        train: (0..SEEDS).map(|s| take(format!("train{s}"))).collect(),
        held_out: take("held".to_owned()),
    })
}

/// Names and models, and what is added to seeds.
pub fn list(trial: bool) -> (Mixes, u64) {
    if trial {
        (TRIALS, TRIAL_SEED)
    } else {
        (MIXES, 0)
    }
}

/// All mixes, or those for trials: read from `folder` where they were written before, else
/// simulated (and written).
pub fn all(folder: Option<&Path>, trial: bool) -> Result<Vec<Mix>, Failure> {
    let mut mixes = Vec::new();
    let (list, base) = list(trial);
    for (name, models) in list {
        let path = folder.map(|f| f.join(format!("{name}.csv")));
        let mix = match &path {
            Some(p) if p.exists() => read(models, p)?,
            _ => simulate(models, base)?,
        };
        if let Some(p) = path.filter(|p| !p.exists()) {
            fs::create_dir_all(p.parent().unwrap_or(Path::new(".")))?;
            write(&mix, &p)?;
        }
        mixes.push(mix);
    }
    Ok(mixes)
}
