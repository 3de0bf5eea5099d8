use crate::checker::optional;
use crate::profile::{Measured, aim, measured};
use crate::wire;
use crate::{Aim, Checker, Code, DeviceFingerprint, Document, Provenance, Workload};

/// A fitted predictor with the workload it was fitted to.
///
/// The parameters are kept in the form of the document; `predict::Predictor::from_model` checks
/// them and builds the predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The profiled workload.
    pub workload: Workload,
    /// The device on which it was profiled.
    pub device: DeviceFingerprint,
    /// The predictor.
    pub predictor: wire::ModelParams,
    /// The objective that the profiled configurations were chosen for.
    pub aim: Option<Aim>,
    /// Measured co-runs of all tasks, from which a plan may choose, and measured runs of only some
    /// of the tasks.
    pub measured: Vec<Corun>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

/// A measured run of all or some tasks of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Corun {
    /// Number of the configuration in the profile.
    pub config: u64,
    /// Measurement of each task that ran, in the order of the workload; every throughput is above
    /// 0.
    pub tasks: Vec<Measured>,
}

impl Document for Model {
    type Wire = wire::Model;

    fn from_wire(wire: &wire::Model, c: &mut Checker) -> Option<Self> {
        let workload = c.field("workload", |c| Workload::from_nested(&wire.workload, c));
        let aim = optional(c, "aim", wire.aim.as_ref(), aim);
        let workload = workload?;
        let measured = c.list("measured", &wire.measured, |w, c| corun(w, &workload, c));
        Some(Self {
            measured: measured?,
            workload,
            device: wire.device.clone(),
            predictor: wire.predictor.clone(),
            aim: aim?,
            provenance: wire.provenance.clone(),
        })
    }

    fn to_wire(&self) -> wire::Model {
        wire::Model {
            schema: <wire::Model as wire::Wire>::SCHEMA.to_owned(),
            workload: self.workload.to_wire(),
            device: self.device.clone(),
            predictor: self.predictor.clone(),
            aim: self.aim,
            measured: self.measured.iter().map(Corun::to_wire).collect(),
            provenance: self.provenance.clone(),
        }
    }
}

/// Checks a measured run: it names tasks of the workload once each, in the workload's order, and
/// each has a throughput above 0.
fn corun(wire: &wire::Corun, workload: &Workload, c: &mut Checker) -> Option<Corun> {
    let tasks = c.list("tasks", &wire.tasks, measured)?;
    let names = |ids: &mut dyn Iterator<Item = &str>| ids.collect::<Vec<_>>().join(", ");
    // `any` continues from where it stopped, so each task must come after the previous one.
    let mut order = workload.tasks.iter();
    if tasks.is_empty() || !tasks.iter().all(|t| order.any(|known| known.id == t.id)) {
        let known = names(&mut workload.tasks.iter().map(|t| t.id.as_str()));
        let given = names(&mut tasks.iter().map(|t| t.id.as_str()));
        c.field("tasks", |c| {
            let problem = format_args!("it names {given}, the workload {known}");
            c.fault(
                Code::Conflict,
                problem,
                "name tasks of the workload once each, in its order",
            );
        });
        return None;
    }
    for (i, task) in tasks
        .iter()
        .enumerate()
        .filter(|(_, t)| t.throughput.get() <= 0.0)
    {
        c.field("tasks", |c| {
            let problem = format_args!("{} did not advance", task.id);
            c.index(i, |c| {
                c.field("samples_per_s", |c| {
                    c.fault(Code::OutOfRange, problem, "leave out such co-runs");
                });
            });
        });
    }
    Some(Corun {
        config: wire.config,
        tasks,
    })
}

impl Corun {
    fn to_wire(&self) -> wire::Corun {
        wire::Corun {
            config: self.config,
            tasks: self.tasks.iter().map(Measured::to_wire).collect(),
        }
    }
}
