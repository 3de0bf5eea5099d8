//! What the model of jobs that share a GPU is fitted to, and what it is asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::learnt::Learnt;
use crate::model::{Mix, Part, Rate};
use crate::search::{Aim, Residuals};

use super::{Explorer, Measured, Runner};

impl Explorer {
    /// Takes what an earlier sweep learnt of templates.
    pub(super) fn recall(&mut self, learnt: &BTreeMap<String, Learnt>) {
        for (template, learnt) in learnt {
            let Some(sharing) = &learnt.sharing else {
                continue;
            };
            let number = self.number_of(template.clone());
            let mut model = std::mem::take(&mut self.model);
            model.recall(number, sharing, |other| self.number_of(other.to_owned()));
            self.model = model;
            let startup = sharing.startup.map(|seconds| (template.clone(), seconds));
            self.startups.extend(startup);
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
        self.learnt_mut(template).sharing = Some(sharing);
    }

    /// The crowd of the jobs on a device for which `counts` is true.
    pub(super) fn crowd(&mut self, device: usize, counts: impl Fn(&Runner) -> bool) -> usize {
        let new = self.on(device).filter(|r| counts(r));
        let new = new.filter(|r| self.number(&r.template).is_none());
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
        let known = self.crowds.iter().position(|known| *known == crowd);
        known.unwrap_or_else(|| {
            self.crowds.push(crowd);
            self.crowds.len() - 1
        })
    }

    /// Fits the model to all measurements.
    pub(super) fn fit_model(&mut self) {
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
        self.works.extend(self.works());
    }

    /// Mean seconds of work alone of the jobs of each template that have ended.
    fn works(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for past in &self.ended {
            let (Some(template), Some(lasted)) = (self.number(&past.template), past.lasted) else {
                continue;
            };
            let (mut seconds, mut work) = (0.0, 0.0);
            for (at, _, measured) in past.meter.in_crowds() {
                let crowd = &self.crowds[at.crowd];
                seconds += measured;
                work += measured * self.model.rate(template, past.cap, crowd);
            }
            if seconds > 0.0 {
                let of = sums.entry(past.template.clone()).or_default();
                *of = (of.0 + lasted * work / seconds, of.1 + 1.0);
            }
        }
        let means = sums
            .into_iter()
            .map(|(name, (sum, jobs))| (name, sum / jobs));
        means.collect()
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
