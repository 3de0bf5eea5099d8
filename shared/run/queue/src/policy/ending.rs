//! The last jobs of a sweep: whether one that could start had better wait for another place.

use std::collections::BTreeSet;

use super::Policy;
use super::choose::Rooms;
use crate::explore::Rest;
use crate::forecast::{Card, Work, ends};

/// A job that has done about as much as others of its template in total has at least this part of it left.
const LEAST: f64 = 0.1;

impl Policy {
    /// Whether all jobs would end sooner, by a forecast, if a job did not start on a device now under a cap: if the
    /// device got its next job only when one of its jobs has ended, or no more at all. `None` where it is unknown how
    /// much work jobs have, and while more jobs wait than run: then what counts is how fast jobs are done. `open`: the
    /// devices where it could start.
    ///
    /// On 257 simulated sweeps, the geometric mean of the makespan over the best fixed choice is 1.074 with this and
    /// 1.082 without.
    pub(super) fn had_better_wait(
        &self,
        (at, cap): (usize, u32),
        rooms: &Rooms,
        open: &[usize],
        only: Option<&[String]>,
        template: &str,
        now: f64,
    ) -> Option<bool> {
        if rooms.queued.is_empty() {
            return None;
        }
        let devices: Vec<usize> = self
            .allowed(only)
            .filter(|at| self.lanes[*at].lost().is_none())
            .collect();
        let running = devices
            .iter()
            .flat_map(|at| self.explorer(*at).templates(*at));
        let starts = rooms.starts.iter().map(|start| &*start.1);
        let queued = rooms.queued.iter().map(|name| &**name);
        let sorted: BTreeSet<&str> = running.chain(starts).chain(queued).collect();
        let names: Vec<&str> = sorted.into_iter().collect();
        let number = |name: &str| names.iter().position(|known| *known == name);
        let cards: Option<Vec<Card<'_>>> = devices
            .iter()
            .map(|at| self.card(*at, rooms, &names, template, now))
            .collect();
        let mut cards = cards?;
        let places: usize = cards.iter().map(|card| card.most).sum();
        if rooms.queued.len() > places {
            return None;
        }
        // Where it cannot start now, it might when a job has ended. Where none runs, none would end.
        for (card, at) in cards.iter_mut().zip(&devices) {
            if !open.contains(at) {
                card.most = card.most.min(card.running());
            }
        }
        if cards.iter().all(|card| card.running() == 0) {
            return None;
        }
        let here = devices.iter().position(|device| *device == at)?;
        let mut waiting: Vec<usize> = rooms.queued.iter().filter_map(|n| number(n)).collect();
        let with_most = |most: usize| {
            let mut cards = cards.clone();
            cards[here].most = cards[here].most.min(most);
            ends(cards, &waiting)
        };
        let later = with_most(cards[here].running()).min(with_most(0));
        let own = number(template)?;
        waiting.remove(waiting.iter().position(|of| *of == own)?);
        let work = cards[here].new[own];
        cards[here].add(Work { cap, ..work });
        Some(later < ends(cards, &waiting))
    }

    /// A device with its jobs, for a forecast.
    fn card(
        &self,
        at: usize,
        rooms: &Rooms,
        names: &[&str],
        template: &str,
        now: f64,
    ) -> Option<Card<'_>> {
        let kind = self.lanes[at].kind;
        let explorer = self.explorer(at);
        let new = names.iter().enumerate().map(|(number, name)| {
            Some(Work {
                template: number,
                cap: explorer.cap(at, name, usize::MAX),
                startup: explorer.startup(name).unwrap_or(0.0),
                alone: self.seconds(kind, name)?,
            })
        });
        let new = new.collect::<Option<Vec<Work>>>()?;
        let most = explorer.number_with(at, template);
        let mut card = Card::new(new.clone(), most, explorer.pairs(names));
        for (name, cap, rest) in explorer.rests(at, now) {
            let usual = new[names.iter().position(|known| *known == name)?];
            let (startup, alone) = match rest {
                Rest::Starting(age) => ((usual.startup - age).max(0.0), usual.alone),
                Rest::Left(alone) => (0.0, alone),
                Rest::Done(alone) => (0.0, (usual.alone - alone).max(LEAST * usual.alone)),
            };
            card.add(Work {
                cap,
                startup,
                alone,
                ..usual
            });
        }
        for (_, name, cap) in rooms.starts.iter().filter(|start| start.0 == at) {
            let usual = new[names.iter().position(|known| *known == name)?];
            card.add(Work { cap: *cap, ..usual });
        }
        Some(card)
    }

    /// Seconds of work alone that a job of a template has on a kind of device.
    fn seconds(&self, kind: usize, template: &str) -> Option<f64> {
        let own = self.kinds[kind].1.work(template);
        own.or_else(|| {
            (0..self.kinds.len()).find_map(|other| {
                let work = self.kinds[other].1.work(template)?;
                Some(work * self.ratio(other, kind, template).unwrap_or(1.0))
            })
        })
    }
}
