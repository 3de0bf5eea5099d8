//! The time until a federation reaches its targets, and the fastest treatment of its late devices.
//!
//! A device `k` that trains on a fraction `p` of its samples `D_ki` of task `i` at batch size `B` contributes `p
//! D_ki E_ki(B)` ([`TaskProgress::efficiency`]). Averages are weighted by samples; with all samples at the reference
//! size, the task reaches its target after `N_ki` rounds. So one round covers this fraction of the way to the
//! target:
//!
//! ```text
//! g_i = sum_k (p_k D_ki E_ki(B_ki) / N_ki) / sum_k D_ki
//! ```
//!
//! and the target is `L / g_i` seconds away, if every round takes `L`, the time of the slowest device. (Rounds
//! become shorter once a task reaches its target; that is ignored here, because it changes which device is late.
//! Data that only some devices hold count like any other, because `mt-overlap` does not see the data.)

use doc::{ObjectiveKind, Plan, Workload};
use overlap::{Replanned, Shortened};
use units::{Batch, Samples, TaskId, Weight};

use crate::problem::progress::TaskProgress;

/// Maximum number of combinations of ways that are all evaluated, in some milliseconds: those of 7 late devices
/// with 4 ways each. If there are more, a descent changes the way of one device at a time.
const LISTED: usize = 1 << 14;

/// What one device contributes to the targets: the samples, weight and efficiency of each of its tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Worth {
    tasks: Vec<Own>,
    last: bool,
}

/// A task at a device.
#[derive(Debug, Clone, PartialEq)]
struct Own {
    id: TaskId,
    samples: f64,
    weight: f64,
    progress: TaskProgress,
}

/// One way for a device to take part in a round, and its contribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// Batch sizes and shares that replace those of its plan; absent: it keeps its plan.
    pub replanned: Option<Replanned>,
    /// A smaller part of its samples; absent: all of them.
    pub shortened: Option<Shortened>,
    /// Length of the device's round in seconds: the deadline if it trains on fewer samples, 0 if it takes no part.
    pub end_s: f64,
    /// `p D_i E_i(B_i) / N_i` of each task of the plan.
    pub progress: Vec<f64>,
}

impl Worth {
    /// Contribution of the device of a plan; `now` is the workload of the round, if it differs from the plan's.
    /// `None` if the objective of the plan is not progress, or if the plan lacks the samples of a task.
    #[must_use]
    pub fn of(plan: &Plan, now: Option<&Workload>) -> Option<Self> {
        let kind = plan.feasible()?.objective.kind;
        if !kind.is_progress() {
            return None;
        }
        let mut workload = plan.workload()?.clone();
        if let Some(now) = now {
            workload.renew(now).ok()?;
        }
        let own = |task: &doc::PlanTask| {
            let known = &workload.tasks[workload.task_index(&task.id)?];
            let samples = now.map_or(task.samples.or(known.samples), |_| known.samples);
            Some(Own {
                id: task.id.clone(),
                samples: samples.map(Samples::as_f64)?,
                weight: known.weight.map_or(1.0, Weight::get),
                progress: TaskProgress::of_task(known),
            })
        };
        Some(Self {
            tasks: plan.tasks.iter().map(own).collect::<Option<_>>()?,
            last: kind == ObjectiveKind::ProgressLast,
        })
    }

    /// Contribution of the device with these batch sizes (the reference if one is unknown). With `shortened` it
    /// trains on that part of its samples only; then `end_s` is the deadline, otherwise the end of its own round.
    #[must_use]
    pub fn way(
        &self,
        replanned: Option<Replanned>,
        batches: &[Option<Batch>],
        shortened: Option<Shortened>,
        end_s: f64,
    ) -> Way {
        let part = shortened.map_or(1.0, |s| s.part);
        let whole = replanned.as_ref().map_or(end_s, |r| r.makespan_s);
        let each = self.tasks.iter().zip(batches).map(|(task, batch)| {
            let worth = batch.map_or(1.0, |b| task.progress.efficiency(b));
            part * task.samples * worth / task.progress.rounds
        });
        Way {
            end_s: match shortened {
                None => whole,
                Some(less) if less.part > 0.0 => end_s,
                Some(_) => 0.0,
            },
            replanned,
            shortened,
            progress: each.collect(),
        }
    }
}

/// The devices of a federation: for each, its round if all wait for the slowest, and its options if there is a
/// deadline.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Targets {
    tasks: Vec<Joint>,
    devices: Vec<Device>,
    /// Whether some plan minimises the mean time to target; otherwise all minimise the last.
    mean: bool,
}

/// A task of the federation.
#[derive(Debug, Clone, PartialEq)]
struct Joint {
    id: TaskId,
    samples: f64,
    /// Sum of the weights that devices give it, and their number.
    weights: (f64, usize),
}

#[derive(Debug, Clone, PartialEq)]
struct Device {
    /// Position of each of its tasks in `Targets::tasks`.
    places: Vec<usize>,
    whole: Way,
    /// Its options. The first is its plan, with fewer samples if the device is late.
    ways: Vec<Way>,
}

/// The best treatment of the late devices of a federation, and the times to target in seconds, infinite if no
/// device trains on some task.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The way of each device.
    pub ways: Vec<Way>,
    /// Progress of each of its tasks, relative to that with all samples at the plan's batch sizes.
    pub kept: Vec<Vec<(TaskId, f64)>>,
    /// Time to target if all wait for the slowest device.
    pub waiting_s: f64,
    /// Time to target if late devices keep their plans and train on fewer samples.
    pub own_s: f64,
    /// Time to target with `ways`.
    pub seconds: f64,
}

impl Targets {
    /// Adds a device. `whole` is its round if all wait. `ways` are its options under the deadline, its own plan
    /// first; empty for a device that is on time.
    pub fn add(&mut self, worth: &Worth, whole: Way, ways: Vec<Way>) {
        self.mean |= !worth.last;
        let place = |task: &Own| {
            let known = self.tasks.iter().position(|t| t.id == task.id);
            let place = known.unwrap_or_else(|| {
                self.tasks.push(Joint {
                    id: task.id.clone(),
                    samples: 0.0,
                    weights: (0.0, 0),
                });
                self.tasks.len() - 1
            });
            let joint = &mut self.tasks[place];
            joint.samples += task.samples;
            joint.weights = (joint.weights.0 + task.weight, joint.weights.1 + 1);
            place
        };
        let places = worth.tasks.iter().map(place).collect();
        let ways = if ways.is_empty() {
            vec![whole.clone()]
        } else {
            ways
        };
        self.devices.push(Device {
            places,
            whole,
            ways,
        });
    }

    /// The combination of ways that reaches the targets soonest: the best of all combinations if they are few
    /// enough, otherwise the result of a descent. It is never later than the devices' own plans.
    #[must_use]
    pub fn decide(&self) -> Decided {
        let own = vec![0; self.devices.len()];
        let (chosen, seconds) = match self.mixtures() {
            Some(count) => self.best_of_all(count),
            None => self.descents(own.clone()),
        };
        let pick = |(device, &k): (&Device, &usize)| device.ways[k].clone();
        let ways: Vec<Way> = self.devices.iter().zip(&chosen).map(pick).collect();
        let kept = self.devices.iter().zip(&ways).map(|(device, way)| {
            let parts = way.progress.iter().zip(&device.whole.progress);
            let ids = device.places.iter().map(|&i| self.tasks[i].id.clone());
            ids.zip(parts.map(|(now, whole)| now / whole)).collect()
        });
        Decided {
            kept: kept.collect(),
            waiting_s: self.time(self.devices.iter().map(|d| &d.whole)),
            own_s: self.seconds(&own),
            seconds,
            ways,
        }
    }

    /// Number of combinations of ways; `None` above [`LISTED`].
    fn mixtures(&self) -> Option<usize> {
        let mut count = 1_usize;
        for device in &self.devices {
            count = count.checked_mul(device.ways.len())?;
        }
        Some(count).filter(|count| *count <= LISTED)
    }

    /// The best of all combinations; a number from 0 to `count` encodes one, in a mixed radix.
    fn best_of_all(&self, count: usize) -> (Vec<usize>, f64) {
        let mut best = (vec![0; self.devices.len()], f64::INFINITY);
        for number in 0..count {
            let mut rest = number;
            let digits = self.devices.iter().map(|device| {
                let digit = rest % device.ways.len();
                rest /= device.ways.len();
                digit
            });
            let chosen: Vec<usize> = digits.collect();
            let seconds = self.seconds(&chosen);
            // Ties go to the combination with the lowest number; 0 is every device's own plan.
            if seconds < best.1 {
                best = (chosen, seconds);
            }
        }
        best
    }

    /// The better result of two descents: from the devices' own plans, and from the ways that end soonest. The
    /// second is needed because a round gets shorter only if all of its late devices do.
    fn descents(&self, own: Vec<usize>) -> (Vec<usize>, f64) {
        let soonest = self.devices.iter().map(|device| {
            let ends = |&k: &usize| device.ways[k].end_s;
            let order = |a: &usize, b: &usize| ends(a).total_cmp(&ends(b));
            (0..device.ways.len()).min_by(order).unwrap_or(0)
        });
        let from_own = self.descent(own);
        let from_soonest = self.descent(soonest.collect());
        if from_soonest.1 < from_own.1 {
            from_soonest
        } else {
            from_own
        }
    }

    /// Changes the way of one device at a time until no change is faster.
    fn descent(&self, from: Vec<usize>) -> (Vec<usize>, f64) {
        let mut seconds = self.seconds(&from);
        let mut chosen = from;
        let mut sooner = true;
        while sooner {
            sooner = false;
            for k in 0..self.devices.len() {
                for way in 0..self.devices[k].ways.len() {
                    let kept = std::mem::replace(&mut chosen[k], way);
                    let now = self.seconds(&chosen);
                    if now < seconds {
                        seconds = now;
                        sooner = true;
                    } else {
                        chosen[k] = kept;
                    }
                }
            }
        }
        (chosen, seconds)
    }

    fn seconds(&self, chosen: &[usize]) -> f64 {
        let each = self.devices.iter().zip(chosen);
        self.time(each.map(|(device, &k)| &device.ways[k]))
    }

    /// Seconds to the targets if each device goes this way.
    fn time<'a>(&'a self, ways: impl Iterator<Item = &'a Way>) -> f64 {
        let mut progress = vec![0.0; self.tasks.len()];
        let mut length = 0.0_f64;
        for (device, way) in self.devices.iter().zip(ways) {
            length = length.max(way.end_s);
            for (&i, own) in device.places.iter().zip(&way.progress) {
                progress[i] += own;
            }
        }
        let times = self
            .tasks
            .iter()
            .zip(&progress)
            .map(|(task, own)| length * task.samples / own);
        // If no device takes part, the length and all progress are 0, and 0/0 is NaN.
        let times = times.map(|t| if t.is_nan() { f64::INFINITY } else { t });
        if !self.mean {
            return times.fold(0.0, f64::max);
        }
        let weights = || self.tasks.iter().map(|t| t.weights.0 / t.weights.1 as f64);
        let all: f64 = weights().sum();
        weights().zip(times).map(|(w, t)| w / all * t).sum()
    }
}

impl Decided {
    /// A message about the times to target; `None` if no device is late.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let late = self.ways.iter().filter(|w| w.shortened.is_some());
        let others = self.ways.iter().filter(|w| w.replanned.is_some()).count();
        if late.count() == 0 && others == 0 {
            return None;
        }
        let told = |seconds: f64| match seconds.is_finite() {
            true => format!("in {seconds:.1} s"),
            false => "never (nobody trains on one of the tasks)".to_owned(),
        };
        let own = told(self.own_s);
        let planned = match others {
            0 => "; no other batch sizes and shares of late devices are faster".to_owned(),
            n => {
                let seconds = told(self.seconds);
                format!("; with other batch sizes and shares of {n} of them {seconds}")
            }
        };
        let best = match self.waiting_s <= self.seconds {
            true => ": waiting for all is faster",
            false => "",
        };
        Some(format!(
            "targets are reached {} where all wait for the slowest; by the deadline, late devices \
             with fewer samples, {own}{planned}{best}",
            told(self.waiting_s),
        ))
    }
}

#[cfg(test)]
mod tests;
