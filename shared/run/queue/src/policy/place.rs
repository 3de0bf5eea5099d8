//! Chooses the device and the cap of a job.

use units::Share;

use super::Policy;
use super::choose::Rooms;
use crate::book::Demand;
use crate::devices::Spot;
use crate::explore::USUAL;
use crate::index::Kind;
use crate::lane::Wait;

/// A device counts as faster if its jobs progress by this factor faster.
const FASTER: f64 = 1.15;

/// Slowdown of a job among `number` jobs on a device relative to alone, without measurements.
fn usual(number: usize) -> f64 {
    (number.max(1) as f64).powf(1.0 - USUAL)
}

impl Policy {
    /// Devices and share with which a job can start beside the running ones; otherwise the reason why it must wait.
    pub(super) fn place(
        &self,
        rooms: &mut Rooms,
        kind: &Kind,
        asked: Option<&Demand>,
        now: f64,
    ) -> Result<Spot, Wait> {
        if rooms.jobs >= self.limits.most {
            return Err(Wait::Most);
        }
        let only = asked.and_then(|demand| demand.only.as_deref());
        let promise = asked.and_then(|demand| demand.at_most_slower);
        let (mut free, mut why) = (Vec::new(), None);
        for at in self.allowed(only) {
            let lane = &self.lanes[at];
            let room = &rooms.lanes[at];
            let most = self.memory(at);
            let first = rooms.reserved.as_ref();
            let delays = first
                .is_some_and(|first| lane.delays(at, room, first, kind, most, self.explorer(at)));
            match lane.fits(at, room, kind, promise, most, self.explorer(at)) {
                Ok(()) if delays => why = Some(Wait::Reserved),
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
        let asked = asked
            .and_then(|demand| demand.share)
            .map_or(Share::FULL, Share::from_hundredths);
        let spot = |devices: Vec<usize>, cap: u32| Spot {
            devices,
            share: asked.min(Share::from_hundredths(cap * 100)),
        };
        if wanted > 1 {
            free.truncate(wanted);
            return Ok(spot(free.into_iter().map(|(at, _)| at).collect(), 100));
        }
        let open: Vec<usize> = free.iter().map(|(at, _)| *at).collect();
        for (at, _) in free {
            let this = (at, kind.template.clone());
            if rooms.refused.contains(&this) {
                continue;
            }
            let cap = match promise {
                None => self.cap(at, rooms, kind, only),
                // A cap would slow the job down.
                Some(_) => 100,
            };
            let wait = self.had_better_wait((at, cap), rooms, &open, only, &kind.template, now);
            if wait == Some(true) {
                rooms.refused.insert(this);
                continue;
            }
            return match self.is_late(at, rooms, only, &kind.template) {
                true => Err(Wait::Turn),
                false => Ok(spot(vec![at], cap)),
            };
        }
        Err(Wait::Turn)
    }

    /// The usual cap of a job that starts on a device.
    fn cap(&self, at: usize, rooms: &Rooms, kind: &Kind, only: Option<&[String]>) -> u32 {
        let explorer = self.explorer(at);
        let most = self.lanes[at].holds(&rooms.lanes[at], kind, explorer);
        // No cap helps a job that will have the device to itself. When half of its own work is done, half of the jobs
        // that run now have ended, and its device has got its part of the waiting ones.
        let places = self.allowed(only).count().max(1);
        let follow = rooms.waiting.saturating_sub(1).div_ceil(places);
        let beside = (rooms.lanes[at].jobs + 1).div_ceil(2) + follow;
        explorer.cap(at, &kind.template, most.min(beside))
    }

    /// Throughput that a job adds on a device, relative to a job alone on the fastest device.
    fn gain(&self, at: usize, rooms: &Rooms, template: &str) -> f64 {
        let explorer = self.explorer(at);
        self.speed(at, template)
            * explorer.gain(rooms.lanes[at].jobs, &explorer.mix(at, Some(template)))
    }

    /// Rate of a job alone on a device relative to the fastest one.
    pub(super) fn speed(&self, at: usize, template: &str) -> f64 {
        let own = self.lanes[at].kind;
        let faster = (0..self.kinds.len()).filter_map(|kind| self.ratio(kind, own, template));
        // A kind without measurements counts as the fastest until it has been measured.
        1.0 / faster.fold(1.0, f64::max)
    }

    /// Rate of a job of a template on one kind of device relative to its rate on another kind. If the template did not
    /// run on both, the geometric mean over the templates that did.
    pub(super) fn ratio(&self, kind: usize, other: usize, template: &str) -> Option<f64> {
        let this = &self.kinds[kind].1;
        let that = &self.kinds[other].1;
        let alone = |name: &str| Some(this.alone_rate(name)? / that.alone_rate(name)?);
        let of = |name: &str| alone(name).or_else(|| Some(this.rate(name)? / that.rate(name)?));
        of(template).or_else(|| {
            let all: Vec<f64> = this
                .learnt()
                .keys()
                .filter_map(|mix| Some(of(mix)?.ln()))
                .collect();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            (!all.is_empty()).then(|| mean.exp())
        })
    }

    /// Whether a job that starts now on this device would end later than if it waited for its turn on faster ones: the
    /// last jobs of a sweep must not start on the slowest device of the machine. With `k` places on devices where a job
    /// takes `t`, `w` waiting jobs have all started there after `t w / k`.
    fn is_late(&self, at: usize, rooms: &Rooms, only: Option<&[String]>, template: &str) -> bool {
        let own = self.lanes[at].kind;
        let rate = |other: usize, number: usize| {
            let explorer = self.explorer(other);
            let mix = explorer.mix(other, Some(template));
            explorer.rate_in(&mix, number, template)
        };
        // Rates relative to a job of the template on this device.
        let here = rate(at, rooms.lanes[at].jobs + 1);
        let faster = |other: usize| {
            let jobs = rooms.lanes[other].jobs;
            if let (Some(there), Some(here)) = (rate(other, jobs), here) {
                return Some(there / here);
            }
            let beside = usual(rooms.lanes[at].jobs + 1) / usual(jobs);
            Some(self.ratio(self.lanes[other].kind, own, template)? * beside)
        };
        let (mut places, mut there) = (0.0, 1.0_f64);
        for other in self.allowed(only).filter(|other| *other != at) {
            let jobs = rooms.lanes[other].jobs;
            let is_used = jobs > 0 && self.lanes[other].lost().is_none();
            let times = is_used.then(|| faster(other)).flatten();
            if let Some(times) = times.filter(|times| *times > FASTER) {
                let outlook = self.explorer(other).outlook(other, template);
                places += jobs.max(outlook) as f64 * times;
                there = there.max(times);
            }
        }
        // In units of the time that a job takes on the fastest of these devices.
        let begun = rooms.waiting as f64 * there / places;
        places > 0.0 && begun + 1.0 < there
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
