//! Chooses the device and the cap of a job.

use units::Share;

use super::Policy;
use super::choose::Rooms;
use crate::book::Demand;
use crate::devices::Spot;
use crate::index::Kind;
use crate::lane::Wait;

/// A device counts as faster if its jobs progress by this factor faster.
const FASTER: f64 = 1.15;

impl Policy {
    /// Devices and share with which a job can start beside the running ones; otherwise the reason why it must wait.
    pub(super) fn place(
        &self,
        rooms: &Rooms,
        kind: &Kind,
        asked: Option<&Demand>,
    ) -> Result<Spot, Wait> {
        if rooms.jobs >= self.limits.most {
            return Err(Wait::Most);
        }
        let only = asked.and_then(|demand| demand.only.as_deref());
        let promise = asked.and_then(|demand| demand.at_most_slower);
        let (mut free, mut why) = (Vec::new(), None);
        for at in self.allowed(only) {
            let (lane, room, most) = (&self.lanes[at], &rooms.lanes[at], self.memory(at));
            match lane.fits(at, room, (kind, promise), most, self.explorer(at)) {
                Ok(()) => free.push((at, self.gain(at, rooms, &kind.template))),
                Err(wait) => why = Some(why.map_or(wait, |why| nearer(why, wait))),
            }
        }
        let wanted = kind.gpus.max(1);
        if free.len() < wanted {
            return Err(match why {
                Some(why) if self.allowed(only).count() >= wanted => why,
                _ => Wait::Device,
            });
        }
        free.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        free.truncate(wanted);
        let devices: Vec<usize> = free.into_iter().map(|(at, _)| at).collect();
        let best = devices.first().copied().unwrap_or(0);
        if wanted == 1 && self.is_late(best, rooms, only, &kind.template) {
            return Err(Wait::Turn);
        }
        let asked = asked.and_then(|demand| demand.share);
        let asked = asked.map_or(Share::FULL, Share::from_hundredths);
        let cap = match (wanted, promise) {
            // No cap for a job with a promise, because it would slow the job down.
            (1, None) => {
                let explorer = self.explorer(best);
                let most = self.lanes[best].holds(&rooms.lanes[best], kind, explorer);
                // A cap does not help a job that has the device to itself either.
                let most = most.min(rooms.lanes[best].jobs + rooms.waiting.max(1));
                explorer.cap(best, &kind.template, most) * 100
            }
            _ => Share::FULL.hundredths(),
        };
        Ok(Spot {
            devices,
            share: asked.min(Share::from_hundredths(cap)),
        })
    }

    /// Throughput that a job adds on a device, relative to a job alone on the fastest device.
    fn gain(&self, at: usize, rooms: &Rooms, template: &str) -> f64 {
        let explorer = self.explorer(at);
        let rates = (0..self.kinds.len()).filter_map(|kind| self.rate(kind, template));
        let fastest = rates.fold(0.0, f64::max);
        // A kind without measurements counts as the fastest until it has been measured.
        let speed = match self.rate(self.lanes[at].kind, template) {
            Some(rate) if fastest > 0.0 => rate / fastest,
            _ => 1.0,
        };
        speed * explorer.gain(rooms.lanes[at].jobs, &explorer.mix(at, Some(template)))
    }

    /// Work per second of a job of a template on a kind of device. If the template did not run there, estimated from
    /// other templates that ran on this kind and on another one.
    fn rate(&self, kind: usize, template: &str) -> Option<f64> {
        let own = &self.kinds[kind].1;
        let known = own.rate(template);
        known.or_else(|| {
            let guesses = self.kinds.iter().filter_map(|(_, other)| {
                let ratios = other
                    .learnt()
                    .iter()
                    .filter_map(|(mix, learnt)| Some((own.rate(mix)? / learnt.rate?).ln()));
                let ratios: Vec<f64> = ratios.collect();
                let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
                (!ratios.is_empty()).then_some(other.rate(template)? * mean.exp())
            });
            guesses.reduce(f64::max)
        })
    }

    /// Whether a job that starts now on this device would end later than if it waited for its turn on faster ones: the
    /// last jobs of a sweep must not start on the slowest device of the machine. With `k` places on devices where a job
    /// takes `t`, `w` waiting jobs have all started there after `t w / k`.
    fn is_late(&self, at: usize, rooms: &Rooms, only: Option<&[String]>, template: &str) -> bool {
        let rate = |at: usize, number: usize| {
            let explorer = self.explorer(at);
            let mix = explorer.mix(at, Some(template));
            let known = explorer.rate_in(&mix, number, template);
            known.or_else(|| self.rate(self.lanes[at].kind, template))
        };
        let Some(here) = rate(at, rooms.lanes[at].jobs + 1) else {
            return false;
        };
        let (mut places, mut there) = (0.0, here);
        for other in self.allowed(only).filter(|other| *other != at) {
            let jobs = rooms.lanes[other].jobs;
            let is_used = jobs > 0 && self.lanes[other].lost().is_none();
            let rate = rate(other, jobs).filter(|rate| is_used && *rate > here * FASTER);
            if let Some(rate) = rate {
                let outlook = self.explorer(other).outlook(other, template);
                places += jobs.max(outlook) as f64 * rate;
                there = there.max(rate);
            }
        }
        // In units of the time that a job takes on the fastest of these devices.
        let begun = rooms.waiting as f64 * there / places;
        places > 0.0 && begun + 1.0 < there / here
    }

    /// Whether no job at all could be started beside the running ones, and why.
    pub(super) fn is_closed(&self, rooms: &Rooms) -> Option<Wait> {
        if rooms.jobs >= self.limits.most {
            return Some(Wait::Most);
        }
        let mut why = None;
        for (lane, room) in self.lanes.iter().zip(&rooms.lanes) {
            let closed = lane.is_closed(room, &self.kinds[lane.kind].1)?;
            why = Some(why.map_or(closed, |why| nearer(why, closed)));
        }
        why
    }
}

/// Of the reasons of two devices, the one that will probably disappear first.
fn nearer(one: Wait, other: Wait) -> Wait {
    let order = |wait| match wait {
        Wait::Turn => 0,
        Wait::Memory => 1,
        Wait::Promise => 2,
        Wait::Alone => 3,
        Wait::Most => 4,
        _ => 5,
    };
    if order(other) < order(one) {
        other
    } else {
        one
    }
}
