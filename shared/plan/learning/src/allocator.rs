//! Turns events of trainings into decisions about their GPUs.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use doc::{Allocation, Allotment, Arrival, TrainingEvent, TrainingNews};
use units::{Seconds, TaskId};

use crate::accuracy::{PRIOR, RateError};
use crate::problem::MOST_TASKS;
use crate::rule::Policy;
use crate::settings::AllocatorSettings;
use crate::snapshot::{Beside, Choice, Occasion, Snapshot};
use crate::speed::{ASSUMED_EXPONENT, POSSIBLE_EXPONENTS};
use crate::stuck::Stuck;
use crate::training::{Length, Training};

/// Decides how many GPUs each training has.
#[derive(Debug)]
pub struct Allocator {
    settings: AllocatorSettings,
    trainings: BTreeMap<TaskId, Training>,
    /// GPUs of each training in the last decision.
    given: BTreeMap<TaskId, u32>,
    /// GPUs that must not be used.
    lost: BTreeSet<u32>,
    seq: u64,
    acknowledged: u64,
    now: f64,
    pause: MeasuredPause,
    rate_error: RateError,
    /// How often a move was taken back since a training last ended.
    taken_back: u32,
    /// The direction of each training's last move since then: more GPUs or fewer.
    moved: BTreeMap<TaskId, Ordering>,
}

/// An event that cannot be used; the allocator is then unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The training is unknown.
    #[error("no training {0:?} has arrived; send an arrive event first")]
    Unknown(String),
    /// There is already a training with this name.
    #[error("a training {0:?} exists already; give each its own name")]
    Twice(String),
    /// The maximum number of trainings is reached.
    #[error("there are already {MOST_TASKS} trainings; {0:?} has to wait until one is done")]
    TooMany(String),
    /// The training needs more GPUs than there are.
    #[error("{task:?} needs {needs} GPUs, and the machine has {has}")]
    TooLarge {
        /// The training.
        task: String,
        /// Its minimum number of GPUs.
        needs: u32,
        /// GPUs of the machine.
        has: u32,
    },
    /// The training reports that it runs on more GPUs than there are.
    #[error("{task:?} says that it runs on {gpus} GPUs, and the machine has {has}")]
    MoreThanThereAre {
        /// The training.
        task: String,
        /// Number of GPUs that it reports.
        gpus: u32,
        /// GPUs of the machine.
        has: u32,
    },
    /// The acknowledged decision was never made.
    #[error("decision {0} is acknowledged, and {1} is the last that was made")]
    NeverMade(u64, u64),
    /// The machine has no such GPU.
    #[error("the machine has no GPU {gpu}; they are numbered from 0 to {}", has - 1)]
    UnknownGpu {
        /// The GPU.
        gpu: u32,
        /// GPUs of the machine.
        has: u32,
    },
}

/// Moving average of the measured pauses; a new one has weight one third, so that a slow disk is noticed within a few
/// reconfigurations and a single delay is soon forgotten.
#[derive(Debug, Clone, Copy)]
struct MeasuredPause(f64);

impl MeasuredPause {
    fn push(&mut self, seconds: f64) {
        self.0 += (seconds - self.0) / 3.0;
    }
}

impl Allocator {
    /// An allocator without trainings.
    #[must_use]
    pub fn new(settings: AllocatorSettings) -> Self {
        Self {
            settings,
            trainings: BTreeMap::new(),
            given: BTreeMap::new(),
            lost: BTreeSet::new(),
            seq: 0,
            acknowledged: 0,
            now: 0.0,
            pause: MeasuredPause(settings.pause.get()),
            rate_error: RateError::default(),
            taken_back: 0,
            moved: BTreeMap::new(),
        }
    }

    /// Processes an event; returns a decision if the allocation should change. Time never runs back: an event with an
    /// earlier time counts as one at the latest time.
    ///
    /// # Errors
    /// [`Refused`] if the event is invalid; then nothing has changed.
    pub fn take(&mut self, event: &TrainingEvent) -> Result<Option<Allocation>, Refused> {
        self.now = self.now.max(event.time.get());
        let now = self.now;
        let occasion = match &event.what {
            TrainingNews::Arrive(arrival) => {
                self.arrive(arrival)?;
                Some(Occasion::Arrival)
            }
            TrainingNews::Progress {
                task,
                step,
                gpus,
                loss,
                batch,
                gradient,
            } => {
                let has = self.settings.gpus;
                let taken = self.acknowledged == self.seq;
                let given = self.given.get(task).copied().filter(|g| taken && *g > 0);
                let training = self.known(task)?;
                if *gpus > has {
                    return Err(Refused::MoreThanThereAre {
                        task: task.to_string(),
                        gpus: *gpus,
                        has,
                    });
                }
                let reported = training.progress(now, *step, *gpus, *loss, *batch);
                training.noise.extend(gradient.as_ref());
                let reached = training.is_reached();
                // It was moved, but continues with another number of GPUs than it was given: the previous one.
                let failed = given.filter(|g| reported.pause_s.is_some() && g != gpus);
                training.unable.extend(failed);
                if failed.is_some() {
                    self.given.insert(task.clone(), *gpus);
                }
                if let Some(seconds) = reported.pause_s {
                    self.pause.push(seconds);
                }
                if let Some(error) = reported.error {
                    let prior = self.prior();
                    self.rate_error.push(error, prior);
                }
                let holds = self.given.get(task).is_some_and(|g| *g > 0);
                match (reached && holds, reported.window || failed.is_some()) {
                    (true, _) => Some(Occasion::End),
                    (false, true) => Some(Occasion::Window),
                    (false, false) => None,
                }
            }
            TrainingNews::Parked { task, .. } => {
                self.known(task)?.parked(now);
                None
            }
            TrainingNews::Done { task } | TrainingNews::Failed { task, .. } => {
                self.known(task)?;
                self.trainings.remove(task);
                self.given.remove(task);
                Some(Occasion::End)
            }
            TrainingNews::Ack { seq } => {
                if *seq > self.seq {
                    return Err(Refused::NeverMade(*seq, self.seq));
                }
                self.acknowledged = self.acknowledged.max(*seq);
                None
            }
            TrainingNews::Lost { gpu } => {
                self.known_gpu(*gpu)?;
                self.lost.insert(*gpu).then_some(Occasion::End)
            }
            TrainingNews::Found { gpu } => {
                self.known_gpu(*gpu)?;
                self.lost.remove(gpu).then_some(Occasion::End)
            }
        };
        Ok(occasion.and_then(|occasion| self.decide(occasion)))
    }

    /// Number of the last decision that was acknowledged; 0 before the first.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    fn known(&mut self, task: &TaskId) -> Result<&mut Training, Refused> {
        let found = self.trainings.get_mut(task);
        found.ok_or_else(|| Refused::Unknown(task.to_string()))
    }

    fn known_gpu(&self, gpu: u32) -> Result<(), Refused> {
        let has = self.settings.gpus;
        if gpu < has {
            return Ok(());
        }
        Err(Refused::UnknownGpu { gpu, has })
    }

    /// The error of expected speeds that is assumed before any is measured; 0 if an earlier run has
    /// measured the speeds of every training.
    fn prior(&self) -> f64 {
        let mut all = self.trainings.values();
        match all.all(|t| !t.arrival.steps_per_s.is_empty()) {
            true => 0.0,
            false => PRIOR,
        }
    }

    /// Usable GPUs.
    fn usable(&self) -> u32 {
        self.settings.gpus - self.lost.len() as u32
    }

    fn arrive(&mut self, arrival: &Arrival) -> Result<(), Refused> {
        let name = || arrival.task.to_string();
        let needs = arrival.min_gpus.unwrap_or(1);
        if self.trainings.contains_key(&arrival.task) {
            return Err(Refused::Twice(name()));
        }
        if self.trainings.len() >= MOST_TASKS {
            return Err(Refused::TooMany(name()));
        }
        if needs > self.settings.gpus {
            return Err(Refused::TooLarge {
                task: name(),
                needs,
                has: self.settings.gpus,
            });
        }
        let training = Training::new(arrival.clone(), self.settings.gpus);
        self.trainings.insert(arrival.task.clone(), training);
        Ok(())
    }

    fn decide(&mut self, occasion: Occasion) -> Option<Allocation> {
        let lengths: Vec<Length> = self.trainings.values().map(Training::length).collect();
        let open: Vec<usize> = (0..lengths.len())
            .filter(|&i| lengths[i] != Length::Reached)
            .collect();
        // The paper's rule ranks by loss; the others by the remaining length, for which a declared length suffices.
        let by_loss = self.settings.policy == Policy::Paper;
        let trainings: Vec<&Training> = self.trainings.values().collect();
        let all_measured = open.iter().all(|&i| {
            let told = !by_loss && matches!(lengths[i], Length::Trusted(_));
            let stuck = !by_loss && trainings[i].stuck().is_some();
            trainings[i].is_timed() && (told || stuck || trainings[i].is_ranked())
        });
        if !all_measured && occasion == Occasion::Window {
            // A training that has just arrived makes its first reports with its GPUs from the arrival.
            return None;
        }
        let snapshot = self.snapshot(lengths);
        let held: u32 = self.given.values().sum();
        let choice = snapshot.decide(occasion, all_measured);
        // A lost GPU must be taken away, whatever a move costs.
        let choice = choice.or_else(|| (held > self.usable()).then(|| snapshot.cut()))?;
        self.remember(occasion, &choice.gpus);
        self.publish(&snapshot, choice)
    }

    /// Counts a move that gives a training GPUs which an earlier move took from it, or the reverse:
    /// one of the two moves was a mistake, so the next one must gain more. An arrival that undoes a
    /// move counts too: where trainings keep arriving, moves do not last until they pay.
    fn remember(&mut self, occasion: Occasion, gpus: &[u32]) {
        if occasion == Occasion::End {
            self.taken_back = 0;
            self.moved.clear();
            return;
        }
        let mut back = false;
        for (id, now) in self.trainings.keys().zip(gpus) {
            let way = now.cmp(self.given.get(id).unwrap_or(&0));
            if way != Ordering::Equal {
                let before = self.moved.insert(id.clone(), way);
                back |= before.is_some_and(|b| b != way);
            }
        }
        self.taken_back += u32::from(back);
    }

    /// The speed-up exponent of trainings on this machine: the mean of the measured ones. The gain
    /// of a new training from more GPUs is unknown, but machines differ more than trainings: on
    /// divided processors, an exponent of nearly 0 or 1 holds for all.
    fn assumed_exponent(&self) -> Option<f64> {
        let measured: Vec<f64> = self
            .trainings
            .values()
            .filter_map(Training::exponent)
            .collect();
        let sum: f64 = measured.iter().sum();
        (!measured.is_empty()).then(|| sum / measured.len() as f64)
    }

    /// Rates of all trainings for each speed-up exponent that the machine may have.
    fn rates(&self, lengths: &[Length]) -> Vec<Vec<Vec<f64>>> {
        let all = match self.assumed_exponent() {
            Some(measured) => vec![measured],
            None => POSSIBLE_EXPONENTS.to_vec(),
        };
        let each = || self.trainings.values().zip(lengths);
        let rates = |p: f64| each().map(move |(t, l)| t.job(*l, self.usable(), p).rates);
        all.into_iter().map(|p| rates(p).collect()).collect()
    }

    fn snapshot(&self, lengths: Vec<Length>) -> Snapshot {
        let given = |id: &TaskId| self.given.get(id).copied().unwrap_or(0);
        let assumed = self.assumed_exponent().unwrap_or(ASSUMED_EXPONENT);
        let length_unknown =
            |(t, l): (&Training, &Length)| *l == Length::Doubtful && t.is_length_unknown();
        let patience = self.settings.patience;
        let stuck = |(t, l): (&Training, &Length)| {
            let (_, steps) = t.stuck().filter(|_| *l != Length::Reached)?;
            let waits = steps >= patience;
            Some(if waits { Beside::Waits } else { Beside::Capped })
        };
        let each = || self.trainings.values().zip(&lengths);
        let usable = self.usable();
        let mut settings = self.settings;
        settings.gpus = usable;
        let mut given: Vec<u32> = self.trainings.keys().map(given).collect();
        let least: Vec<u32> = self.trainings.values().map(Training::least).collect();
        shrink(&mut given, &least, usable);
        Snapshot {
            length_unknown: each().map(length_unknown).collect(),
            stuck: each().map(stuck).collect(),
            settings,
            given,
            new: self
                .trainings
                .keys()
                .map(|id| !self.given.contains_key(id))
                .collect(),
            jobs: self
                .trainings
                .values()
                .zip(&lengths)
                .map(|(training, length)| training.job(*length, usable, assumed))
                .collect(),
            rates: self.rates(&lengths),
            loss_slopes: self.trainings.values().map(Training::loss_slope).collect(),
            made: self.trainings.values().map(Training::made).collect(),
            lengths,
            now: self.now,
            pause_s: self.pause.0,
            rate_error: self.rate_error.get(self.prior()),
            taken_back: self.taken_back,
        }
    }

    /// The reason of a decision, extended by the trainings that come last and why.
    fn told(&self, mut reason: String) -> String {
        for (id, why, waits) in self.stuck() {
            let rank = if waits {
                "waits for the others"
            } else {
                "comes last"
            };
            reason += &format!("; {id} {}, and {rank}", why.words());
        }
        reason
    }

    /// The trainings that come last because they make no progress, each with the cause and whether
    /// patience with it has ended. None under policies other than [`Policy::Ours`], which ignore
    /// progress.
    pub fn stuck(&self) -> impl Iterator<Item = (&TaskId, Stuck, bool)> {
        let ours = self.settings.policy == Policy::Ours;
        let all = self.trainings.iter().filter(move |_| ours);
        all.filter_map(|(id, t)| {
            let (why, steps) = t.stuck()?;
            let open = !t.is_reached();
            open.then_some((id, why, steps >= self.settings.patience))
        })
    }

    /// Numbers and records a choice; `None` if it equals the current allocation.
    fn publish(&mut self, snapshot: &Snapshot, choice: Choice) -> Option<Allocation> {
        let mut trainings = BTreeMap::new();
        let mut given = BTreeMap::new();
        for (i, (id, training)) in self.trainings.iter().enumerate() {
            let gpus = choice.gpus[i];
            let reached = snapshot.reached(i);
            given.insert(id.clone(), gpus);
            let allotment = Allotment {
                gpus,
                batches: training.batches(gpus),
                reached,
                expected: choice
                    .expected
                    .as_ref()
                    .filter(|_| !reached)
                    .and_then(|e| e[i]),
            };
            trainings.insert(id.clone(), allotment);
        }
        if given == self.given || trainings.is_empty() {
            self.given = given;
            return None;
        }
        for (id, training) in &mut self.trainings {
            training.expect(given[id]);
        }
        self.given = given;
        self.seq += 1;
        Some(Allocation {
            seq: self.seq,
            time: seconds(self.now),
            total_gpus: self.usable(),
            trainings,
            reason: self.told(choice.reason),
            gain: choice.gain,
            pause: seconds(self.pause.0),
            provenance: Vec::new(),
        })
    }
}

/// Takes lost GPUs from the trainings that have the most; a training left with fewer than its
/// minimum gets none.
fn shrink(given: &mut [u32], least: &[u32], usable: u32) {
    while given.iter().sum::<u32>() > usable {
        let Some(most) = (0..given.len()).max_by_key(|&i| given[i]) else {
            return;
        };
        given[most] -= 1;
        if given[most] < least[most] {
            given[most] = 0;
        }
    }
}

/// A duration that is finite and not negative by construction, or zero.
fn seconds(value: f64) -> Seconds {
    Seconds::new(value).unwrap_or(Seconds::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A training declares its speeds, and then makes 19 steps for each 20.
    #[test]
    fn what_a_decision_expects_is_compared_with_what_follows() {
        let mut allocator = Allocator::new(AllocatorSettings {
            gpus: 4,
            policy: Policy::Ours,
            objective: crate::Objective::Completion,
            pause: Seconds::ZERO,
            patience: 1000,
        });
        let task = TaskId::new("a").expect("a name");
        let mut take = |time: f64, what: TrainingNews| {
            let event = TrainingEvent::new(seconds(time), what);
            allocator.take(&event).expect("valid")
        };
        let arrival = Arrival {
            total_steps: Some(2000),
            steps_per_s: BTreeMap::from([(2, 10.0), (4, 20.0)]),
            ..Arrival::new(task.clone())
        };
        let given = take(0.0, TrainingNews::Arrive(Box::new(arrival)));
        assert_eq!(given.map(|a| a.trainings[&task].gpus), Some(4));
        for report in 1..=11_u32 {
            let news = TrainingNews::Progress {
                task: task.clone(),
                step: u64::from(10 * report),
                gpus: 4,
                loss: Some(1.0),
                batch: None,
                gradient: None,
            };
            take(1.0 + f64::from(10 * report) / 19.0, news);
        }
        // A third of the error counts, since the assumed error is 0.
        let error = allocator.rate_error.get(1.0);
        assert!((error - 1.0 / 19.0 / 3.0).abs() < 1e-6, "{error}");
    }
}
