//! Trainings without progress are ranked last and capped, and keep their GPUs only for a limited
//! time.

use crate::problem::RemainingTraining;
use crate::rule::Policy;
use crate::snapshot::{Beside, Choice, Occasion, Snapshot};

impl Snapshot {
    /// The choice of the policy once every training has been `measured`; equal shares before. Only
    /// [`Policy::Ours`] sets trainings without progress aside: the other policies stay as their
    /// authors describe them.
    pub(crate) fn decide(&self, occasion: Occasion, measured: bool) -> Option<Choice> {
        let of = |snapshot: &Self| {
            if measured {
                snapshot.choose(occasion)
            } else {
                snapshot.first()
            }
        };
        if self.settings.policy != Policy::Ours || self.stuck.iter().all(Option::is_none) {
            return of(self);
        }
        let open = |&i: &usize| !self.reached(i);
        let sound: Vec<usize> = self
            .indices()
            .filter(open)
            .filter(|&i| self.stuck[i].is_none())
            .collect();
        if sound.is_empty() {
            // No training is held back, and their order does not matter.
            return self.by_rule(Policy::Equal);
        }
        let held = self.held(&sound);
        let part = self.part(&sound, held.iter().sum());
        let has: u32 = part.given.iter().sum();
        let chosen = of(&part).or_else(|| {
            // The other trainings keep their GPUs, unless there are fewer GPUs than they have.
            let fits = has <= part.settings.gpus;
            (!fits).then(|| part.by_rule(Policy::Ours)).flatten()
        });
        let mut gpus = held;
        let own = chosen.as_ref().map_or(&part.given, |c| &c.gpus);
        for (&i, &g) in sound.iter().zip(own) {
            gpus[i] = g;
        }
        self.hand_on(&mut gpus);
        if gpus == self.given {
            return None;
        }
        let expected = chosen
            .as_ref()
            .and_then(|c| c.expected.as_ref())
            .map(|own| {
                let mut all = vec![None; gpus.len()];
                for (&i, e) in sound.iter().zip(own) {
                    all[i] = *e;
                }
                all
            });
        Some(Choice {
            expected,
            gain: chosen.as_ref().and_then(|c| c.gain),
            reason: chosen.map_or_else(|| "as before".to_owned(), |c| c.reason),
            gpus,
        })
    }

    /// GPUs that capped trainings keep: their minimum, or none if the others would not get theirs.
    fn held(&self, sound: &[usize]) -> Vec<u32> {
        let needs: u32 = sound.iter().map(|&i| least(&self.jobs[i])).sum();
        let mut room = self.settings.gpus.saturating_sub(needs);
        let mut held = vec![0; self.jobs.len()];
        for i in self.indices() {
            let fewest = least(&self.jobs[i]).min(self.given[i]);
            if self.stuck[i] == Some(Beside::Capped) && !self.reached(i) && fewest <= room {
                held[i] = fewest;
                room -= fewest;
            }
        }
        held
    }

    /// A snapshot of these trainings only, with the GPUs that the others do not hold.
    fn part(&self, these: &[usize], held: u32) -> Self {
        let gpus = self.settings.gpus - held;
        let mut settings = self.settings;
        settings.gpus = gpus;
        let job = |&i: &usize| {
            let mut job = self.jobs[i].clone();
            job.rates.truncate(gpus as usize + 1);
            job
        };
        let rates = |all: &Vec<Vec<f64>>| {
            let cut = |&i: &usize| all[i][..=gpus as usize].to_vec();
            these.iter().map(cut).collect()
        };
        Self {
            settings,
            lengths: these.iter().map(|&i| self.lengths[i]).collect(),
            given: these.iter().map(|&i| self.given[i]).collect(),
            length_unknown: these.iter().map(|&i| self.length_unknown[i]).collect(),
            new: these.iter().map(|&i| self.new[i]).collect(),
            stuck: vec![None; these.len()],
            jobs: these.iter().map(job).collect(),
            rates: self.rates.iter().map(rates).collect(),
            loss_slopes: these.iter().map(|&i| self.loss_slopes[i]).collect(),
            made: these.iter().map(|&i| self.made[i]).collect(),
            now: self.now,
            pause_s: self.pause_s,
            rate_error: self.rate_error,
            taken_back: self.taken_back,
        }
    }

    /// Gives GPUs that no other training can use to trainings without progress, first to those with
    /// patience left: idle GPUs are useless.
    fn hand_on(&self, gpus: &mut [u32]) {
        let mut free = self.settings.gpus - gpus.iter().sum::<u32>().min(self.settings.gpus);
        for beside in [Beside::Capped, Beside::Waits] {
            for i in self.indices() {
                if self.stuck[i] != Some(beside) || self.reached(i) {
                    continue;
                }
                let most = self.jobs[i].rates.len() as u32 - 1;
                let can = |g: &u32| self.jobs[i].rates[*g as usize] > 0.0;
                let up_to = (gpus[i] + free).min(most);
                // The largest number that it can use without being slower than now.
                let more = (gpus[i] + 1..=up_to)
                    .rev()
                    .find(|g| can(g) && !self.slower(i, *g, gpus[i]));
                if let Some(more) = more {
                    free -= more - gpus[i];
                    gpus[i] = more;
                }
            }
        }
    }

    fn slower(&self, i: usize, these: u32, those: u32) -> bool {
        self.jobs[i].rates[these as usize] < self.jobs[i].rates[those as usize]
    }
}

/// Minimum number of GPUs for a training.
fn least(job: &RemainingTraining) -> u32 {
    let runs = job.rates.iter().position(|r| *r > 0.0);
    runs.unwrap_or(1) as u32
}
