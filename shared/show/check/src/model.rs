//! Checks a model: whether it can predict, whether its predictions are possible and, if its profile precedes it
//! in the stream, whether fitting that profile gives the same model.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;

use device::{Device, Options, Sim};
use doc::params::ModelParams;
use doc::{DeviceFingerprint, DeviceKind, Method, Model, Profile, RunEvent, Workload};
use predict::runs::RunError;
use predict::{Dataset, FitOptions, Fitted, PredictError, Predictor, fit, fit_by_merit, runs};
use units::Share;
use units::corun::Setting;

use crate::judge::{Judge, shown};
use crate::{efficiency, workload};

/// Maximum number of co-runs of all tasks in a model; the same maximum holds for its runs of only some tasks.
const MOST_MEASURED: usize = 256;

/// Judges a model.
pub fn judge(model: &Model, j: &mut Judge) {
    j.field("workload", |j| workload::judge(&model.workload, j));
    kind(&model.workload, &model.device, j);
    simulator(&model.workload, &model.device, j);
    match Predictor::from_model(model) {
        Err(error) => j.contradiction("predictor", "parameters of a predictor", error),
        Ok(predictor) => predictions(model, &predictor, j),
    }
    measured(model, j);
}

/// Measured co-runs have unique numbers, and batch sizes of the workload.
fn measured(model: &Model, j: &mut Judge) {
    let mut seen = BTreeSet::new();
    for (at, corun) in model.measured.iter().enumerate() {
        j.field("measured", |j| {
            j.index(at, |j| {
                if !seen.insert(corun.config) {
                    j.contradiction("config", corun.config, "a number that is used once");
                }
                for (k, run) in corun.tasks.iter().enumerate() {
                    let task = model
                        .workload
                        .task_index(&run.id)
                        .map(|i| &model.workload.tasks[i]);
                    if task.is_some_and(|t| !t.batch_sizes.contains(&run.batch)) {
                        let truth = "one of the workload's batch sizes";
                        j.field("tasks", |j| {
                            j.index(k, |j| j.contradiction("batch", run.batch, truth))
                        });
                    }
                }
            });
        });
    }
}

/// The kind of device in the workload is that of the fingerprint, since the profiler writes it there; a
/// recording may come from any kind.
pub fn kind(workload: &Workload, device: &DeviceFingerprint, j: &mut Judge) {
    if device.kind == DeviceKind::Replay {
        return;
    }
    let name = |kind: DeviceKind| doc::name_of(&kind);
    j.field("device", |j| {
        j.same("kind", name(device.kind), name(workload.device.kind));
        let simulated = device.kind == DeviceKind::Sim;
        j.same("simulated", device.simulated, simulated);
    });
}

/// A simulated device must be the one that the simulator itself reports.
pub fn simulator(workload: &Workload, device: &DeviceFingerprint, j: &mut Judge) {
    if device.kind != DeviceKind::Sim {
        return;
    }
    let Ok(sim) = Sim::open(workload, &Options::default()) else {
        return;
    };
    let own = sim.fingerprint();
    j.field("device", |j| {
        j.same("simulated", device.simulated, true);
        j.same("name", &device.name, &own.name);
        j.same_option("units", device.units, own.units);
    });
}

/// Throughput is finite and above 0, alone and together at full share.
fn predictions(model: &Model, predictor: &Predictor, j: &mut Judge) {
    let tasks = &model.workload.tasks;
    if predictor.task_count() != tasks.len() {
        return j.contradiction("predictor", predictor.task_count(), tasks.len());
    }
    for (i, task) in tasks.iter().enumerate() {
        for &batch in &task.batch_sizes {
            let rate = predictor.solo(i, batch);
            if !(rate.is_finite() && rate > 0.0) {
                let claimed = format!("{rate} samples/s of {} at batch size {batch}", task.id);
                j.contradiction("predictor", claimed, "a finite number above 0");
            }
        }
    }
    let together: Vec<Setting> = tasks
        .iter()
        .enumerate()
        .map(|(i, task)| Setting {
            task: i,
            batch: task.batch_sizes[0],
            share: Share::FULL,
        })
        .collect();
    for (task, p) in tasks.iter().zip(predictor.predict(&together)) {
        let fine = p.samples_per_s.is_finite() && p.samples_per_s > 0.0 && p.std_error >= 0.0;
        if !fine {
            let claimed = format!(
                "{} samples/s of {} with all others",
                p.samples_per_s, task.id
            );
            j.contradiction("predictor", claimed, "a finite number above 0");
        }
    }
}

/// A profile and the model fitted to it, which is computed when first needed.
pub struct Refit {
    profile: Box<Profile>,
    /// Runs whose measurements were added to the profile.
    runs: Vec<Vec<RunEvent>>,
    by_merit: OnceCell<Result<ModelParams, PredictError>>,
    by_family: RefCell<Vec<(Method, Result<ModelParams, PredictError>)>>,
}

impl Refit {
    /// Wraps a profile; nothing is fitted yet.
    pub fn new(profile: Box<Profile>) -> Self {
        Self {
            profile,
            runs: Vec::new(),
            by_merit: OnceCell::new(),
            by_family: RefCell::default(),
        }
    }

    /// Whether the profile has the workload and device of a model.
    pub fn concerns(&self, model: &Model) -> bool {
        let header = &self.profile.header;
        let mut workload = model.workload.clone();
        // Fitting may add an efficiency that the workload of the profile lacks.
        for (task, declared) in workload.tasks.iter_mut().zip(&header.workload.tasks) {
            task.efficiency.clone_from(&declared.efficiency);
        }
        header.workload == workload && header.device == model.device
    }

    fn efficiencies(&self, model: &Model, j: &mut Judge) {
        let declared = &self.profile.header.workload.tasks;
        j.field("workload", |j| {
            j.field("tasks", |j| {
                for (i, (task, declared)) in model.workload.tasks.iter().zip(declared).enumerate() {
                    j.index(i, |j| {
                        efficiency::of_model(task, declared, &self.profile, &self.runs, j);
                    });
                }
            });
        });
    }

    /// The profile with the measurements of a run; `None` if the run has none of its tasks on its device.
    pub fn joined(&self, events: &[RunEvent]) -> Option<Self> {
        let mut profile = self.profile.clone();
        match runs::join(&mut profile, events) {
            Ok(_) | Err(RunError::Nothing) => {}
            Err(_) => return None,
        }
        let mut runs = self.runs.clone();
        runs.push(events.to_vec());
        Some(Self {
            runs,
            ..Self::new(profile)
        })
    }

    /// Whether the model equals the result of fitting.
    pub fn is_source_of(&self, model: &Model) -> bool {
        let mut own = Judge::new();
        self.judge(model, &mut own);
        own.lies.is_empty()
    }

    /// Whether the model has the same task names.
    pub fn resembles(&self, model: &Model) -> bool {
        let names = |w: &Workload| w.tasks.iter().map(|t| t.id.clone()).collect::<Vec<_>>();
        names(&self.profile.header.workload) == names(&model.workload)
    }

    /// Every measurement in a model must be in the profile. If the profile has few co-runs, the model must
    /// include all of them.
    fn measured(&self, model: &Model, j: &mut Judge) {
        let tasks = &model.workload.tasks;
        let usable = |s: &&doc::Sample| {
            let kept = |m: &doc::Measured| {
                let task = tasks.iter().find(|t| t.id == m.id);
                task.is_some_and(|t| t.batch_sizes.contains(&m.batch)) && m.throughput.get() > 0.0
            };
            s.tasks.iter().all(kept)
        };
        let samples = self.profile.samples.iter().filter(usable);
        let (whole, parts): (Vec<_>, Vec<_>) = samples.partition(|s| s.tasks.len() == tasks.len());
        // Of the runs of only some tasks, a model keeps those whose tasks and batch sizes occur in one of its
        // co-runs: they show how that co-run continues when tasks have ended.
        let carried = || {
            model
                .measured
                .iter()
                .filter(|c| c.tasks.len() == tasks.len())
        };
        let among = |m: &doc::Measured, c: &doc::Corun| {
            let same = |t: &doc::Measured| (&t.id, t.batch) == (&m.id, m.batch);
            c.tasks.iter().any(same)
        };
        let is_part = |s: &&&doc::Sample| carried().any(|c| s.tasks.iter().all(|m| among(m, c)));
        let parts = parts.iter().filter(is_part).count();
        let all = whole.len().min(MOST_MEASURED) + parts.min(MOST_MEASURED);
        // A model may omit all co-runs; if there are too many, it keeps the best.
        if !model.measured.is_empty() && model.measured.len() != all {
            let truth = format!("{all} of the profile");
            j.contradiction(
                "measured",
                format!("{} co-runs", model.measured.len()),
                truth,
            );
        }
        for (at, corun) in model.measured.iter().enumerate() {
            let samples = &self.profile.samples;
            let same = |m: &doc::Measured| corun.tasks.contains(m);
            let sample = samples.iter().find(|s| s.config == corun.config);
            let found = sample
                .is_some_and(|s| s.tasks.len() == corun.tasks.len() && s.tasks.iter().all(same));
            if !found {
                j.field("measured", |j| {
                    let truth = "what configuration of that number gave in the profile";
                    j.index(at, |j| j.contradiction("config", corun.config, truth));
                });
            }
        }
    }

    /// Fitting the same data must give the same parameters, with either the family that fits best or the family
    /// that the model names.
    pub fn judge(&self, model: &Model, j: &mut Judge) {
        // The aim decides mt-solve's default objective.
        if model.aim != self.profile.header.aim {
            let words = |aim: Option<doc::Aim>| {
                aim.map(|aim| {
                    let floor = aim.starvation_floor.unwrap_or(0.0);
                    format!("{} with a floor of {floor}", doc::name_of(&aim.objective))
                })
            };
            let truth = words(self.profile.header.aim);
            j.contradiction("aim", shown(words(model.aim)), shown(truth));
        }
        self.measured(model, j);
        self.efficiencies(model, j);
        let data = || Dataset::from_profile(&self.profile);
        let options = FitOptions::default();
        let params = |fitted: Fitted| fitted.params(&model.workload);
        let by_merit = self
            .by_merit
            .get_or_init(|| fit_by_merit(&data(), &options).map(params));
        if by_merit.as_ref().is_ok_and(|own| *own == model.predictor) {
            return;
        }
        let method = model.predictor.method;
        let mut families = self.by_family.borrow_mut();
        // Each family is fitted once: models of several families may follow one profile.
        if !families.iter().any(|(of, _)| *of == method) {
            families.push((method, fit(&data(), method, &options).map(params)));
        }
        let Some((_, by_family)) = families.iter().find(|(of, _)| *of == method) else {
            return;
        };
        match by_family {
            Ok(own) if *own == model.predictor => {}
            // If the best family is that of the model, comparing with its fit gives the clearer message.
            Ok(own) => {
                let near = by_merit.as_ref().ok().filter(|o| o.method == method);
                let (claimed, recomputed) = difference(&model.predictor, near.unwrap_or(own));
                j.contradiction("predictor", claimed, recomputed);
            }
            Err(error) => j.contradiction("predictor", "a fitted predictor", error),
        }
    }
}

/// The first line of the documents in which the parameters differ, in both versions.
fn difference(claimed: &ModelParams, own: &ModelParams) -> (String, String) {
    let text = |params| serde_json::to_string_pretty(params).unwrap_or_default();
    let (claimed, own) = (text(claimed), text(own));
    let pair = claimed.lines().zip(own.lines()).find(|(a, b)| a != b);
    let (a, b) = pair.unwrap_or(("a list", "one of another length"));
    let bare = |line: &str| line.trim().trim_end_matches(',').to_owned();
    (bare(a), bare(b))
}
