//! Number of jobs that fill the processors, from the processor time that each job can use.
//!
//! On a GPU, only a trial shows the gain of one more job. On processors the load shows it: a processor that is idle
//! while jobs wait is wasted, and if none is idle, more jobs gain nothing. A job demands
//!
//! ```text
//! wants = (seconds on a processor + seconds ready to run, of all its threads) / seconds since its start
//! ```
//!
//! processors, independent of its co-runners: 1 for a training that always computes on one thread, a quarter for one
//! that waits for data three quarters of the time. So `cores / demand` copies fill the machine. But jobs wait at
//! different moments, so at times there are fewer runnable jobs than processors. While more than `WASTED` of the
//! processors are idle and jobs wait, levels rise further. A rise that leaves as many processors idle is undone: it
//! shows that the jobs wait for a shared resource, such as a disk.

use std::collections::BTreeMap;

use crate::book::Id;
use crate::learnt::Learnt;

/// Load of the processors between two observations.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Seconds since the previous observation.
    pub seconds: f64,
    /// Mean number of busy processors, including load from other programs.
    pub busy: f64,
    /// For each running job, seconds since its start, and the processor seconds that it demanded in this time.
    pub wanted: BTreeMap<Id, (f64, f64)>,
}

/// Fraction of the processors that the first estimate of a level leaves idle: one-second jobs lose a tenth of their
/// time to start and end.
const IDLE: f64 = 0.1;
/// Fraction of the processors that may be idle while jobs wait. With a tenth, 60 trainings of three templates took 5 %
/// longer than with 0.04 (means of three runs each, in turns).
const WASTED: f64 = 0.04;
/// Minimum relative rise of the demand that is judged: a smaller rise is lost in the differences between jobs of
/// different sizes.
const LEAST_MORE: f64 = 0.1;
/// A rise is kept if the idle fraction falls by at least this fraction of its value for each doubling of the demand.
/// With jobs that wait at random it falls by more; with jobs that share a disk it does not fall.
const LEAST_FALL: f64 = 0.15;
/// Seconds of observation that are averaged before levels rise; a job that waits for its data waits several times in
/// this period.
const STEADY: f64 = 0.5;
/// Age in seconds from which the demand of a job counts: the first hundredths of a second belong to the loader.
const YOUNG: f64 = 0.15;
/// Levels exceed `cores / wants` by at most this factor: with so many jobs that wait at random, a processor is idle one
/// moment in e^3 = 20.
const BEYOND: f64 = 3.0;
/// Demand above which a job counts as always computing, so that its level is not raised. One-second trainings spend a
/// tenth of their time on start and end, and more of them at once would not change that.
const COMPUTES: f64 = 0.75;
/// Maximum measured demand of a single-threaded job; it may exceed 1 because age and processor time are read at
/// slightly different moments.
const ONE_THREAD: f64 = 1.05;
/// Maximum number of computing jobs beyond those that fill the processors, minus the half job that is started in any
/// case. Of 1, 2 and 4 such jobs, two gave the best makespans for a mix of three templates; with one, 14 % of two
/// processors stayed idle.
const MOST_SPARE: f64 = 1.5;
/// Minimum demand of a job, so that one that only sleeps has a level.
const LEAST_WANTED: f64 = 0.01;
/// The duration of a job counts up to this many times the mean of the ended jobs of its template. With twice the mean,
/// a template with ten computing jobs and one that hangs still counts as computing.
const LONGEST: f64 = 2.0;
/// Factor on the previous sums when a job ends, so that about the last ten jobs count, regardless of their size.
const FADES: f64 = 0.9;

/// Sums of the last observations of jobs.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    jobs: f64,
    seconds: f64,
    wanted: f64,
}

impl Sums {
    fn fade(&mut self) {
        self.jobs *= FADES;
        self.seconds *= FADES;
        self.wanted *= FADES;
    }

    /// Adds the duration of a job and its demand in this time; a duration above `longest` seconds is scaled down to
    /// `longest`.
    fn add(&mut self, (seconds, wanted): (f64, f64), longest: f64) {
        let part = (longest / seconds).min(1.0);
        self.jobs += 1.0;
        self.seconds += seconds * part;
        self.wanted += wanted * part;
    }

    /// Maximum duration with which a job counts. A job that hangs for hours would otherwise make its whole template
    /// look idle, and all waiting jobs would start at once.
    fn longest(&self) -> f64 {
        match self.jobs > 0.0 {
            true => LONGEST * self.seconds / self.jobs,
            false => f64::INFINITY,
        }
    }
}

/// A rise of levels in progress.
#[derive(Debug, Clone)]
struct Rise {
    /// Levels before it.
    levels: BTreeMap<String, usize>,
    /// Demand of a job of each template at that time.
    wants: BTreeMap<String, f64>,
    /// Sum of all demands.
    wanted: f64,
    /// Number of busy processors.
    busy: f64,
}

impl Rise {
    /// Sum of the demands, at the beginning of the rise, of jobs that still run.
    fn wanted_by(&self, active: &BTreeMap<Id, &str>) -> f64 {
        active.values().filter_map(|t| self.wants.get(*t)).sum()
    }
}

/// What is known about the load of the processors and the demand of jobs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processors {
    cores: usize,
    /// Last observation of each running job.
    last: BTreeMap<Id, (f64, f64)>,
    /// Ended jobs, by template.
    ended: BTreeMap<String, Sums>,
    /// At least one job waits only because of its level.
    blocked: bool,
    /// Seconds of observation since jobs wait and since the last rise, and busy processor seconds in this time.
    steady: (f64, f64),
    rise: Option<Rise>,
    /// Number of computing jobs that may run beyond those that fill the processors.
    spare: f64,
}

impl Processors {
    pub(crate) fn new(cores: usize) -> Self {
        Self {
            cores: cores.max(1),
            ..Self::default()
        }
    }

    /// Level of an unknown template, which assumes that each job keeps one processor busy.
    pub(crate) const fn first_level(&self) -> usize {
        self.cores
    }

    /// Allowed overcommitment, as a fraction of the processors.
    pub(crate) fn spare(&self) -> f64 {
        self.spare / self.cores as f64
    }

    pub(crate) fn settle(&mut self, blocked: bool) {
        self.blocked = blocked;
        // If nothing waits, idle processors are not wasted.
        if !blocked {
            self.steady = (0.0, 0.0);
        }
    }

    pub(crate) fn ended(&mut self, id: Id, template: &str) {
        if let Some(seen) = self.last.remove(&id) {
            let sums = self.ended.entry(template.to_owned()).or_default();
            let longest = sums.longest();
            sums.fade();
            sums.add(seen, longest);
        }
    }

    pub(crate) fn look(
        &mut self,
        look: &Look,
        active: &BTreeMap<Id, &str>,
        learnt: &mut BTreeMap<String, Learnt>,
        most: usize,
    ) {
        let grown = look.wanted.iter().filter(|(_, (age, _))| *age >= YOUNG);
        self.last.extend(grown.map(|(id, seen)| (*id, *seen)));
        let mut sums = self.ended.clone();
        for (id, template) in active {
            if let Some(seen) = self.last.get(id) {
                let ended = self.ended.get(*template);
                let longest = ended.map_or(f64::INFINITY, Sums::longest);
                let sums = sums.entry((*template).to_owned()).or_default();
                sums.add(*seen, longest);
            }
        }
        for (template, sums) in sums {
            let Some(learnt) = learnt.get_mut(&template) else {
                continue;
            };
            let wants = (sums.wanted / sums.seconds).max(LEAST_WANTED);
            let before = learnt.wants.map_or(self.cores, |wants| self.fills(wants));
            learnt.wants = Some(wants);
            // A level that was raised above the number that fills the processors is kept.
            let fills = self.fills(wants).min(most);
            if learnt.level <= before.max(fills) {
                learnt.level = fills;
            }
            let busy = (learnt.level as f64 * wants).min(self.cores as f64);
            learnt.speedup = (busy / wants).max(1.0);
        }
        self.spare = Self::spare_of(active, learnt);
        self.steady.0 += look.seconds;
        self.steady.1 += look.seconds * look.busy;
        if self.steady.0 < STEADY {
            return;
        }
        let busy = self.steady.1 / self.steady.0;
        self.steady = (0.0, 0.0);
        self.judge(busy, active, learnt);
        self.raise(busy, active, learnt, most);
    }

    /// Minimum number of copies that leave at most [`IDLE`] of the processors idle. For example, a training of two
    /// threads that wait for each other a third of the time needs a second training beside it.
    fn fills(&self, wants: f64) -> usize {
        // A job that always computes has a lower demand only at its start and end.
        if (COMPUTES..=ONE_THREAD).contains(&wants) {
            return self.cores;
        }
        ((self.cores as f64 * (1.0 - IDLE) / wants).ceil() as usize).max(1)
    }

    /// A mix of computing and waiting jobs may overcommit the processors. If all jobs compute, processors are idle only
    /// during starts and ends, and more jobs would not improve that.
    fn spare_of(active: &BTreeMap<Id, &str>, learnt: &BTreeMap<String, Learnt>) -> f64 {
        let wants = |t: &str| learnt.get(t).and_then(|l| l.wants);
        let mixed = |t: &&str| wants(t).is_some_and(|w| !(COMPUTES..=ONE_THREAD).contains(&w));
        match active.values().any(mixed) {
            true => MOST_SPARE,
            false => 0.0,
        }
    }

    /// Undoes a rise that did not reduce the number of idle processors enough.
    fn judge(
        &mut self,
        busy: f64,
        active: &BTreeMap<Id, &str>,
        learnt: &mut BTreeMap<String, Learnt>,
    ) {
        let Some(rise) = &self.rise else { return };
        // By now other jobs may run, with a smaller demand; then nothing can be concluded about the rise.
        let more = rise.wanted_by(active) / rise.wanted - 1.0;
        let idle = |busy: f64| self.cores as f64 - busy;
        if more >= LEAST_MORE && idle(busy) > idle(rise.busy) * (1.0 - LEAST_FALL * more) {
            for (template, level) in &rise.levels {
                if let Some(learnt) = learnt.get_mut(template) {
                    (learnt.level, learnt.step) = (*level, 0);
                }
            }
        }
        self.rise = None;
    }

    fn raise(
        &mut self,
        busy: f64,
        active: &BTreeMap<Id, &str>,
        learnt: &mut BTreeMap<String, Learnt>,
        most: usize,
    ) {
        let cores = self.cores as f64;
        if !self.blocked || busy > cores * (1.0 - WASTED) {
            return;
        }
        let wants = |t: &str| learnt.get(t).and_then(|l| l.wants);
        let waits = |t: &str| wants(t).is_some_and(|w| w < COMPUTES);
        // Threads that wait for each other also leave processors idle.
        let threads = |t: &str| wants(t).is_some_and(|w| w > ONE_THREAD && self.fills(w) > 1);
        let all: BTreeMap<String, usize> = active
            .values()
            .filter(|t| waits(t) || threads(t))
            .filter_map(|t| Some(((*t).to_owned(), learnt.get(*t)?.level)))
            .collect();
        let mut levels = BTreeMap::new();
        for (template, level) in all {
            let Some(learnt) = learnt.get_mut(&template).filter(|l| l.step > 0) else {
                continue;
            };
            let Some(wants) = learnt.wants else { continue };
            let more = (level as f64 * cores / busy.max(cores * 0.25)).ceil() as usize;
            let beyond = (BEYOND * cores / wants) as usize;
            let target = more.min(beyond).min(most);
            if target > level {
                levels.insert(template, level);
                learnt.level = target;
            }
        }
        if !levels.is_empty() {
            let known = |(t, l): (&String, &Learnt)| Some((t.clone(), l.wants?));
            let mut rise = Rise {
                levels,
                wants: learnt.iter().filter_map(known).collect(),
                wanted: 0.0,
                busy,
            };
            rise.wanted = rise.wanted_by(active);
            self.rise = Some(rise);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of a sweep hangs for an hour, while others compute for five seconds each.
    #[test]
    fn a_job_that_hangs_does_not_make_the_others_start_at_once() {
        let mut processors = Processors::new(2);
        let mut learnt = BTreeMap::from([("t".to_owned(), Learnt::default())]);
        let mut look = |processors: &mut Processors, hangs: f64, computes: u64, age: f64| {
            let active = BTreeMap::from([(Id(1), "t"), (Id(computes), "t")]);
            let wanted = BTreeMap::from([(Id(1), (hangs, 0.0)), (Id(computes), (age, age))]);
            let look = Look {
                seconds: 0.3,
                busy: 1.0,
                wanted,
            };
            processors.settle(true);
            processors.look(&look, &active, &mut learnt, 32);
            learnt["t"].level
        };
        for id in 2..14 {
            processors.last.insert(Id(id), (5.0, 5.0));
            processors.ended(Id(id), "t");
        }
        for n in 0..10 {
            let hangs = f64::from(n) * 400.0 + 1.0;
            for part in 1..10 {
                let level = look(&mut processors, hangs, 20, f64::from(part) * 0.5);
                assert_eq!(level, 2, "after {hangs} s");
            }
        }
        processors.ended(Id(1), "t");
        assert_eq!(look(&mut processors, 1.0, 21, 1.0), 2);
    }
}
