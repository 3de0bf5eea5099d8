//! Generates clusters like that of Hare's evaluation, with its GPU types, its eight models and
//! their speeds.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use units::{Seconds, TaskId, UnitError, Weight};

use crate::Fleet;

/// What to generate.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// GPU types (k80, m60, t4, v100) and how many of each.
    pub gpus: Fleet,
    /// Jobs.
    pub jobs: usize,
    /// Offered load: the work that arrives, divided by the capacity of the GPUs over the same time.
    /// 0 or infinite: all jobs arrive at once.
    pub load: f64,
    /// Bandwidth of the network for synchronisation, in bits per second.
    pub network_bps: f64,
    /// Most tasks of a round; jobs have 1, 2, 4, … tasks up to this number.
    pub most_tasks: u32,
    /// Seed.
    pub seed: u64,
}

/// Invalid parts of a recipe.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RecipeError {
    /// A type that the evaluation does not have.
    #[error("--gpus: {0:?} is none of {known}", known = TYPES.join(", "))]
    Type(String),
    /// The load is negative or not a number.
    #[error("--load: {0} is not a number, 0 or more")]
    Load(f64),
    /// The bandwidth of the network is out of range.
    #[error("--network: {0} is out of range; give a number of Gbit/s from 0.000001 to 1e30")]
    Network(f64),
    /// A generated quantity is out of range.
    #[error("nothing can be generated: {0}")]
    Unit(#[from] UnitError),
}

impl Recipe {
    /// Least bandwidth of a network in bits per second: below it, exchanging a model takes years.
    const LEAST_BPS: f64 = 1e3;
    /// Largest bandwidth in bits per second: no network comes near it.
    const MOST_BPS: f64 = 1e39;

    fn check(&self) -> Result<(), RecipeError> {
        let known = |kind: &str| TYPES.contains(&kind);
        if let Some((other, _)) = self.gpus.iter().find(|(kind, _)| !known(kind)) {
            return Err(RecipeError::Type(other.clone()));
        }
        if self.load.is_nan() || self.load < 0.0 {
            return Err(RecipeError::Load(self.load));
        }
        if !(Self::LEAST_BPS..=Self::MOST_BPS).contains(&self.network_bps) {
            return Err(RecipeError::Network(self.network_bps / 1e9));
        }
        Ok(())
    }
}

/// A model of the evaluation. Speeds on M60, T4 and V100 are relative to a K80 and come from the
/// poster; a model that is not in the poster has the speeds of the nearest one that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Name, as in the poster.
    pub name: &'static str,
    /// Speeds on M60, T4 and V100, relative to a K80.
    pub speed: [f64; 3],
    /// Bytes of parameters (32 bits each), from the models' papers.
    pub bytes: f64,
    /// Memory of a training task in bytes, rough.
    pub memory: f64,
    /// Seconds of one training step on a V100: the poster's switching time divided by its share.
    pub step_s: f64,
}

const RESNET50: [f64; 3] = [1.5, 2.2, 6.9];
const RESNET152: [f64; 3] = [1.4, 2.2, 6.8];
const GRAPHSAGE: [f64; 3] = [1.2, 2.0, 2.2];
const LSTM: [f64; 3] = [1.4, 1.7, 4.1];
const TRANSFORMER: [f64; 3] = [1.3, 1.8, 5.6];

/// The models: three for images, two for text, one for speech and two for graphs. DeepSpeech has
/// the speeds of the poster's LSTM.
pub const MODELS: [Model; 8] = [
    model("VGG19", RESNET152, 575e6, 8e9, 0.152),
    model("ResNet50", RESNET50, 102e6, 6e9, 0.055),
    model("InceptionV3", RESNET152, 95e6, 6e9, 0.172),
    model("Bert_base", TRANSFORMER, 440e6, 10e9, 0.445),
    model("Transformer", TRANSFORMER, 260e6, 8e9, 0.426),
    model("DeepSpeech", LSTM, 150e6, 6e9, 0.342),
    model("FastGCN", GRAPHSAGE, 4e6, 3e9, 0.040),
    model("GraphSAGE", GRAPHSAGE, 2e6, 3e9, 0.029),
];

/// Models of each domain (images, text, speech, graphs), as indices of [`MODELS`]. Domains have
/// equal numbers of jobs.
const DOMAINS: [&[usize]; 4] = [&[0, 1, 2], &[3, 4], &[5], &[6, 7]];

const fn model(name: &'static str, speed: [f64; 3], bytes: f64, memory: f64, step_s: f64) -> Model {
    Model {
        name,
        speed,
        bytes,
        memory,
        step_s,
    }
}

impl Model {
    /// Speed on a type relative to a K80; `None` for a type that the poster does not have.
    pub fn speed_on(&self, kind: &str) -> Option<f64> {
        match kind {
            "k80" => Some(1.0),
            "m60" => Some(self.speed[0]),
            "t4" => Some(self.speed[1]),
            "v100" => Some(self.speed[2]),
            _ => None,
        }
    }

    /// Ten groups of layers, which share the bytes and a third of a step (its forward pass) evenly.
    pub fn layers(&self) -> Vec<doc::LayerGroup> {
        let layer = doc::LayerGroup {
            bytes: (self.bytes / 10.0).round(),
            compute_s: self.step_s / 30.0,
        };
        vec![layer; 10]
    }
}

/// GPU types that can be generated.
pub const TYPES: [&str; 4] = ["k80", "m60", "t4", "v100"];
/// Memory in bytes of each of [`TYPES`] (one of the two halves of K80 and M60).
const MEMORY: [f64; 4] = [12e9, 12e9, 16e9, 16e9];
/// Bytes per second of PCIe 3.0 x16, the poster's.
pub const BUS: f64 = 15.75e9;

/// Generates a random cluster. A task merges steps to 8 to 40 s on a V100, a job has 4 to 40
/// rounds, and a round has 1, 2, 4, … tasks up to the most; all three are uniform in the logarithm.
/// Weights are 1 to 5; arrivals are a Poisson process. (The poster gives no distributions: these
/// make jobs of 1 to 25 minutes.)
///
/// # Errors
/// [`RecipeError`] if a part of the recipe is invalid, or a generated quantity is out of range.
pub fn generate(recipe: &Recipe) -> Result<doc::Cluster, RecipeError> {
    recipe.check()?;
    let mut rng = SmallRng::seed_from_u64(recipe.seed);
    let groups = recipe.gpus.iter().map(|(kind, count)| doc::GpuGroup {
        id: None,
        kind: kind.clone(),
        count: Some(*count),
        node: None,
        uuid: None,
        memory: TYPES.iter().position(|t| t == kind).map(|i| MEMORY[i]),
        bus: Some(BUS),
    });
    let mut jobs = Vec::with_capacity(recipe.jobs);
    for n in 0..recipe.jobs {
        jobs.push(job(recipe, n, &mut rng)?);
    }
    spread_arrivals(recipe, &mut jobs, &mut rng)?;
    Ok(doc::Cluster {
        id: Some(format!("generated-{}", recipe.seed)),
        groups: groups.collect(),
        jobs,
        sharing: Vec::new(),
        provenance: Vec::new(),
    })
}

fn log_uniform(rng: &mut SmallRng, from: f64, to: f64) -> f64 {
    from * (to / from).powf(rng.random::<f64>())
}

fn job(recipe: &Recipe, n: usize, rng: &mut SmallRng) -> Result<doc::ClusterJob, UnitError> {
    let domain = DOMAINS[n % DOMAINS.len()];
    let model = &MODELS[domain[rng.random_range(0..domain.len())]];
    let on_v100 = log_uniform(rng, 8.0, 40.0);
    let steps = (on_v100 / model.step_s).round().max(1.0);
    let base = steps * model.step_s * model.speed[2];
    let doublings = recipe.most_tasks.max(1).ilog2();
    let tasks = 1 << rng.random_range(0..=doublings);
    let rounds = log_uniform(rng, 4.0, 40.0).round() as u32;
    // Ring all-reduce sends and receives the model about twice.
    let exchange = if tasks > 1 {
        2.0 * 8.0 * model.bytes / recipe.network_bps
    } else {
        0.0
    };
    let mut train = BTreeMap::new();
    let mut sync = BTreeMap::new();
    for (kind, _) in &recipe.gpus {
        if let Some(speed) = model.speed_on(kind) {
            train.insert(kind.clone(), Seconds::new(base / speed)?);
            sync.insert(kind.clone(), Seconds::new(exchange)?);
        }
    }
    Ok(doc::ClusterJob {
        id: TaskId::new(&format!("{n}-{}", model.name))?,
        weight: Weight::new(f64::from(rng.random_range(1..=5)))?,
        arrival: Seconds::ZERO,
        rounds,
        tasks,
        gang: None,
        train,
        sync,
        samples: None,
        model_bytes: Some(model.bytes),
        layers: model.layers(),
        memory: Some(model.memory),
        job: None,
    })
}

/// Sets the arrival of every job so that work arrives `load` times as fast as all GPUs together can
/// complete it.
fn spread_arrivals(
    recipe: &Recipe,
    jobs: &mut [doc::ClusterJob],
    rng: &mut SmallRng,
) -> Result<(), UnitError> {
    if recipe.load <= 0.0 || recipe.load.is_infinite() {
        return Ok(());
    }
    let mut hours = 0.0;
    for job in jobs.iter() {
        let volume = f64::from(job.rounds) * f64::from(job.tasks);
        let rate: f64 = recipe
            .gpus
            .iter()
            .filter_map(|(kind, count)| Some(f64::from(*count) / job.train.get(kind)?.get()))
            .sum();
        hours += volume / rate;
    }
    let spacing = hours / recipe.load / jobs.len().max(1) as f64;
    let mut at = 0.0;
    for job in jobs.iter_mut() {
        job.arrival = Seconds::new(at)?;
        at -= spacing * (1.0 - rng.random::<f64>()).ln();
    }
    Ok(())
}
