use units::{Samples, SamplesPerSec, Share, TaskId};

use super::answer::{Estimate, Given};
use crate::checker::optional;
use crate::workload::validate::update_bytes;
use crate::{Checker, UpdateBytes, wire};

/// The work of one task of a plan, and its GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanTask {
    /// Name.
    pub id: TaskId,
    /// Number of the GPU, from 0; absent if the plan does not give one.
    pub gpu: Option<u32>,
    /// Number of samples per round.
    pub samples: Option<Samples>,
    /// Exponential average of the samples over past rounds; absent if the plan is not damped.
    pub load: Option<Samples>,
    /// Bytes to transfer per round.
    pub update_bytes: Option<UpdateBytes>,
}

pub(super) fn plan_task(wire: &wire::PlanTask, c: &mut Checker) -> Option<PlanTask> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let samples = c.optional_unit("samples", wire.samples, Samples::new);
    let load = c.optional_unit("load_samples", wire.load_samples, Samples::new);
    let update = optional(c, "update_bytes", wire.update_bytes.as_ref(), update_bytes);
    Some(PlanTask {
        id: id?,
        gpu: wire.gpu,
        samples: samples?,
        load: load?,
        update_bytes: update?,
    })
}

impl PlanTask {
    pub(super) fn to_wire(&self, given: Given) -> wire::PlanTask {
        wire::PlanTask {
            id: self.id.as_str().to_owned(),
            batch: given.batch.map(|b| u64::from(b.get())),
            share_percent: given.share.map(Share::percent),
            gpu: self.gpu,
            samples: self.samples.map(Samples::get),
            load_samples: self.load.map(Samples::get),
            update_bytes: self.update_bytes.map(UpdateBytes::to_wire),
            throughput: given.throughput.map(Estimate::to_wire),
            solo_samples_per_s: given.solo.map(SamplesPerSec::get),
        }
    }
}
