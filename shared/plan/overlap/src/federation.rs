use std::collections::BTreeMap;

mod table;

use doc::{PhaseKind, Plan, Timeline};
use predict::Predictor;
use units::{Batch, Samples, Share, TaskId};

use crate::error::PlanError;
use crate::plan::renew::renewed;
use crate::plan::{PlanRequest, order_plan};
use crate::solve::OrderOptions;

/// One device of a federation and its part in the round.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Name of the device; `device-N` by its place in the stream if it has none.
    pub name: String,
    /// When the device has finished, in seconds from the start of the round.
    pub makespan_s: f64,
    /// Seconds up to then in which none of its tasks computes.
    pub compute_idle_s: f64,
    /// `sum P_i / S_i` of its plan; `None` if the plan does not give it.
    pub fairness: Option<f64>,
    /// Samples that each task trains on.
    pub volumes: Vec<(TaskId, Samples)>,
    /// Its new plan, if it misses a deadline and another plan ends sooner, or makes more progress
    /// by the deadline.
    pub replanned: Option<Replanned>,
    /// Its reduced number of samples, if it misses the deadline even so.
    pub shortened: Option<Shortened>,
    /// Progress of each task by the deadline, relative to that with all samples at the batch sizes
    /// of the plan; `None` if the value of samples is unknown.
    pub kept_progress: Option<Vec<(TaskId, f64)>>,
}

impl Device {
    /// Samples of all tasks.
    #[must_use]
    pub fn samples(&self) -> f64 {
        self.volumes.iter().map(|(_, s)| s.as_f64()).sum()
    }

    /// When it ends with all its samples, in seconds: by the new plan if there is one.
    #[must_use]
    pub fn replanned_s(&self) -> f64 {
        (self.replanned.as_ref()).map_or(self.makespan_s, |r| r.makespan_s)
    }

    /// When it ends if late devices are made to meet the deadline, in seconds.
    #[must_use]
    pub fn kept_s(&self) -> f64 {
        self.shortened.map_or(self.replanned_s(), |s| s.makespan_s)
    }

    /// Samples of all tasks if late devices are made to meet the deadline; 0 if this one cannot
    /// meet it.
    #[must_use]
    pub fn kept_samples(&self) -> f64 {
        let kept = self.shortened.as_ref().map_or(1.0, |s| s.part);
        self.volumes.iter().map(|(_, s)| part_of(*s, kept)).sum()
    }
}

/// The new plan of a late device, with other batch sizes and shares.
#[derive(Debug, Clone, PartialEq)]
pub struct Replanned {
    /// When its round then ends with all its samples, in seconds.
    pub makespan_s: f64,
    /// Resulting settings of each task, if its plan has them.
    pub settings: Vec<(TaskId, Option<Batch>, Option<Share>)>,
}

impl Replanned {
    /// The new plan of a device, from its timeline.
    #[must_use]
    pub fn of(timeline: &Timeline) -> Self {
        let plan = &timeline.plan;
        let of = |(i, task): (usize, &doc::PlanTask)| {
            let given = plan.given(i);
            (task.id.clone(), timeline.batches[i], given.share)
        };
        Self {
            makespan_s: timeline.makespan.get(),
            settings: plan.tasks.iter().enumerate().map(of).collect(),
        }
    }
}

/// How a late device meets a deadline: it trains on fewer samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shortened {
    /// Fraction of the samples of every task; 0 if the transfers alone take longer.
    pub part: f64,
    /// When the device's round then ends, in seconds; 0 if the device takes no part.
    pub makespan_s: f64,
}

/// The largest fraction of its samples with which a device ends by a deadline, to within 1/256. The
/// tasks keep their batch sizes, their shares and their proportion to each other, and the round is
/// ordered again. A fraction above 0 is returned only if the round so ordered meets the deadline.
///
/// # Errors
/// The [`PlanError`] of [`order_plan`].
pub fn shorten(
    plan: &Plan,
    predictor: Option<&Predictor>,
    request: &PlanRequest,
    options: &OrderOptions,
    deadline_s: f64,
) -> Result<Shortened, PlanError> {
    let whole = match &request.workload {
        Some(now) => renewed(plan.clone(), now)?,
        None => plan.clone(),
    };
    let request = PlanRequest {
        workload: None,
        ..request.clone()
    };
    let makespan = |part: f64| {
        let mut less = whole.clone();
        for task in &mut less.tasks {
            task.samples = task
                .samples
                .and_then(|s| Samples::new(part_of(s, part) as u64).ok());
        }
        let timeline = order_plan(less, predictor, &request, options)?;
        Ok::<f64, PlanError>(timeline.makespan.get())
    };
    let mut best = Shortened {
        part: 0.0,
        makespan_s: 0.0,
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..8 {
        let part = 0.5 * (low + high);
        let makespan_s = makespan(part)?;
        if makespan_s <= deadline_s {
            best = Shortened { part, makespan_s };
            low = part;
        } else {
            high = part;
        }
    }
    Ok(best)
}

/// Whole samples in a fraction of a volume; at least one for any fraction above 0, so that a task
/// that takes part has something to train on.
fn part_of(samples: Samples, part: f64) -> f64 {
    let least = if part > 0.0 { 1.0 } else { 0.0 };
    (samples.as_f64() * part).floor().max(least)
}

/// The round of a federation: all devices start together, and it ends with the slowest.
///
/// Keeps a few numbers for each device, not its timeline, so that a stream of any length can be
/// summarised.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Federation {
    devices: Vec<Device>,
    slowest: usize,
}

impl Federation {
    /// Adds the device of a timeline.
    pub fn add(
        &mut self,
        timeline: &Timeline,
        replanned: Option<Replanned>,
        shortened: Option<Shortened>,
    ) {
        let number = self.devices.len() + 1;
        let name = timeline.id.clone();
        if timeline.makespan.get() > self.makespan_s() {
            self.slowest = self.devices.len();
        }
        let tasks = timeline.plan.tasks.iter();
        self.devices.push(Device {
            name: name.unwrap_or_else(|| format!("device-{number}")),
            makespan_s: timeline.makespan.get(),
            compute_idle_s: compute_idle_s(timeline),
            fairness: timeline.plan.feasible().map(doc::Feasible::fairness),
            volumes: tasks
                .filter_map(|t| Some((t.id.clone(), t.samples?)))
                .collect(),
            replanned,
            shortened,
            kept_progress: None,
        });
    }

    /// Records how the device at a place in the stream meets the deadline, and the fraction of each
    /// task's progress that it then makes.
    pub fn decide(
        &mut self,
        device: usize,
        replanned: Option<Replanned>,
        shortened: Option<Shortened>,
        progress: Vec<(TaskId, f64)>,
    ) {
        if let Some(device) = self.devices.get_mut(device) {
            device.replanned = replanned;
            device.shortened = shortened;
            device.kept_progress = Some(progress);
        }
    }

    /// The devices in the order in which they were added.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The slowest device, the first one in case of a tie; `None` if there are no devices.
    #[must_use]
    pub fn straggler(&self) -> Option<&Device> {
        self.devices.get(self.slowest)
    }

    /// End of the round in seconds: the straggler's.
    #[must_use]
    pub fn makespan_s(&self) -> f64 {
        self.straggler().map_or(0.0, |d| d.makespan_s)
    }

    /// End of the round in seconds if late devices are made to meet the deadline.
    #[must_use]
    pub fn kept_makespan_s(&self) -> f64 {
        self.devices.iter().map(Device::kept_s).fold(0.0, f64::max)
    }

    /// Seconds that a device of the federation waits for the straggler.
    #[must_use]
    pub fn waiting_s(&self, device: &Device) -> f64 {
        self.makespan_s() - device.makespan_s
    }

    /// Throughput of the federation in samples per second: the samples of all devices, divided by
    /// the time of the round.
    #[must_use]
    pub fn samples_per_s(&self) -> f64 {
        let samples: f64 = self.devices.iter().map(Device::samples).sum();
        samples / self.makespan_s()
    }

    /// Mean `P_i / S_i` of all tasks of all devices whose plans give it.
    #[must_use]
    pub fn fairness(&self) -> Option<f64> {
        let known = || self.devices.iter().filter(|d| d.fairness.is_some());
        let sum: f64 = known().filter_map(|d| d.fairness).sum();
        let tasks: usize = known().map(|d| d.volumes.len()).sum();
        (tasks > 0).then(|| sum / tasks as f64)
    }

    /// Weight of each device's update in the aggregation of each of its tasks: `D_ki / sum_k D_ki`
    /// (FedMT, equation 1) with the samples `D_ki` of the plans or, if `kept` is set, with the
    /// samples that remain when late devices meet the deadline.
    #[must_use]
    pub fn weights(&self, kept: bool) -> Vec<Vec<(TaskId, f64)>> {
        let shortened = |d: &Device| d.shortened.filter(|_| kept).map_or(1.0, |s| s.part);
        let mut all: BTreeMap<&TaskId, f64> = BTreeMap::new();
        for device in &self.devices {
            for (task, samples) in &device.volumes {
                *all.entry(task).or_default() += part_of(*samples, shortened(device));
            }
        }
        let of = |device: &Device| {
            let weight = |(task, samples): &(TaskId, Samples)| {
                let all = all.get(task).copied().unwrap_or(0.0);
                let own = part_of(*samples, shortened(device));
                (task.clone(), if all > 0.0 { own / all } else { 0.0 })
            };
            device.volumes.iter().map(weight).collect()
        };
        self.devices.iter().map(of).collect()
    }
}

/// Seconds of a round in which no task computes.
fn compute_idle_s(timeline: &Timeline) -> f64 {
    let (mut idle, mut until) = (0.0, 0.0_f64);
    // Phases are sorted by start time.
    for p in &timeline.phases {
        if p.kind == PhaseKind::Compute {
            idle += (p.start.get() - until).max(0.0);
            until = until.max(p.end.get());
        }
    }
    idle + (timeline.makespan.get() - until).max(0.0)
}

#[cfg(test)]
mod tests {
    use doc::{Documents, Frames};

    use super::*;

    fn plan(id: &str, samples: u32) -> Plan {
        let text = format!(
            r#"{{"schema":"mt.plan/1","id":"{id}","link":{{"down_bps":8e6,"up_bps":8e6}},"tasks":[
            {{"id":"a","samples":{samples},"update_bytes":{{"down":1000000,"up":1000000}}}},
            {{"id":"b","samples":2000,"update_bytes":{{"down":1000000,"up":1000000}}}}],
            "rates":[{{"active":["a"],"samples_per_s":{{"a":1000}}}},
            {{"active":["b"],"samples_per_s":{{"b":1000}}}},
            {{"active":["a","b"],"samples_per_s":{{"a":600,"b":600}}}}]}}"#
        );
        Documents::<_, Plan>::new(Frames::new(text.as_bytes(), "test"))
            .next()
            .unwrap()
            .unwrap()
    }

    fn ordered(plan: Plan) -> Timeline {
        order_plan(
            plan,
            None,
            &PlanRequest::default(),
            &OrderOptions::default(),
        )
        .unwrap()
    }

    fn shortened(plan: &Plan, deadline_s: f64) -> Shortened {
        let (request, options) = (PlanRequest::default(), OrderOptions::default());
        shorten(plan, None, &request, &options, deadline_s).unwrap()
    }

    /// The part is found again by trying every 256th, largest first.
    #[test]
    fn the_part_by_a_deadline_is_the_largest_that_keeps_it() {
        let late = plan("late", 20_000);
        let whole = ordered(late.clone()).makespan.get();
        for deadline in [0.3 * whole, 0.55 * whole, 0.9 * whole] {
            let found = shortened(&late, deadline);
            let end = |part: f64| {
                let mut less = late.clone();
                for task in &mut less.tasks {
                    let samples = part_of(task.samples.unwrap(), part) as u64;
                    task.samples = Samples::new(samples).ok();
                }
                ordered(less).makespan.get()
            };
            let mut parts = (1..256).rev().map(|k| f64::from(k) / 256.0);
            let slow = parts.find(|&part| end(part) <= deadline).unwrap();
            assert_eq!(found.part, slow, "by {deadline} of {whole}");
            assert_eq!(found.makespan_s, end(slow));
        }
        let never = shortened(&late, 2.0);
        assert_eq!(
            (never.part, never.makespan_s),
            (0.0, 0.0),
            "transfers alone take 3 s"
        );
    }

    #[test]
    fn weights_are_of_what_is_trained_by_the_deadline() {
        let (quick, late) = (plan("quick", 2_000), plan("late", 20_000));
        let mut federation = Federation::default();
        let deadline = 12.0;
        federation.add(&ordered(quick.clone()), None, None);
        let kept = shortened(&late, deadline);
        federation.add(&ordered(late), None, Some(kept));
        assert_eq!(federation.straggler().unwrap().name, "late");
        assert!(federation.makespan_s() > deadline && federation.kept_makespan_s() <= deadline);
        let own = (20_000.0 * kept.part).floor();
        let of_a = |kept: bool| -> Vec<f64> {
            let weights = federation.weights(kept);
            weights.iter().map(|device| device[0].1).collect()
        };
        let before = of_a(false);
        assert!((before[1] - 20.0 / 22.0).abs() < 1e-12, "{before:?}");
        let weights = federation.weights(true);
        let of_a = of_a(true);
        assert!((of_a[1] - own / (own + 2_000.0)).abs() < 1e-12, "{of_a:?}");
        for task in 0..2 {
            let sum: f64 = weights.iter().map(|device| device[task].1).sum();
            assert!((sum - 1.0).abs() < 1e-12);
        }
        let all = 2_000.0 + 2_000.0 + 20_000.0 + 2_000.0;
        assert!((federation.samples_per_s() - all / federation.makespan_s()).abs() < 1e-9);
        assert_eq!(federation.fairness(), None, "plans by hand do not say it");
    }
}
