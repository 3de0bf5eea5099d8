//! Launches with batch sizes and shares that do not come from a search.

use cli::Failure;
use doc::{Answer, ByHand, Given, Plan, PlanTask, Workload};
use predict::PredictError;
use units::Share;

use super::{Launch, of_model};

impl Launch {
    /// The tasks of a workload at their reference batch sizes, under these shares.
    ///
    /// # Errors
    /// [`Failure::Input`] if the workload has several GPUs.
    pub fn of_workload(workload: Workload, shares: &[Share]) -> Result<Self, Failure> {
        if workload.device.gpus > 1 {
            return Err(Failure::Input(format!(
                "$.device.gpus: {} GPUs, but only the shares of one are learnt; give 1, or make a plan first \
                 (mt-profile, mt-fit, mt-solve)",
                workload.device.gpus
            )));
        }
        let planned = |task: &doc::Task| PlanTask {
            id: task.id.clone(),
            gpu: None,
            samples: task.samples,
            load: None,
            update_bytes: task.update_bytes,
        };
        let given = workload
            .tasks
            .iter()
            .zip(shares)
            .map(|(task, share)| Given {
                batch: Some(task.reference()),
                share: Some(*share),
                ..Given::default()
            });
        let plan = Plan {
            id: workload.id.clone(),
            link: workload.link,
            tasks: workload.tasks.iter().map(planned).collect(),
            answer: Answer::ByHand(ByHand {
                given: given.collect(),
                rv: None,
            }),
            rates: Vec::new(),
            model: None,
            workload: Some(workload.clone()),
            provenance: Vec::new(),
        };
        Self::of(plan, None, workload).map_err(of_model)
    }

    /// The same tasks at the same batch sizes under other shares, one for each task of the plan. The results of the
    /// search do not hold for these shares, so there are no predictions.
    ///
    /// # Errors
    /// Those of [`Launch::of`].
    pub(crate) fn with_shares(&self, shares: &[Share]) -> Result<Self, PredictError> {
        let given = self.assignments().zip(shares).map(|(task, share)| Given {
            batch: Some(task.batch),
            share: Some(*share),
            ..Given::default()
        });
        let plan = Plan {
            answer: Answer::ByHand(ByHand {
                given: given.collect(),
                rv: None,
            }),
            rates: Vec::new(),
            model: None,
            workload: Some(self.workload.clone()),
            ..self.plan.clone()
        };
        Self::of(plan, None, self.workload.clone())
    }
}
