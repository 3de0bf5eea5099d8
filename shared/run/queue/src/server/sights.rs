//! Observation of the devices: free memory, which processes use the rest, whether a device is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use host::{Gpus, SightError};
use jobs::Ram;
use jobs::process::members;

use super::{Keeper, Run};
use crate::book::{Entry, Id};
use crate::devices::{Sight, Stranger};
use crate::message::DeviceStatus;

/// Time between two observations. Trainings reach their peak memory in seconds, and an observation reads one file for
/// each process.
const PAUSE: Duration = Duration::from_millis(500);

impl Keeper {
    /// Observes the devices and the memory of jobs, a few times a second while something runs or waits.
    pub(super) fn look_at_devices(&mut self, run: &Run<'_>) {
        if self.sighted.is_some_and(|at| at.elapsed() < PAUSE) || !self.book.is_busy() {
            return;
        }
        self.sighted = Some(Instant::now());
        let running: Vec<Entry> = self.book.running().cloned().collect();
        let mut used = vec![BTreeMap::new(); self.place.devices.len()];
        let mut groups: BTreeMap<Id, BTreeSet<u32>> = BTreeMap::new();
        let has_gpu = self.place.devices.len() > 1;
        for entry in &running {
            let id = entry.job.id;
            let Some(pid) = Self::pid(run, entry) else {
                continue;
            };
            let now = self.peaks.look(id, pid, run.procs(id));
            for at in self.spot(entry).devices {
                used[at].insert(id, now);
            }
            if has_gpu {
                let all = members(pid, run.procs(id)).into_iter();
                groups.insert(id, all.filter_map(|pid| u32::try_from(pid).ok()).collect());
            }
        }
        for (at, used) in used.into_iter().enumerate() {
            let sight = match self.place.devices[at].cores {
                Some(_) => Sight {
                    free: Ram::now().free,
                    used,
                    ..Sight::default()
                },
                None => match self.sight_of_gpu(at, &running, &groups) {
                    Some(sight) => sight,
                    None => continue,
                },
            };
            self.sees(run, at, sight);
        }
        self.count_gpu_memory();
    }

    fn sees(&mut self, run: &Run<'_>, at: usize, mut sight: Sight) {
        sight.lost = sight.lost.or_else(|| self.why_unusable(run, at));
        self.sights[at] = Some(sight.clone());
        self.policy.sees(at, sight, self.clock.now());
    }

    /// The reason why nothing may be started on a device now, apart from errors that NVML reports.
    fn why_unusable(&self, run: &Run<'_>, at: usize) -> Option<String> {
        let recovers = || "it recovers from a fault of its MPS server".to_owned();
        let gone = self.gone.get(&at).cloned();
        gone.or_else(|| (!run.serves(&Gpus::one(at))).then(recovers))
    }

    /// Updates the faults of devices, because the next decision must know of a fault or of its end.
    pub(super) fn see_faults(&mut self, run: &Run<'_>) {
        for at in 0..self.sights.len() {
            let unusable = self.why_unusable(run, at).is_some();
            let changed = match unusable {
                true => self.faulted.insert(at),
                false => self.faulted.remove(&at),
            };
            if changed {
                let sight = self.sights[at].clone().unwrap_or_default();
                let lost = None;
                self.sees(run, at, Sight { lost, ..sight });
            }
        }
    }

    /// The observation of a GPU; `None` if NVML reports nothing about it.
    fn sight_of_gpu(
        &self,
        at: usize,
        running: &[Entry],
        groups: &BTreeMap<Id, BTreeSet<u32>>,
    ) -> Option<Sight> {
        let nvml = self.nvml.as_ref()?;
        let seen = match nvml.look(&self.place.devices[at].id) {
            Ok(seen) => seen,
            Err(lost @ SightError::Lost { .. }) => {
                return Some(Sight {
                    lost: Some(lost.to_string()),
                    ..Sight::default()
                });
            }
            Err(SightError::Unknown(_)) => return None,
        };
        let ours: BTreeSet<u32> = groups.values().flatten().copied().collect();
        let strangers = seen.strangers(&ours).map(|process| Stranger {
            pid: process.pid,
            name: process.name.clone().unwrap_or_default(),
            bytes: process.bytes.unwrap_or(0),
        });
        let here = running
            .iter()
            .filter(|entry| self.spot(entry).devices.contains(&at));
        let held = here.filter_map(|entry| {
            let id = entry.job.id;
            Some((id, seen.held_by(groups.get(&id)?)?))
        });
        Some(Sight {
            free: seen.free,
            strangers: strangers.collect(),
            used: held.collect(),
            lost: None,
        })
    }

    /// Adds up the memory of each job over all of its GPUs.
    fn count_gpu_memory(&mut self) {
        let mut held: BTreeMap<Id, u64> = BTreeMap::new();
        let gpus = self
            .place
            .devices
            .iter()
            .zip(&self.sights)
            .filter(|(device, _)| device.cores.is_none());
        for (id, bytes) in gpus.flat_map(|(_, sight)| sight.iter().flat_map(|s| &s.used)) {
            *held.entry(*id).or_default() += bytes;
        }
        for (id, bytes) in held {
            self.peaks.holds(id, bytes);
        }
    }

    /// The devices, for reports.
    pub(crate) fn devices(&self) -> Vec<DeviceStatus> {
        let spots: Vec<_> = self
            .book
            .running()
            .map(|entry| (entry, self.spot(entry)))
            .collect();
        let all = self.place.devices.iter().zip(&self.sights).enumerate();
        let status = |(at, (device, sight)): (usize, (&crate::devices::Device, &Option<Sight>))| {
            let here = spots.iter().filter(|(_, spot)| spot.devices.contains(&at));
            DeviceStatus {
                id: device.id.clone(),
                name: device.label(at),
                kind: device.kind.clone(),
                memory: device.total,
                free: sight.as_ref().map(|sight| sight.free),
                jobs: here.map(|(entry, _)| entry.job.id).collect(),
                strangers: sight
                    .as_ref()
                    .map_or_else(Vec::new, |s| s.strangers.clone()),
                lost: sight.as_ref().and_then(|sight| sight.lost.clone()),
            }
        };
        all.map(status).collect()
    }
}
