//! How many jobs to run at once on a kind of device, and under which cap, from measurements of their contention.
//!
//! With `n` jobs each progresses at `r(n)` times its rate alone, so their total throughput is `n r(n)`. `fit.rs`
//! compares situations through the jobs that were measured in several of them. A job that is still starting does not
//! use the device yet, so `n` counts the jobs that have reported progress. Jobs that print no progress are compared by
//! the durations of whole runs.
//!
//! The cap of an MPS client is fixed when it starts. So a cap is tried on jobs that start next anyway; no job is
//! restarted for it.
//!
//! Results apply to a mix, the set of templates that run together. `model.rs` predicts from all of them what any number
//! of jobs of any mix would do under any cap, and `search.rs` corrects that by what was measured in the same mix.
//!
//! Processors need no experiments: `processors` measures their load.

mod measured;
mod promise;
mod sharing;

pub(crate) use sharing::Rest;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::book::Id;
use crate::fit::fit;
use crate::learnt::{Learnt, Tried};
use crate::meter::{At, Meter};
use crate::model::{Model, Part};
use crate::processors::{Look, Processors};
use crate::search::{self, Aim, START, Table};

/// A job that has reported nothing this many seconds after its start is assumed to print no progress, and measurements
/// no longer wait for it: starting Python with a framework takes up to 10 s.
const SILENT: f64 = 15.0;
/// Number of ended jobs whose rates are kept: the rates of a few tens of jobs suffice, and every fit reads them all.
const KEPT: usize = 80;
/// Seconds between two fits; a rate itself takes two seconds to measure.
const PAUSE: f64 = 1.0;
/// Seconds between two fits while no trial is under way.
const LONG_PAUSE: f64 = 5.0;
/// Weight of the last run in the mean duration of a template's jobs.
const LAST: f64 = 0.3;
/// Separator of the templates in the name of a mix.
const AND: &str = " + ";

/// A running job.
#[derive(Debug, Clone)]
struct Runner {
    template: String,
    device: usize,
    cap: u32,
    started: f64,
    /// Time of its first report since it was started.
    begun: Option<f64>,
    /// Work at its last report, and in total if it tells that.
    done: f64,
    of: Option<f64>,
    meter: Meter,
    /// The situation on its device (including itself), if that has not changed since its start.
    beside: Beside,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Beside {
    Unknown,
    Always(At),
    Changed,
}

/// A job that has ended.
#[derive(Debug, Clone)]
struct Past {
    template: String,
    cap: u32,
    meter: Meter,
    /// Its work in total, if it succeeded.
    of: Option<f64>,
    /// Situation and duration of its whole run, if it succeeded and the situation never changed.
    run: Option<(At, f64)>,
}

/// Finds the best number of jobs at once and the best cap for each mix.
#[derive(Debug, Clone, Default)]
pub struct Explorer {
    learnt: BTreeMap<String, Learnt>,
    /// Mixes whose number is settled, by an earlier server or because more jobs ran out of memory.
    fixed: BTreeSet<String>,
    runners: BTreeMap<Id, Runner>,
    ended: VecDeque<Past>,
    /// Mean seconds from a job's start to its first report, by template.
    startups: BTreeMap<String, f64>,
    /// Names of mixes; their positions are in [`At::mix`].
    mixes: Vec<String>,
    /// The largest number of jobs of a template among which one of it was measured, in this sweep or an earlier one.
    copies: BTreeMap<String, usize>,
    /// The crowds in which rates were measured, by [`At::crowd`].
    crowds: BTreeMap<usize, Vec<Part>>,
    model: Model,
    /// What an earlier sweep tried, by mix.
    earlier: BTreeMap<String, Vec<Tried>>,
    /// Mean seconds of work alone of the jobs of each template.
    works: BTreeMap<String, f64>,
    /// Mean work per second alone of the jobs of each template.
    alone: BTreeMap<String, f64>,
    /// Number of waiting jobs of each device.
    lefts: BTreeMap<usize, usize>,
    /// The number and cap in use for each mix, and whether they are a trial.
    aims: BTreeMap<String, (Aim, bool)>,
    tables: BTreeMap<usize, Table>,
    /// Mean logarithm of the rate of each template.
    means: BTreeMap<String, f64>,
    /// Time of the last fit, and whether anything was measured since.
    fitted: f64,
    stale: bool,
    /// Largest level.
    most: usize,
    /// Load of the processors, if jobs run on them.
    processors: Option<Processors>,
}

impl Explorer {
    /// Starts from earlier results; no level exceeds `most`.
    #[must_use]
    pub fn new(learnt: BTreeMap<String, Learnt>, most: usize) -> Self {
        let shares = |name: &str| learnt.get(name).is_some_and(|l| l.sharing.is_some());
        let settled = learnt
            .iter()
            .filter(|(mix, learnt)| learnt.step == 0 && !mix.split(AND).all(shares));
        let fixed = settled.map(|(mix, _)| mix.clone()).collect();
        let mut explorer = Self {
            fixed,
            most,
            fitted: f64::NEG_INFINITY,
            ..Self::default()
        };
        explorer.recall(&learnt);
        let tried = learnt.iter().map(|(mix, l)| (mix.clone(), l.tried.clone()));
        Self {
            earlier: tried.collect(),
            learnt,
            ..explorer
        }
    }

    /// From now on, no level exceeds `most`.
    pub const fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// What has been learnt so far.
    #[must_use]
    pub const fn learnt(&self) -> &BTreeMap<String, Learnt> {
        &self.learnt
    }

    /// What has been learnt about a template.
    pub(crate) fn learnt_mut(&mut self, template: &str) -> &mut Learnt {
        let level = self.first();
        let first = || Learnt {
            level,
            ..Learnt::default()
        };
        self.learnt.entry(template.to_owned()).or_insert_with(first)
    }

    /// Level of a template without measurements.
    fn first(&self) -> usize {
        (self.processors.as_ref()).map_or(START, Processors::first_level)
    }

    /// Number of copies of a template, or of jobs of a mix, that fill the device.
    #[must_use]
    pub fn level(&self, mix: &str) -> usize {
        let aim = self.aims.get(mix).map(|(aim, _)| aim.number);
        let level = aim.or(self.learnt.get(mix).map(|l| l.level));
        self.within(level.unwrap_or(self.first()))
    }

    /// A number of jobs, or the nearest one that may run.
    fn within(&self, number: usize) -> usize {
        number.clamp(1, self.most.max(1))
    }

    /// Cap, in percent, for a job of a template that starts now on a device where at most `most` jobs can run together.
    #[must_use]
    pub fn cap(&self, device: usize, template: &str, most: usize) -> u32 {
        if self.processors.is_some() {
            return 100;
        }
        self.cap_of(self.aim_with(device, template), most)
    }

    /// The cap of an aim if at most `most` jobs can run: if these are fewer than would be best, each may have a larger
    /// share.
    fn cap_of(&self, aim: Aim, most: usize) -> u32 {
        let most = most.min(self.most);
        match aim.number <= most {
            true => aim.cap,
            false => Aim::of(most).cap.max(aim.cap),
        }
    }

    /// Number and cap for the mix that one more job of a template makes on a device.
    fn aim_with(&self, device: usize, template: &str) -> Aim {
        let mix = self.mix(device, Some(template));
        let aim = self.aims.get(&mix).map(|(aim, _)| *aim);
        aim.unwrap_or_else(|| match self.learnt.get(&mix) {
            Some(learnt) => Aim::learnt(learnt),
            None => self.with(device, template),
        })
    }

    /// The trials under way: mix, number of jobs, and cap in percent.
    pub fn testing(&self) -> impl Iterator<Item = (&str, usize, u32)> {
        let trials = self.aims.iter().filter(|(_, (_, trial))| *trial);
        trials.map(|(mix, (aim, _))| (&**mix, aim.number, aim.cap))
    }

    /// Declares that jobs run on this many processors; [`Explorer::look`] must then report the load.
    #[must_use]
    pub fn on_processors(mut self, cores: usize) -> Self {
        self.processors = Some(Processors::new(cores));
        // An earlier rise may have failed only because the disk was busy for another reason, so levels may rise again.
        for learnt in self.learnt.values_mut() {
            learnt.step = 1;
        }
        self
    }

    /// Fraction of the processors by which jobs may overcommit them, according to measured idle time.
    #[must_use]
    pub fn spare(&self) -> f64 {
        self.processors.as_ref().map_or(0.0, Processors::spare)
    }

    /// The highest level of any template or mix.
    #[must_use]
    pub fn highest(&self) -> usize {
        let aims = self.aims.keys().map(|mix| self.level(mix));
        let levels = self.learnt.keys().map(|mix| self.level(mix));
        aims.chain(levels)
            .max()
            .unwrap_or(1)
            .max(self.first().min(self.most.max(1)))
    }

    /// Whether a device with this many running jobs has no room for a job of this template.
    pub(crate) fn is_full(&self, device: usize, running: usize, template: &str) -> bool {
        let aim = self.aim_with(device, template);
        running >= self.within(aim.number)
            || !self.pays(device, template, self.cap_of(aim, self.most))
    }

    /// Jobs on a device.
    fn on(&self, device: usize) -> impl Iterator<Item = &Runner> {
        self.runners.values().filter(move |r| r.device == device)
    }

    /// The name of the mix on a device, with one more template.
    pub(crate) fn mix(&self, device: usize, more: Option<&str>) -> String {
        let all: BTreeSet<&str> = self.on(device).map(|r| &*r.template).chain(more).collect();
        all.into_iter().collect::<Vec<_>>().join(AND)
    }

    /// Throughput that one more job adds, in units of a job alone.
    pub(crate) fn gain(&self, running: usize, mix: &str) -> f64 {
        let total = |number: usize| {
            let tried = self
                .learnt
                .get(mix)?
                .tried
                .iter()
                .filter(|t| t.at_once == number);
            tried.map(|t| t.gives).max_by(f64::total_cmp)
        };
        let usual = |number: usize| (number as f64).powf(USUAL);
        match (total(running), total(running + 1)) {
            (Some(before), Some(after)) => after - before,
            _ => usual(running + 1) - usual(running),
        }
    }

    /// Work per second of a job of a template when `number` jobs of the mix run, taken from the nearest number that was
    /// measured; `None` if unknown.
    pub(crate) fn rate_in(&self, mix: &str, number: usize, template: &str) -> Option<f64> {
        let usual = |from: usize| (number.max(1) as f64 / from as f64).powf(USUAL - 1.0);
        let table = self.number(mix).and_then(|mix| self.tables.get(&mix));
        let nearest = table.and_then(|table| {
            let known = table
                .iter()
                .filter(|((at, _), worth)| *at > 0 && search::is_known(*at, worth));
            known.min_by_key(|((at, _), _)| at.abs_diff(number))
        });
        match (nearest, self.means.get(template)) {
            (Some(((at, _), worth)), Some(mean)) => Some((mean + worth.log).exp() * usual(*at)),
            _ => Some(self.rate(template)? * usual(self.learnt.get(template)?.level)),
        }
    }

    /// Expected number of jobs on the device with one of this template: its level, or twice that while a trial is under
    /// way.
    pub(crate) fn outlook(&self, device: usize, template: &str) -> usize {
        let mix = self.mix(device, Some(template));
        let trial = self.aims.get(&mix).is_none_or(|(_, trial)| *trial);
        self.level(&mix) * if trial { 2 } else { 1 }
    }

    /// Work per second of a job of a template at the best number of jobs, if known.
    pub(crate) fn rate(&self, template: &str) -> Option<f64> {
        self.learnt.get(template)?.rate
    }

    /// Number of jobs that run on a device.
    #[must_use]
    pub fn running(&self, device: usize) -> usize {
        self.on(device).count()
    }

    /// Whether a running job has reported progress, or is assumed to report none.
    pub(crate) fn has_begun(&self, id: Id, now: f64) -> bool {
        let runner = self.runners.get(&id);
        runner.is_some_and(|runner| !Self::is_starting(runner, now))
    }

    /// Whether a running job has reported progress, or runs where none is asked for.
    pub(crate) fn reports(&self, id: Id) -> bool {
        self.processors.is_some() || self.runners.get(&id).is_some_and(|r| r.begun.is_some())
    }

    /// Template of a running job.
    pub(crate) fn template(&self, id: Id) -> Option<&str> {
        self.runners.get(&id).map(|runner| &*runner.template)
    }

    /// Number of jobs of a template that have ended lately.
    pub(crate) fn ended_of(&self, template: &str) -> usize {
        let ended = self.ended.iter();
        ended.filter(|past| past.template == template).count()
    }

    /// Bytes of memory that a job of the largest known template uses.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.learnt.values().filter_map(|learnt| learnt.peak).max()
    }

    /// Whether jobs run on processors.
    #[must_use]
    pub const fn is_on_processors(&self) -> bool {
        self.processors.is_some()
    }

    /// Jobs that run on a device.
    pub fn ids(&self, device: usize) -> impl Iterator<Item = Id> {
        let all = self.runners.iter();
        all.filter(move |(_, r)| r.device == device)
            .map(|(id, _)| *id)
    }

    /// Load of the processors and of the jobs since the previous observation.
    pub fn look(&mut self, look: &Look) {
        let Some(processors) = &mut self.processors else {
            return;
        };
        let active: BTreeMap<Id, &str> = self
            .runners
            .iter()
            .map(|(id, r)| (*id, &*r.template))
            .collect();
        processors.look(look, &active, &mut self.learnt, self.most);
    }

    /// A job was started on a device under a cap in percent.
    pub fn started(&mut self, id: Id, template: &str, device: usize, cap: u32, now: f64) {
        self.learnt_mut(template);
        let runner = Runner {
            template: template.to_owned(),
            device,
            cap,
            started: now,
            begun: None,
            done: 0.0,
            of: None,
            meter: Meter::default(),
            beside: Beside::Unknown,
        };
        self.runners.insert(id, runner);
    }

    /// A job had done `work` (in its own unit) of `of` at time `at`.
    pub fn progress(&mut self, id: Id, at: f64, work: f64, of: Option<f64>) {
        if self.processors.is_some() {
            return;
        }
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        let device = runner.device;
        // What a job prints may be no total, as in `step 5/0`.
        (runner.done, runner.of) = (work, of.filter(|of| *of > 0.0 && *of >= work));
        if runner.begun.is_none() {
            runner.begun = Some(at);
            let template = runner.template.clone();
            let startup = at - runner.started;
            let mean = self.startups.entry(template).or_insert(startup);
            *mean += LAST * (startup - *mean);
            for runner in self.runners.values_mut().filter(|r| r.device == device) {
                runner.meter.cut_back();
            }
        }
        let now = self.situation(device, |r| r.begun.is_some());
        let quiet = !self.on(device).any(|r| Self::is_starting(r, at));
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.meter.mark(now, quiet, at, work);
        }
        self.stale = true;
    }

    /// The situation on a device, formed by the jobs for which `counts` is true.
    fn situation(&mut self, device: usize, counts: impl Fn(&Runner) -> bool) -> At {
        let mut templates = BTreeSet::new();
        let mut caps = BTreeSet::new();
        let mut number = 0;
        for runner in self.on(device).filter(|r| counts(r)) {
            templates.insert(&*runner.template);
            caps.insert(runner.cap);
            number += 1;
        }
        let cap = match (caps.len(), caps.first()) {
            (1, Some(cap)) => *cap,
            _ => 0,
        };
        let name = templates.into_iter().collect::<Vec<_>>().join(AND);
        let mix = self.number_of(name);
        let crowd = self.crowd(device, counts);
        At {
            mix,
            number,
            cap,
            crowd,
        }
    }

    fn number_of(&mut self, name: String) -> usize {
        self.number(&name).unwrap_or_else(|| {
            self.mixes.push(name);
            self.mixes.len() - 1
        })
    }

    /// The number of a mix or a template, if it has one.
    fn number(&self, name: &str) -> Option<usize> {
        self.mixes.iter().position(|mix| mix == name)
    }

    /// A job has ended; `done`: it succeeded.
    pub fn ended(&mut self, id: Id, done: bool, now: f64) {
        let Some(runner) = self.runners.remove(&id) else {
            return;
        };
        if let Some(processors) = &mut self.processors {
            processors.ended(id, &runner.template);
        }
        self.cut(runner.device);
        let seconds = now - runner.started;
        if done && self.processors.is_none() {
            let learnt = self.learnt_mut(&runner.template);
            let mean = learnt.seconds.unwrap_or(seconds);
            learnt.seconds = Some(mean + LAST * (seconds - mean));
        }
        let run = match (done, runner.beside) {
            (true, Beside::Always(at)) => Some((at, seconds)),
            _ => None,
        };
        self.stale = true;
        self.ended.push_back(Past {
            template: runner.template,
            cap: runner.cap,
            meter: runner.meter,
            of: runner
                .begun
                .filter(|_| done)
                .map(|_| runner.of.unwrap_or(runner.done)),
            run,
        });
        if self.ended.len() > KEPT {
            self.ended.pop_front();
        }
    }

    /// A job ran out of memory beside `number - 1` others, so the level becomes at most `number - 1`.
    pub fn too_many(&mut self, template: &str, number: usize) {
        let level = number.saturating_sub(1).max(1).min(self.level(template));
        self.aims.remove(template);
        let learnt = self.learnt_mut(template);
        (learnt.level, learnt.step, learnt.sharing) = (level, 0, None);
        self.fixed.insert(template.to_owned());
    }

    /// The number of jobs that report progress on a device changes, so measurements of all its jobs start a new
    /// interval.
    fn cut(&mut self, device: usize) {
        for runner in self.runners.values_mut().filter(|r| r.device == device) {
            runner.meter.cut();
        }
    }

    /// Whether a job may still begin to report its progress.
    fn is_starting(runner: &Runner, now: f64) -> bool {
        runner.begun.is_none() && now - runner.started < SILENT
    }

    /// All decided starts on a device have been made. `blocked`: the number of waiting jobs, and whether one of them
    /// waits only because of the number of jobs at once. Otherwise they wait for memory; then no larger number can be
    /// tried, but another cap can.
    pub fn settle(&mut self, device: usize, now: f64, blocked: Option<(usize, bool)>) {
        if let Some(processors) = &mut self.processors {
            processors.settle(blocked.is_some_and(|(_, rises)| rises));
            return;
        }
        let here = self.situation(device, |_| true);
        for runner in self.runners.values_mut().filter(|r| r.device == device) {
            runner.beside = match runner.beside {
                Beside::Unknown => Beside::Always(here),
                Beside::Always(at) if at == here => continue,
                _ => Beside::Changed,
            };
        }
        let pause = match self.testing().next() {
            Some(_) => PAUSE,
            None => LONG_PAUSE,
        };
        if self.stale && now - self.fitted >= pause {
            self.refit(now);
        }
        if here.number > 0 {
            let (left, rises) = blocked.unwrap_or((0, true));
            self.lefts.insert(device, left);
            let most = if rises { self.most } else { here.number };
            self.aim(device, now, here, left, most.max(1));
        }
    }

    /// Fits all situations again.
    fn refit(&mut self, now: f64) {
        (self.fitted, self.stale) = (now, false);
        self.fit_model();
        let (seen, templates) = self.seen();
        let (worths, means) = fit(&seen);
        self.tables.clear();
        for (at, worth) in worths {
            let table = self.tables.entry(at.mix).or_default();
            table.insert((at.number, at.cap), worth);
        }
        for (number, (template, mean)) in templates.iter().zip(means).enumerate() {
            // The jobs of a template may have run too short for a rate.
            if !seen.iter().any(|of| of.template == number) {
                continue;
            }
            let table = self.number(template).and_then(|mix| self.tables.get(&mix));
            let best = table.and_then(|table| search::worth(table, search::best(table)?));
            self.means.insert(template.clone(), mean);
            self.learnt_mut(template).rate = Some((mean + best.unwrap_or(0.0)).exp());
            self.keep(template);
        }
    }

    /// Chooses number and cap of a mix from now on. `left`: waiting jobs; `most`: largest number.
    fn aim(&mut self, device: usize, now: f64, here: At, left: usize, most: usize) {
        let Some(mix) = self.mixes.get(here.mix).cloned() else {
            return;
        };
        if self.fixed.contains(&mix) {
            return;
        }
        // A new mix starts with the number of jobs that runs now.
        let first = match self.learnt.get(&mix) {
            Some(learnt) => Aim::learnt(learnt),
            None => Aim::of(here.number),
        };
        let mut table = self.tables.get(&here.mix).cloned().unwrap_or_default();
        search::recall(
            &mut table,
            self.earlier.get(&mix).map_or(&[], Vec::as_slice),
        );
        let mix_now = self.mix_of(self.counts(device, None));
        let silent = self.is_silent(device, now);
        let (Some(largest), Some(best)) = (search::largest(&table), search::best(&table)) else {
            let mut aim = self.aims.get(&mix).map_or(first, |(aim, _)| *aim);
            if silent && !mix.contains(AND) {
                aim = Aim::of(aim.number.max(search::step(&table, silent)));
            }
            self.aims.insert(mix, (aim, true));
            return;
        };
        let most = most.min(search::step(&table, silent));
        let known = search::residuals(&table, |number, cap| {
            self.model.log_rate(&mix_now, number as f64, cap)
        });
        let (number, cap, busy) = self.model.best(&mix_now, &known, left + here.number, most);
        let mut aim = Aim { number, cap };
        let mut trial = busy.round() as usize > largest;
        if search::is_worse(&table, busy.round() as usize, best) {
            aim = Aim::of(best);
        }
        // Of jobs that report progress, numbers between are measured whenever one ends.
        if let Some(number) = search::between(&table).filter(|n| silent && !trial && left >= 3 * n)
        {
            (aim, trial) = (Aim::of(number), true);
        }
        self.aims.insert(mix.clone(), (aim, trial));
        let learnt = self.learnt_mut(&mix);
        // While the last jobs run, fewer are at once than would be best.
        if left > 0 || learnt.tried.is_empty() {
            learnt.level = if trial { best } else { aim.number };
            learnt.step = usize::from(trial);
            learnt.cap = (!trial && aim.number > 2).then_some(aim.cap);
        }
        learnt.tried = tried(&table);
        let level = learnt.level;
        let near = learnt.tried.iter().map(|t| t.at_once.abs_diff(level)).min();
        let reached = learnt
            .tried
            .iter()
            .filter(|t| Some(t.at_once.abs_diff(level)) == near);
        let reached = reached.map(|t| t.gives).max_by(f64::total_cmp);
        learnt.speedup = reached.unwrap_or(1.0);
    }
}

/// Without measurements, throughput is assumed to grow as this power of the number of jobs: two jobs give 1.6 times the
/// throughput of one.
pub(crate) const USUAL: f64 = 0.7;

/// The trials with their results, for display and for the store.
fn tried(table: &Table) -> Vec<Tried> {
    let known = table
        .iter()
        .filter(|((number, _), worth)| search::is_known(*number, worth));
    let known: Vec<_> = known.collect();
    // If no job ran alone, the smallest measured number is assumed to have the usual throughput ([`USUAL`]).
    let base = known.first().map_or(0.0, |((number, _), worth)| {
        worth.log - (USUAL - 1.0) * (*number as f64).ln()
    });
    known
        .into_iter()
        .map(|((number, cap), worth)| Tried {
            at_once: *number,
            cap: *cap,
            gives: *number as f64 * (worth.log - base).exp(),
            jobs: worth.jobs,
            seconds: worth.seconds,
        })
        .collect()
}
