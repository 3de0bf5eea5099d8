//! What the model of jobs that share a GPU is fitted to, and what it is asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::learnt::Learnt;
use crate::model::{Mix, Pairs, Part, Rate};
use crate::search::{Aim, Residuals, SILENT_START, START};

use crate::meter::Meter;

use super::measured::Measured;
use super::{Beside, Explorer, Runner};

/// What a job still has to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rest {
    /// It started so many seconds ago, and has not reported anything.
    Starting(f64),
    /// So many seconds of work alone are left.
    Left(f64),
    /// So many are done; it did not tell of how many.
    Done(f64),
}

impl Explorer {
    /// Takes what an earlier sweep learnt of templates.
    pub(super) fn recall(&mut self, learnt: &BTreeMap<String, Learnt>) {
        for (template, learnt) in learnt {
            let Some(sharing) = &learnt.sharing else {
                self.copies.insert(template.clone(), learnt.level);
                continue;
            };
            let number = self.number_of(template.clone());
            let mut model = std::mem::take(&mut self.model);
            model.recall(number, sharing, |other| self.number_of(other.to_owned()));
            self.model = model;
            let startup = sharing.startup.map(|seconds| (template.clone(), seconds));
            self.startups.extend(startup);
            self.copies.insert(template.clone(), sharing.copies);
            let work = sharing.work.map(|seconds| (template.clone(), seconds));
            self.works.extend(work);
        }
    }

    /// Keeps what was learnt of a template for later sweeps, unless its number is fixed.
    pub(super) fn keep(&mut self, template: &str) {
        let number = self.number(template);
        let Some(number) = number.filter(|_| !self.fixed.contains(template)) else {
            return;
        };
        let mut sharing = self.model.sharing(number, &self.mixes);
        sharing.startup = self.startups.get(template).copied();
        sharing.work = self.works.get(template).copied();
        sharing.copies = self.copies.get(template).copied().unwrap_or(0);
        self.learnt_mut(template).sharing = Some(sharing);
    }

    /// The crowd of the jobs on a device for which `counts` is true.
    pub(super) fn crowd(&mut self, device: usize, counts: impl Fn(&Runner) -> bool) -> usize {
        let new = self
            .on(device)
            .filter(|r| counts(r))
            .filter(|r| self.number(&r.template).is_none());
        let new: BTreeSet<String> = new.map(|r| r.template.clone()).collect();
        for template in new {
            self.number_of(template);
        }
        let mut members: BTreeMap<(&str, u32), f64> = BTreeMap::new();
        for runner in self.on(device).filter(|r| counts(r)) {
            *members.entry((&runner.template, runner.cap)).or_default() += 1.0;
        }
        let crowd: Vec<Part> = (members.into_iter())
            .map(|((template, cap), count)| (self.template_number(template), cap, count))
            .collect();
        let known = self.crowds.iter().find(|(_, known)| **known == crowd);
        if let Some((at, _)) = known {
            return *at;
        }
        let next = self.crowds.keys().next_back().map_or(0, |last| last + 1);
        self.crowds.insert(next, crowd);
        next
    }

    /// Forgets the crowds of which no measurement is left, since a server may run for months.
    fn forget_crowds(&mut self) {
        let running = self.runners.values().flat_map(|runner| {
            let beside = match runner.beside {
                Beside::Always(at) => Some(at),
                _ => None,
            };
            runner.meter.situations().chain(beside)
        });
        let ended = self.ended.iter().flat_map(|past| {
            let run = past.run.map(|(at, _)| at);
            past.meter.situations().chain(run)
        });
        let used: BTreeSet<usize> = running.chain(ended).map(|at| at.crowd).collect();
        self.crowds.retain(|at, _| used.contains(at));
    }

    /// Fits the model to all measurements.
    pub(super) fn fit_model(&mut self) {
        self.forget_crowds();
        let rate = |of: Measured<'_>| {
            Some(Rate {
                template: self.number(of.template)?,
                job: of.job,
                cap: of.cap,
                crowd: of.at.crowd,
                log: of.log,
                seconds: of.seconds,
            })
        };
        let all = self.measured(|meter| meter.in_crowds().collect());
        let rates: Vec<Rate> = all.into_iter().filter_map(rate).collect();
        self.model.fit(&rates, &self.crowds);
        for rate in &rates {
            let own = self.crowds[&rate.crowd]
                .iter()
                .filter(|(template, ..)| *template == rate.template);
            let count = own.map(|(.., count)| *count).sum::<f64>() as usize;
            let most = (self.copies.entry(self.mixes[rate.template].clone())).or_default();
            *most = count.max(*most);
        }
        let [works, alone] = self.works();
        self.works.extend(works);
        self.alone.extend(alone);
    }

    /// Mean seconds of work alone of the jobs of each template whose work in total is known, and the mean work per second
    /// alone of all of them.
    fn works(&self) -> [BTreeMap<String, f64>; 2] {
        let mut sums: [BTreeMap<String, (f64, f64)>; 2] = Default::default();
        for job in self.jobs() {
            let Some(alone) = self.alone(job.template, job.cap, job.meter) else {
                continue;
            };
            let values = [job.of.map(|of| (of / alone).ln()), Some(alone.ln())];
            for (sums, value) in sums.iter_mut().zip(values) {
                if let Some(value) = value {
                    let sum = sums.entry(job.template.to_owned()).or_default();
                    *sum = (sum.0 + value, sum.1 + 1.0);
                }
            }
        }
        let mean = |(name, (sum, jobs)): (String, (f64, f64))| (name, (sum / jobs).exp());
        sums.map(|sums| sums.into_iter().map(mean).collect())
    }

    /// Work per second that a job would do alone, by the model, from what it did in each crowd.
    fn alone(&self, template: &str, cap: u32, meter: &Meter) -> Option<f64> {
        let template = self.number(template)?;
        let (mut seconds, mut work) = (0.0, 0.0);
        for (at, rate, measured) in meter.in_crowds() {
            seconds += measured * self.model.rate(template, cap, &self.crowds[&at.crowd]);
            work += measured * rate;
        }
        (seconds > 0.0).then(|| work / seconds)
    }

    /// Seconds of work that a job of a template would have alone.
    pub(crate) fn work(&self, template: &str) -> Option<f64> {
        self.works.get(template).copied()
    }

    /// Work per second of a job of a template alone.
    pub(crate) fn alone_rate(&self, template: &str) -> Option<f64> {
        self.alone.get(template).copied()
    }

    /// Seconds from the start of a job of a template to its first report.
    pub(crate) fn startup(&self, template: &str) -> Option<f64> {
        self.startups.get(template).copied()
    }

    /// What templates cost each other.
    pub(crate) fn pairs(&self, templates: &[&str]) -> Pairs<'_> {
        let numbers = templates.iter().map(|name| self.template_number(name));
        self.model.pairs(numbers.collect())
    }

    /// Number at once that is best for a device with one more job of a template.
    pub(crate) fn number_with(&self, device: usize, template: &str) -> usize {
        self.within(self.aim_with(device, template).number)
    }

    /// The templates of the jobs on a device.
    pub(crate) fn templates(&self, device: usize) -> impl Iterator<Item = &str> {
        self.on(device).map(|runner| &*runner.template)
    }

    /// What the jobs on a device still have to do: template, cap in percent, and rest.
    pub(crate) fn rests(&self, device: usize, now: f64) -> impl Iterator<Item = (&str, u32, Rest)> {
        self.on(device).map(move |runner| {
            let alone = self
                .alone(&runner.template, runner.cap, &runner.meter)
                .or_else(|| self.alone_rate(&runner.template));
            let rest = match (runner.begun, alone, runner.of) {
                (Some(_), Some(alone), Some(of)) => Rest::Left((of - runner.done).max(0.0) / alone),
                (Some(_), Some(alone), None) => Rest::Done(runner.done / alone),
                _ => Rest::Starting(now - runner.started),
            };
            (&*runner.template, runner.cap, rest)
        })
    }

    /// The number of a template; of one without a number, nothing is known.
    fn template_number(&self, template: &str) -> usize {
        self.number(template).unwrap_or(usize::MAX)
    }

    /// Number of jobs of each template on a device, with one more.
    pub(super) fn counts(&self, device: usize, more: Option<&str>) -> BTreeMap<usize, f64> {
        let mut counts = BTreeMap::new();
        for name in self.on(device).map(|r| &*r.template).chain(more) {
            *counts.entry(self.template_number(name)).or_default() += 1.0;
        }
        counts
    }

    /// The mix of so many jobs of each template.
    pub(super) fn mix_of(&self, counts: BTreeMap<usize, f64>) -> Mix {
        let sum: f64 = counts.values().sum();
        let parts: Vec<_> = counts.into_iter().map(|(at, n)| (at, n / sum)).collect();
        let startup = parts.iter().filter_map(|(at, part)| {
            let name = self.mixes.get(*at)?;
            Some(part * self.startups.get(name)? / self.works.get(name)?)
        });
        Mix {
            startup: startup.sum(),
            parts,
        }
    }

    /// Number and cap of the jobs on a device with one more of a template, if the mix that results is new; no larger
    /// number than in other mixes.
    pub(super) fn with(&self, device: usize, template: &str) -> Aim {
        let left = self.running(device) + 1 + self.lefts.get(&device).copied().unwrap_or(0);
        let mix = self.mix_of(self.counts(device, Some(template)));
        let (number, cap, _) = self
            .model
            .best(&mix, &Residuals::default(), left, self.highest());
        Aim { number, cap }
    }

    /// The largest number of jobs of a template for one device: at most half as many again as were measured there,
    /// whatever the number of others. What copies cost each other is unknown before, and they cannot be taken back: four
    /// jobs of a new template that started at once beside fourteen of another took 40 times as long as one alone.
    pub(crate) fn most_copies(&self, template: &str) -> usize {
        let measured = self.copies.get(template).copied().unwrap_or(0);
        let ended = self.ended_of(template) > 0;
        let start = match ended && !self.startups.contains_key(template) {
            true => SILENT_START,
            false => START,
        };
        measured.saturating_add(measured.div_ceil(2)).max(start)
    }

    /// Whether no template on a device has ever reported progress, as far as its jobs have had the time.
    pub(super) fn is_silent(&self, device: usize, now: f64) -> bool {
        let ended = |r: &Runner| self.ended.iter().any(|past| past.template == r.template);
        let may = |r: &Runner| Self::is_starting(r, now) && !ended(r);
        let speaks = |r: &Runner| self.startups.contains_key(&r.template) || may(r);
        self.running(device) > 0 && !self.on(device).any(speaks)
    }

    /// Whether one more job of a template, under a cap, increases the throughput of a device. A number suits the jobs that run now; a
    /// job of another template may cost more than it does.
    pub(super) fn pays(&self, device: usize, template: &str, cap: u32) -> bool {
        let mut crowd: Vec<Part> = self
            .on(device)
            .map(|r| (self.template_number(&r.template), r.cap, 1.0))
            .collect();
        let before = self.model.total(&crowd);
        let startup = self.mix_of(self.counts(device, Some(template))).startup;
        crowd.push((self.template_number(template), cap, 1.0));
        // While one of them starts, the others have the device.
        let starting = startup / (1.0 + startup) / crowd.len() as f64;
        self.model.total(&crowd) >= before * (1.0 - starting)
    }
}
