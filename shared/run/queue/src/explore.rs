//! Finds how many jobs to run together: starts one more and measures how much the others lose.
//!
//! A job's progress is compared with its own earlier progress (copies of a template may differ in size,
//! so rates of different jobs are not comparable). With `n` jobs each progresses at `r(n)` times its
//! rate alone, so all together achieve `n r(n)`. Going from `n` to `m` jobs gains
//!
//! ```text
//! gain = (m / n) * mean over the jobs that ran in both of rate(m) / rate(n)
//! ```
//!
//! A job whose output shows no progress is measured by whole runs: the mean duration with `n` jobs is compared with
//! that with `m`.
//!
//! Each template has a level, the number of copies that fills the device, so one copy takes `1 / level` of it. A mix
//! of templates fits if these fractions sum to at most 1. The level of a template rises as long as that gains, first
//! by half of itself, then by half of the previous step.
//!
//! On processors no experiment is needed: `processors` observes the load.

use std::collections::{BTreeMap, BTreeSet};

use crate::book::Id;
use crate::learnt::Learnt;
use crate::processors::{Look, Processors};

/// Seconds of progress for a rate: trainings report between several times a second and once in a few seconds, and a
/// longer window would cost more than it reveals while the device is only partly used.
const WINDOW: f64 = 2.0;
/// Number of marks for a rate: two intervals, one of which may contain a checkpoint.
const MARKS: u32 = 3;
/// A job without a mark for this long after its start is assumed to print no progress, and is not waited for:
/// starting Python with a framework takes up to 10 s.
const SILENT: f64 = 15.0;
/// Number of whole runs with each number of jobs that are compared if there are no marks.
const RUNS: u32 = 2;
/// Minimum gain of a step up. Rates of one job in two windows of [`WINDOW`] differ by about 2 % on a quiet machine
/// (`mt try`, examples/scripts/RESULTS.md); more jobs also use more memory.
const LEAST_GAIN: f64 = 1.04;

/// Progress of a job at a time, while the same number of jobs ran.
#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    first: Option<(f64, f64)>,
    last: (f64, f64),
    marks: u32,
}

impl Meter {
    fn push(&mut self, at: f64, work: f64) {
        self.first.get_or_insert((at, work));
        self.last = (at, work);
        self.marks += 1;
    }

    fn rate(&self) -> Option<f64> {
        let (at, work) = self.first?;
        let (seconds, done) = (self.last.0 - at, self.last.1 - work);
        (self.marks >= MARKS && seconds >= WINDOW && done > 0.0).then(|| done / seconds)
    }
}

/// A running job.
#[derive(Debug, Clone)]
struct Runner {
    template: String,
    started: f64,
    /// Whether it has made a mark since it was started.
    begun: bool,
    meter: Meter,
    /// Number of running jobs since its start, itself included; 0: not yet known; `None`: the number changed.
    beside: Option<usize>,
    /// It is kept off the device until there is room.
    parked: bool,
}

/// A step up that is being tried.
#[derive(Debug, Clone)]
struct Test {
    template: String,
    target: usize,
    /// Jobs before it.
    from: usize,
    /// Rates before it.
    before: BTreeMap<Id, f64>,
    /// Rates after it, of jobs that have ended since.
    after: BTreeMap<Id, f64>,
    began: f64,
}

/// Finds the levels.
#[derive(Debug, Clone, Default)]
pub struct Explorer {
    learnt: BTreeMap<String, Learnt>,
    runners: BTreeMap<Id, Runner>,
    /// Running jobs, as far as they have meters.
    number: usize,
    test: Option<Test>,
    /// Sum of seconds and number of whole runs, by template and number of jobs.
    runs: BTreeMap<(String, usize), (f64, u32)>,
    /// Templates whose jobs are too short for rates: they are compared by whole runs.
    short: BTreeSet<String>,
    /// Largest level.
    most: usize,
    /// Observations of the processors, if jobs run on them.
    processors: Option<Processors>,
}

/// Seconds after which a step up that started nothing is given up: no waiting job fits any more.
const PATIENCE: f64 = 5.0;

impl Explorer {
    /// Starts from what was learnt; no level exceeds `most`.
    #[must_use]
    pub fn new(learnt: BTreeMap<String, Learnt>, most: usize) -> Self {
        Self {
            learnt,
            most,
            ..Self::default()
        }
    }

    /// What has been learnt so far.
    #[must_use]
    pub const fn learnt(&self) -> &BTreeMap<String, Learnt> {
        &self.learnt
    }

    /// Copies of a template that fill the device, including the step up that is being tried.
    #[must_use]
    pub fn level(&self, template: &str) -> usize {
        let tested = self.test.as_ref().filter(|t| t.template == template);
        let first = self.processors.as_ref().map_or(1, Processors::first_level);
        let level = self.learnt.get(template).map_or(first, |l| l.level);
        tested
            .map_or(level, |t| t.target)
            .clamp(1, self.most.max(1))
    }

    /// The step up that is being tried: its template, jobs before it, and its level.
    #[must_use]
    pub fn testing(&self) -> Option<(&str, usize, usize)> {
        let test = self.test.as_ref()?;
        Some((&test.template, test.from, test.target))
    }

    /// Jobs run on this many processors, and [`Explorer::look`] reports their load.
    #[must_use]
    pub fn on_processors(mut self, cores: usize) -> Self {
        self.processors = Some(Processors::new(cores));
        // An unsuccessful rise may have met a disk that was busy for another reason.
        for learnt in self.learnt.values_mut() {
            learnt.step = 1;
        }
        self
    }

    /// Number of processors that jobs run on, if these are observed.
    #[must_use]
    pub fn processors(&self) -> Option<usize> {
        self.processors.as_ref().map(Processors::first_level)
    }

    /// Load of the processors and of the jobs since the previous observation.
    pub fn look(&mut self, look: &Look) {
        let Some(processors) = &mut self.processors else {
            return;
        };
        let active = self.runners.iter().filter(|(_, r)| !r.parked);
        let active: BTreeMap<Id, &str> = active.map(|(id, r)| (*id, &*r.template)).collect();
        processors.look(look, &active, &mut self.learnt, self.most);
    }

    /// A job was started.
    pub fn started(&mut self, id: Id, template: &str, now: f64) {
        let first = Learnt {
            level: self.level(template),
            ..Learnt::default()
        };
        self.learnt.entry(template.to_owned()).or_insert(first);
        let runner = Runner {
            template: template.to_owned(),
            started: now,
            begun: false,
            meter: Meter::default(),
            beside: Some(0),
            parked: false,
        };
        self.runners.insert(id, runner);
    }

    /// A job had done this much of its work, in its own unit, at a time.
    pub fn progress(&mut self, id: Id, at: f64, work: f64) {
        let testing = self.test.is_some();
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        let begins = !std::mem::replace(&mut runner.begun, true);
        if begins && testing {
            // Its start-up, which slowed the others, is over: the comparison begins now.
            self.clear_meters();
        }
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.meter.push(at, work);
        }
    }

    /// A job has ended; `done`: it did all of its work.
    pub fn ended(&mut self, id: Id, done: bool, now: f64) {
        let Some(runner) = self.runners.remove(&id) else {
            return;
        };
        if let Some(processors) = &mut self.processors {
            processors.ended(id, &runner.template);
        }
        if let (Some(test), Some(rate)) = (&mut self.test, runner.meter.rate())
            && self.number > test.from
        {
            test.after.insert(id, rate);
        }
        if let (true, Some(number)) = (done, runner.beside) {
            let run = self.runs.entry((runner.template, number)).or_default();
            *run = (run.0 + (now - runner.started), run.1 + 1);
        }
    }

    /// A job ran out of memory with `number - 1` others: this many copies are too many.
    pub fn too_many(&mut self, template: &str, number: usize) {
        self.test = None;
        let learnt = self.learnt.entry(template.to_owned()).or_default();
        learnt.level = learnt.level.min(number.saturating_sub(1)).max(1);
        learnt.step = 0;
    }

    /// A job is kept off the device, or let back on.
    pub fn park(&mut self, id: Id, on: bool) {
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.parked = on;
            runner.beside = None;
            // Its marks cover both times.
            runner.meter = Meter::default();
        }
    }

    /// Jobs that use the device.
    fn active(&self) -> impl Iterator<Item = &Runner> {
        self.runners.values().filter(|r| !r.parked)
    }

    /// All decided starts and replacements have been made. `blocked`: the template of a job that waits only because
    /// of its level; `full`: the running fractions sum to at most 1, so the jobs run at the current levels.
    pub fn settle(&mut self, now: f64, blocked: Option<&str>, full: bool) {
        if let Some(processors) = &mut self.processors {
            processors.settle(blocked.is_some());
            return;
        }
        let number = self.active().count();
        for runner in self.runners.values_mut() {
            match runner.beside {
                Some(0) => runner.beside = Some(number),
                Some(n) if n != number => runner.beside = None,
                _ => {}
            }
        }
        if number != self.number {
            self.number = number;
            self.clear_meters();
        }
        if self.test.is_some() {
            self.conclude(now);
        } else if let (Some(template), true) = (blocked, full) {
            self.begin(template, now);
        }
    }

    fn clear_meters(&mut self) {
        for runner in self.runners.values_mut() {
            runner.meter = Meter::default();
        }
    }

    /// Whether whole runs of every running template are known with this many jobs.
    fn knows_runs(&self, number: usize) -> bool {
        let known = |r: &Runner| {
            let run = self.runs.get(&(r.template.clone(), number));
            run.is_some_and(|(_, count)| *count >= RUNS)
        };
        self.number > 0 && self.active().all(known)
    }

    /// Whether a job may still begin to report its progress.
    fn is_starting(runner: &Runner, now: f64) -> bool {
        !runner.begun && now - runner.started < SILENT
    }

    fn begin(&mut self, template: &str, now: f64) {
        let learnt = self.learnt.get(template).cloned().unwrap_or_default();
        let target = (learnt.level + learnt.step).min(self.most);
        if target <= learnt.level || self.number == 0 {
            return;
        }
        let rates = self
            .runners
            .iter()
            .filter_map(|(id, r)| Some((*id, r.meter.rate()?)));
        let before: BTreeMap<Id, f64> = rates.collect();
        let told = self.active().filter(|r| r.begun).count();
        let starting = self.active().any(|r| Self::is_starting(r, now));
        let short = self.active().any(|r| self.short.contains(&r.template));
        let by_rates = !short && !starting && told > 0 && before.len() == told;
        if !by_rates && !self.knows_runs(self.number) {
            return;
        }
        self.test = Some(Test {
            template: template.to_owned(),
            target,
            from: self.number,
            before: if by_rates { before } else { BTreeMap::new() },
            after: BTreeMap::new(),
            began: now,
        });
    }

    fn conclude(&mut self, now: f64) {
        let Some(test) = &self.test else { return };
        if self.number <= test.from {
            // Nothing was started, or the started jobs have ended: there is nothing to compare any more.
            if self.number < test.from || now - test.began > PATIENCE {
                self.test = None;
            }
            return;
        }
        let Some(loss) = self.loss(test, now) else {
            if self.is_hopeless(test) {
                let templates: Vec<String> = self.active().map(|r| r.template.clone()).collect();
                self.short.extend(templates);
                self.test = None;
            }
            return;
        };
        let gain = self.number as f64 / test.from as f64 * loss;
        let (template, target) = (test.template.clone(), test.target);
        self.test = None;
        let learnt = self.learnt.entry(template).or_default();
        if gain >= LEAST_GAIN {
            learnt.level = target;
            learnt.speedup *= gain;
        } else {
            learnt.halving = true;
        }
        learnt.step = match learnt.halving {
            true => learnt.step / 2,
            // Half more at first: what a step too far has started continues until it ends.
            false => (target / 2).max(1),
        };
    }

    /// Mean ratio of the rates with the current number of jobs to those before the test; `None`: not yet known.
    fn loss(&self, test: &Test, now: f64) -> Option<f64> {
        let starting = self.active().any(|r| Self::is_starting(r, now));
        let mut ratios = Vec::new();
        for (id, before) in &test.before {
            let after = match self.runners.get(id) {
                Some(runner) if starting || runner.meter.rate().is_none() => return None,
                Some(runner) => runner.meter.rate(),
                None => test.after.get(id).copied(),
            };
            ratios.extend(after.map(|after| after / before));
        }
        if ratios.is_empty() && self.knows_runs(self.number) {
            let templates: BTreeSet<&String> = self.active().map(|r| &r.template).collect();
            let mean = |template: &String, number: usize| {
                let (sum, count) = self.runs.get(&(template.clone(), number))?;
                (*count >= RUNS).then(|| sum / f64::from(*count))
            };
            for template in templates {
                let before = mean(template, test.from)?;
                ratios.push(before / mean(template, self.number)?);
            }
        }
        let count = ratios.len() as f64;
        (count > 0.0).then(|| ratios.iter().sum::<f64>() / count)
    }

    /// Whether nothing can be compared any more: every job with a known rate has ended before it had a second one,
    /// and whole runs before the test are unknown.
    fn is_hopeless(&self, test: &Test) -> bool {
        let gone = |id: &Id| !self.runners.contains_key(id) && !test.after.contains_key(id);
        test.before.keys().all(gone) && !self.knows_runs(test.from)
    }
}
