use crate::profile::aim;
use crate::wire;
use crate::workload::optional;
use crate::{Aim, Checker, DeviceFingerprint, Document, Provenance, Workload};

/// A fitted predictor with the workload it was fitted to.
///
/// The parameters are kept as they stand in the document; `predict::Predictor::from_model`
/// checks and uses them.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// What was profiled.
    pub workload: Workload,
    /// On what it was profiled.
    pub device: DeviceFingerprint,
    /// The predictor.
    pub predictor: wire::ModelParams,
    /// What the configurations were chosen for.
    pub aim: Option<Aim>,
    /// Which tools made the document.
    pub provenance: Vec<Provenance>,
}

impl Document for Model {
    type Wire = wire::Model;

    fn from_wire(wire: &wire::Model, c: &mut Checker) -> Option<Self> {
        let workload = c.field("workload", |c| Workload::from_nested(&wire.workload, c));
        let aim = optional(c, "aim", wire.aim.as_ref(), aim);
        Some(Self {
            workload: workload?,
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
            provenance: self.provenance.clone(),
        }
    }
}
