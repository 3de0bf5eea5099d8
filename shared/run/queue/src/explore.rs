//! Finds how many jobs to run together: starts more and measures how much the others lose.
//!
//! A job's progress is compared with its own progress at another time (copies of a template may differ in size, so
//! rates of different jobs are comparable only in the mean). With `n` jobs each progresses at `r(n)` times its rate
//! alone, so all together achieve `n r(n)`. Going from `n` to `m` jobs gains
//!
//! ```text
//! gain = (m / n) * mean over the jobs that ran in both of rate(m) / rate(n)
//! ```
//!
//! A job that starts up does not use the device yet, so `n` and `m` count the jobs that have reported progress. A job
//! whose output shows no progress is measured by whole runs: the mean duration with `n` jobs is compared with that
//! with `m`.
//!
//! Each template has a level, the number of copies that fills the device, so one copy takes `1 / level` of it. A mix
//! of templates fits if these fractions sum to at most 1. The level of a template rises as long as that gains: from 1
//! to 2, to 4 if the others lose next to nothing, then by half of itself, then by half of the previous step.
//!
//! On processors no experiment is needed: `processors` observes the load.

use std::collections::{BTreeMap, BTreeSet};

use crate::book::Id;
use crate::learnt::Learnt;
use crate::meter::{Ended, Meter, mean, ratio};
use crate::processors::{Look, Processors};

/// A job without a mark for this long after its start is assumed to print no progress, and is not waited for:
/// starting Python with a framework takes up to 10 s.
const SILENT: f64 = 15.0;
/// Number of whole runs with each number of jobs that are compared if there are no marks.
const RUNS: u32 = 2;
/// Minimum gain of a step up. Rates of one job in two windows of two seconds differ by about 2 % on a quiet machine
/// (`mt try`, examples/scripts/RESULTS.md); more jobs also use more memory.
const LEAST_GAIN: f64 = 1.04;
/// Ratio of rates from which the device is far from full, so that the next step may double the level: each step takes as
/// long as a job takes to start.
const NO_LOSS: f64 = 0.9;
/// Largest level that is doubled: with simulated jobs of a minute and more, doubling further overshot, and what it had
/// started ran on.
const DOUBLES: usize = 2;
/// Seconds after which not all of the started jobs need to report at the same time: others have ended meanwhile.
const TOGETHER: f64 = 5.0;

/// A running job.
#[derive(Debug, Clone)]
struct Runner {
    template: String,
    started: f64,
    /// Whether it has reported progress since it was started.
    begun: bool,
    meter: Meter,
    /// Number of running jobs since its start, itself included; 0: not yet known; `None`: the number changed.
    beside: Option<usize>,
}

/// A step up that is being tried.
#[derive(Debug, Clone)]
struct Test {
    template: String,
    target: usize,
    /// Jobs before it, and of these the number that reported progress.
    from: usize,
    reported: usize,
    /// Jobs that it started; empty: not started yet.
    new: BTreeSet<Id>,
    /// When it was decided, then when the last of them reported progress.
    since: f64,
}

/// Finds the levels.
#[derive(Debug, Clone, Default)]
pub struct Explorer {
    learnt: BTreeMap<String, Learnt>,
    runners: BTreeMap<Id, Runner>,
    ended: Ended,
    /// Running jobs at the last decision.
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

    /// From now on, no level exceeds `most`.
    pub fn limit(&mut self, most: usize) {
        self.most = most;
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

    /// Fraction of the processors, above all of them, that jobs may begin to use, according to measured idle time.
    #[must_use]
    pub fn spare(&self) -> f64 {
        self.processors.as_ref().map_or(0.0, Processors::spare)
    }

    /// The highest level of a template that is known.
    #[must_use]
    pub fn highest(&self) -> usize {
        let tested = self.test.as_ref().map_or(1, |test| test.target);
        let levels = self.learnt.values().map(|learnt| learnt.level);
        levels
            .max()
            .unwrap_or(1)
            .max(tested)
            .clamp(1, self.most.max(1))
    }

    /// Number of running jobs.
    #[must_use]
    pub fn running(&self) -> usize {
        self.runners.len()
    }

    /// Running jobs.
    pub fn ids(&self) -> impl Iterator<Item = Id> {
        self.runners.keys().copied()
    }

    /// Load of the processors and of the jobs since the previous observation.
    pub fn look(&mut self, look: &Look) {
        let Some(processors) = &mut self.processors else {
            return;
        };
        let active = self.runners.iter();
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
        };
        self.runners.insert(id, runner);
    }

    /// A job had done this much of its work, in its own unit, at a time.
    pub fn progress(&mut self, id: Id, at: f64, work: f64) {
        if self.processors.is_some() {
            return;
        }
        let Some(runner) = self.runners.get_mut(&id) else {
            return;
        };
        if !std::mem::replace(&mut runner.begun, true) {
            self.cut();
        }
        let number = self.reported();
        let quiet = !self.runners.values().any(|r| Self::is_starting(r, at));
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.meter.mark(number, quiet, at, work);
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
        self.cut();
        if runner.begun {
            self.ended.push(runner.template.clone(), runner.meter);
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

    /// Number of running jobs that have reported progress.
    fn reported(&self) -> usize {
        self.runners.values().filter(|r| r.begun).count()
    }

    /// The number of jobs that report progress changes.
    fn cut(&mut self) {
        for runner in self.runners.values_mut() {
            runner.meter.cut();
        }
    }

    /// Templates and meters of the jobs that run, and of those of the same templates that ended last.
    fn meters(&self) -> impl Iterator<Item = (&str, &Meter)> {
        let running = self.runners.values().map(|r| (&*r.template, &r.meter));
        let templates: BTreeSet<&str> = self.runners.values().map(|r| &*r.template).collect();
        let ended = self.ended.iter();
        running.chain(ended.filter(move |(template, _)| templates.contains(template)))
    }

    /// The largest number of jobs above `from` and up to `to` with which the rate of one is known.
    fn known(&self, from: usize, to: usize) -> Option<usize> {
        let known = |number: usize| self.meters().any(|(_, m)| m.rate(number).is_some());
        (from + 1..=to).rev().find(|number| known(*number))
    }

    /// All decided starts and replacements have been made. `blocked`: the template of a job that waits only because
    /// of its level; `full`: the running fractions sum to at most 1, so the jobs run at the current levels.
    pub fn settle(&mut self, now: f64, blocked: Option<&str>, full: bool) {
        if let Some(processors) = &mut self.processors {
            processors.settle(blocked.is_some());
            return;
        }
        let number = self.runners.values().count();
        for runner in self.runners.values_mut() {
            match runner.beside {
                Some(0) => runner.beside = Some(number),
                Some(n) if n != number => runner.beside = None,
                _ => {}
            }
        }
        self.number = number;
        if self.test.is_some() {
            self.conclude(now);
        } else if let (Some(template), true) = (blocked, full) {
            self.begin(template, now);
        }
    }

    /// Whether whole runs of every running template are known with this many jobs.
    fn knows_runs(&self, number: usize) -> bool {
        let known = |r: &Runner| {
            let run = self.runs.get(&(r.template.clone(), number));
            run.is_some_and(|(_, count)| *count >= RUNS)
        };
        self.number > 0 && self.runners.values().all(known)
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
        let short = self
            .runners
            .values()
            .any(|r| self.short.contains(&r.template));
        // Before the first report nothing tells whether it will be measured by reports.
        let silent =
            self.runners.values().any(|r| Self::is_starting(r, now)) && self.reported() == 0;
        let known = self.known(0, self.number).filter(|_| !short && !silent);
        if known.is_none() && !self.knows_runs(self.number) {
            return;
        }
        self.test = Some(Test {
            template: template.to_owned(),
            target,
            from: self.number,
            reported: known.unwrap_or(0),
            new: BTreeSet::new(),
            since: now,
        });
    }

    fn conclude(&mut self, now: f64) {
        let Some(test) = &mut self.test else { return };
        if test.new.is_empty() {
            let new = self.runners.iter().filter(|(_, r)| r.started >= test.since);
            test.new = new.map(|(id, _)| *id).collect();
            // Nothing was started: there is nothing to compare.
            if test.new.is_empty() && now - test.since > PATIENCE {
                self.test = None;
            }
            return;
        }
        let new: Vec<&Runner> = (test.new.iter())
            .filter_map(|id| self.runners.get(id))
            .collect();
        let (by_reports, ended) = (test.reported > 0, new.is_empty());
        if by_reports && new.iter().any(|r| Self::is_starting(r, now)) {
            test.since = now;
            return;
        }
        let Some((numbers, ratio)) = self.found(now) else {
            if by_reports && ended {
                let templates: Vec<String> =
                    self.runners.values().map(|r| r.template.clone()).collect();
                self.short.extend(templates);
            }
            if ended {
                self.test = None;
            }
            return;
        };
        self.decide(numbers * ratio, ratio >= NO_LOSS);
    }

    fn decide(&mut self, gain: f64, no_loss: bool) {
        let Some(test) = self.test.take() else { return };
        let learnt = self.learnt.entry(test.template).or_default();
        if gain >= LEAST_GAIN {
            learnt.level = test.target;
            learnt.speedup *= gain;
        } else {
            learnt.halving = true;
        }
        learnt.step = match learnt.halving {
            true => learnt.step / 2,
            false if no_loss && test.target <= DOUBLES => test.target,
            // Half more: what a step too far has started continues until it ends.
            false => (test.target / 2).max(1),
        };
    }

    /// What the test shows: number of jobs after it over that before it, and the ratio of the rates of a job; `None`: not
    /// yet known.
    fn found(&self, now: f64) -> Option<(f64, f64)> {
        let test = self.test.as_ref()?;
        if test.reported > 0 {
            let all = test.reported + test.new.len();
            let number = self.known(test.reported, all)?;
            if number < all && now - test.since < TOGETHER {
                return None;
            }
            let rates = ratio(self.meters(), test.reported, number)?;
            return Some((number as f64 / test.reported as f64, rates));
        }
        if !self.knows_runs(self.number) {
            return None;
        }
        let templates: BTreeSet<&String> = self.runners.values().map(|r| &r.template).collect();
        let mean_run = |template: &String, number: usize| {
            let (sum, count) = self.runs.get(&(template.clone(), number))?;
            (*count >= RUNS).then(|| sum / f64::from(*count))
        };
        let ratios: Option<Vec<f64>> = templates
            .into_iter()
            .map(|t| Some(mean_run(t, test.from)? / mean_run(t, self.number)?))
            .collect();
        let rates = mean(&ratios?)?;
        Some((self.number as f64 / test.from as f64, rates))
    }
}
