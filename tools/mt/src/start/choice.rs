//! Chooses the scheme to launch: the best one according to the plan.

use doc::{Answer, Baseline, ByHand, Choice, Given, Plan, WorkKind};
use units::{Batch, Share, TaskId};

/// A scheme for running the tasks of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheme {
    /// The plan itself.
    Planned,
    /// Equal shares, if they finish the work sooner than the plan.
    Static(Baseline),
    /// One task at a time on the whole device, at its best batch size.
    OneByOne,
}

impl Scheme {
    /// The best scheme according to the plan's own verdict on the time to target or on the time of a round. If the plan
    /// has another objective, it is the plan itself, because the verdict then compares times that the user did not
    /// request. On several GPUs it is also the plan itself, because the other schemes do not assign tasks to GPUs.
    #[must_use]
    pub fn best(plan: &Plan) -> Self {
        let Some(found) = plan.feasible() else {
            return Self::Planned;
        };
        let several = plan
            .tasks
            .iter()
            .any(|task| task.gpu.is_some_and(|gpu| gpu > 0));
        if several || plan.tasks.len() < 2 {
            return Self::Planned;
        }
        if let Some(target) = &found.target {
            return match target.share {
                true => Self::Planned,
                false => Self::OneByOne,
            };
        }
        let Some(verdict) = found.verdict.as_ref().filter(|v| v.work == WorkKind::Round) else {
            return Self::Planned;
        };
        if found.objective.kind != doc::ObjectiveKind::Round {
            return Self::Planned;
        }
        let equal = verdict.best_static.and_then(|(scheme, time)| {
            let baseline = found
                .baselines
                .iter()
                .find(|b| b.name == scheme && b.feasible)?;
            Some((baseline, time))
        });
        let together = verdict.together;
        match equal.filter(|(_, time)| *time < together) {
            Some((baseline, time)) if time < verdict.one_after_another => {
                Self::Static(baseline.clone())
            }
            _ if verdict.one_after_another <= together => Self::OneByOne,
            _ => Self::Planned,
        }
    }

    /// The launched scheme and the reason, in one line.
    #[must_use]
    pub fn reason(&self, plan: &Plan) -> String {
        let found = plan.feasible();
        let target = found.and_then(|found| found.target.as_ref());
        let verdict = found.and_then(|found| found.verdict.as_ref());
        match (self, target, verdict) {
            (Self::OneByOne, Some(target), _) => format!(
                "launching one task after another: {:.1} s to target predicted, {:.1} s together",
                target.one_after_another.get(),
                target.together.get()
            ),
            (Self::OneByOne, None, Some(verdict)) => format!(
                "launching one task after another: {:.1} s predicted, {:.1} s together",
                verdict.one_after_another.get(),
                verdict.together.get()
            ),
            (Self::Static(baseline), _, Some(verdict)) => {
                let planned = verdict.together.get();
                let time = verdict.best_static.map_or(planned, |(_, time)| time.get());
                format!(
                    "launching equal shares ({}): {time:.1} s predicted, {planned:.1} s by the plan's shares",
                    baseline.name.name()
                )
            }
            _ => "launching the plan".to_owned(),
        }
    }

    /// The plan with the shares of this scheme instead of its own, like a hand-written plan.
    #[must_use]
    pub fn plan(&self, plan: &Plan) -> Plan {
        let found = plan.feasible();
        let alone = |task: &TaskId| -> Option<Batch> {
            if let Some(target) = found.and_then(|found| found.target.as_ref()) {
                let mut tasks = target.tasks.iter();
                return tasks.find(|t| t.id == *task).map(|t| t.alone_batch);
            }
            let mut tasks = found?.verdict.as_ref()?.tasks.iter();
            tasks.find(|t| t.id == *task).map(|t| t.batch)
        };
        let given = |index: usize| -> Given {
            let task = &plan.tasks[index].id;
            let known = plan.given(index);
            let (batch, share) = match self {
                Self::Planned => (known.batch, known.share),
                Self::Static(baseline) => {
                    let of = |choice: &&Choice| choice.id == *task;
                    let choice = baseline.tasks.iter().find(of);
                    (choice.map(|c| c.batch), choice.map(|c| c.share))
                }
                Self::OneByOne => (alone(task).or(known.batch), Some(Share::FULL)),
            };
            Given {
                batch,
                share,
                throughput: None,
                solo: None,
            }
        };
        Plan {
            answer: Answer::ByHand(ByHand {
                given: (0..plan.tasks.len()).map(given).collect(),
                rv: None,
            }),
            ..plan.clone()
        }
    }
}
