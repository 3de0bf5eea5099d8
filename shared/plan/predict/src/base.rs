use std::collections::BTreeMap;

use doc::params::{Evidence, WorkloadLaw};
use math::exp;
use units::Share;
use units::corun::Setting;

use crate::anchor::{self, Anchor, Elsewhere};
use crate::copies::Copies;
use crate::dataset::Dataset;
use crate::domain::{Domain, Ranges};
use crate::error::PredictError;
use crate::features::{CorunInputs, Layout};
use crate::part_share::{Difference, PartShares};
use crate::structured::{self, Form, Law, Meeting, host_load, power};
use crate::workload_law;

/// Maximum number of samples for fitting the laws: they have so few constants that more samples add nothing.
const MOST_FOR_LAWS: usize = 600;

/// Passes of the second fit of the laws, which starts from the result of the first.
const REFITS: usize = 2;

/// The basis of all model families: solo rates and laws of all tasks.
#[derive(Debug, Clone)]
pub(crate) struct Base {
    pub layout: Layout,
    /// Kind of each task: copies of one model are one kind.
    pub kind: Vec<usize>,
    pub anchors: Vec<Anchor>,
    /// Corrections of the laws by solo runs at partial shares.
    pub parts: Vec<PartShares>,
    pub laws: Vec<Law>,
    /// Whether laws are scaled to the measured solo steps, and everything else is relative to the solo step at the
    /// share; false in models of earlier versions.
    pub anchored: bool,
    pub evidence: Vec<Evidence>,
    pub workload_law: Option<WorkloadLaw>,
    /// Maximum number of tasks measured together.
    pub most_together: usize,
    /// The shares and numbers of tasks that co-runs covered; `None` if the model does not say.
    pub domain: Option<Domain>,
}

impl Base {
    /// Whether co-runs of this many tasks were measured; false if the model does not say.
    pub fn ran_so_many(&self, tasks: usize) -> bool {
        let measured = |d: &Domain| d.crowds.contains(&tasks);
        tasks > 1 && self.domain.as_ref().is_some_and(measured)
    }

    /// Whether the measured co-runs covered the share levels and the number of tasks of this one; `true` if the model
    /// does not say what they covered.
    pub fn has_levels_of(&self, active: &[Setting]) -> bool {
        self.domain.as_ref().is_none_or(|d| d.has_levels_of(active))
    }

    /// Whether a setting in a co-run of `running` tasks lies within what was measured; `ranges` are those of the
    /// task.
    pub fn covers(&self, ranges: &Ranges, a: &Setting, running: usize) -> bool {
        let share = self.share_range(a.task, running, ranges.shares);
        running <= self.most_together
            && (running == 1 || self.ran_together(a.task))
            && ranges
                .batches
                .is_none_or(|(l, h)| (l..=h).contains(&a.batch))
            && share.is_none_or(|(l, h)| (l..=h).contains(&a.share))
    }

    /// Smallest and largest share at which a task ran in co-runs of `running` tasks; `all` covers every run, solo
    /// runs included.
    pub fn share_range(
        &self,
        task: usize,
        running: usize,
        all: Option<(Share, Share)>,
    ) -> Option<(Share, Share)> {
        match &self.domain {
            Some(domain) if running > 1 => domain.range(task),
            _ => all,
        }
    }

    /// Whether a task ran with others.
    pub fn ran_together(&self, task: usize) -> bool {
        self.evidence[task] == Evidence::Together
    }

    pub fn learn(data: &Dataset, form: Form) -> Result<Base, PredictError> {
        let tasks = data.tasks.len();
        let solo = anchor::solo_steps(data);
        let together = ran(data, |others| others > 0);
        let at_all = ran(data, |_| true);
        if !at_all.contains(&true) {
            return Err(PredictError::NoUsableSample);
        }
        let meetings = structured::meetings(&data.thinned(MOST_FOR_LAWS));
        let copies: Vec<bool> = data.tasks.iter().map(|t| t.copy_of.is_some()).collect();
        let mut laws = structured::fit_all(&meetings, form, &copies);
        let workload_law = workload_law::fit(data, &laws);
        let varied = varied(data);
        let complete = |laws: &mut Vec<Option<Law>>| {
            workload_law::complete(data, laws, &together, &varied, workload_law.as_ref(), form);
        };
        complete(&mut laws);
        let mut base = Base {
            kind: (0..tasks).collect(),
            layout: Layout {
                tasks,
                copies: copies.contains(&true),
            },
            anchors: Vec::new(),
            parts: Vec::new(),
            laws: known(laws)?,
            evidence: evidence(&together, &at_all),
            workload_law: workload_law.clone(),
            anchored: form == Form::Overlapping,
            domain: Some(Domain::of(data)),
            most_together: data
                .samples
                .iter()
                .map(|s| s.active.len())
                .max()
                .unwrap_or(0),
        };
        let elsewhere = anchor::elsewhere(&meetings, &base.laws);
        base.anchor(data, &solo, &elsewhere);
        if !base.anchored {
            return Ok(base);
        }
        // Effects of batch size and share that solo runs explain must not be attributed to interference: the laws are
        // fitted again to co-runs without these effects.
        let relative = base.relative(&meetings);
        let first = base.laws.iter().cloned().map(Some).collect();
        let mut laws = structured::refit(&relative, Some(first), form, REFITS, &copies);
        complete(&mut laws);
        base.laws = known(laws)?;
        base.anchor(data, &solo, &elsewhere);
        Ok(base)
    }

    /// Copies what was learnt for kinds of tasks to each task.
    pub fn of_tasks(mut self, copies: &Copies) -> Self {
        self.kind.clone_from(&copies.kind);
        self.anchors = copies.spread(&self.anchors);
        self.parts = copies.spread(&self.parts);
        self.laws = copies.spread(&self.laws);
        for law in &mut self.laws {
            law.slowdown = copies.spread(&law.slowdown);
        }
        self.evidence = copies.spread(&self.evidence);
        if let Some(domain) = &mut self.domain {
            domain.shares = copies.spread(&domain.shares);
        }
        self
    }

    /// Anchors of all tasks with the current laws.
    fn anchor(&mut self, data: &Dataset, solo: &[BTreeMap<u32, f64>], elsewhere: &[Elsewhere]) {
        self.anchors = (0..data.tasks.len())
            .map(|i| Anchor::new(&solo[i], &elsewhere[i], &self.laws[i].pace, &data.tasks[i]))
            .collect();
        self.parts = vec![PartShares::default(); data.tasks.len()];
        let mut differences = vec![Vec::new(); data.tasks.len()];
        for s in &data.samples {
            let ([a], [p]) = (s.active.as_slice(), s.throughput.as_slice()) else {
                continue;
            };
            if a.share < Share::FULL && *p > 0.0 {
                let (batch, share) = (a.batch.as_f64(), a.share.fraction());
                differences[a.task].push(Difference {
                    batch,
                    share,
                    ln: (batch / p).ln() - self.solo_steps(a.task, batch, share).1,
                    step: Some(batch / p),
                });
            }
        }
        let learn = |(d, solo): (&Vec<Difference>, &BTreeMap<u32, f64>)| {
            PartShares::learn(d, solo.keys().map(|b| f64::from(*b)))
        };
        self.parts = differences.iter().zip(solo).map(learn).collect();
    }

    /// `ln` of the solo step seconds of a task, on the whole device and at its share, and the factor that scales the
    /// law's solo step to the latter.
    pub fn solo_steps(&self, task: usize, batch: f64, share: f64) -> (f64, f64, f64) {
        let ln_step = self.anchors[task].step_at(batch).ln();
        if !self.anchored {
            return (ln_step, ln_step, 1.0);
        }
        let pace = &self.laws[task].pace;
        let by_law = pace.alone(batch, share).ln();
        let stretch = by_law - pace.alone(batch, 1.0).ln();
        let parts = &self.parts[task];
        let ln_part = match parts.between(batch, share, exp(ln_step)) {
            Some(step) => step.ln(),
            None => ln_step + stretch + parts.ln_factor(batch, share),
        };
        // A part of the device is never faster than the whole device.
        let ln_alone = ln_part.max(ln_step);
        (ln_step, ln_alone, exp(ln_alone - by_law))
    }

    /// Inputs for predictions of a co-run.
    pub fn inputs(&self, active: &[Setting]) -> CorunInputs {
        let mut s = CorunInputs::empty(active.len(), self.has_levels_of(active));
        let crowd = host_load(active.len());
        for (k, a) in active.iter().enumerate() {
            s.task[k] = a.task;
            s.kind[k] = self.kind[a.task];
            s.share[k] = a.share.fraction();
            let pace = &self.laws[a.task].pace;
            let host = pace.host(crowd);
            let device = pace.device(a.batch.as_f64(), s.share[k]);
            let (ln_step, ln_alone, scale) = self.solo_steps(a.task, a.batch.as_f64(), s.share[k]);
            s.ln_step[k] = ln_step;
            s.ln_alone[k] = ln_alone;
            s.batch[k] = a.batch.as_f64();
            s.ln_batch[k] = s.batch[k].ln();
            s.busy[k] = device / pace.join(host, device);
            s.contention[k] = s.busy[k] * power(s.share[k], pace.exponent);
            s.host[k] = scale * host;
            s.device[k] = scale * device;
        }
        s
    }

    /// The meetings, with each step divided by the ratio of the measured solo step to the law's. This includes solo
    /// runs, so that laws fitted to the result keep the solo steps that they are relative to.
    fn relative(&self, meetings: &[Vec<Meeting>]) -> Vec<Vec<Meeting>> {
        let mut all = meetings.to_vec();
        for (task, own) in all.iter_mut().enumerate() {
            for m in own.iter_mut() {
                m.step /= self.solo_steps(task, m.batch, m.share).2;
            }
        }
        all
    }
}

fn known(laws: Vec<Option<Law>>) -> Result<Vec<Law>, PredictError> {
    let one = |(task, law): (usize, Option<Law>)| law.ok_or(PredictError::UnknownTask { task });
    laws.into_iter().enumerate().map(one).collect()
}

fn evidence(together: &[bool], at_all: &[bool]) -> Vec<Evidence> {
    let one = |(together, at_all): (&bool, &bool)| match (together, at_all) {
        (true, _) => Evidence::Together,
        (false, true) => Evidence::Alone,
        (false, false) => Evidence::Nothing,
    };
    together.iter().zip(at_all).map(one).collect()
}

/// For each task, whether it ran in a co-run whose number of other tasks satisfies `counts`.
fn ran(data: &Dataset, counts: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut v = vec![false; data.tasks.len()];
    for s in &data.samples {
        for (a, p) in s.active.iter().zip(&s.throughput) {
            v[a.task] |= *p > 0.0 && counts(s.active.len() - 1);
        }
    }
    v
}

/// For each task, whether it ran at more than one share.
fn varied(data: &Dataset) -> Vec<bool> {
    let mut first = vec![None; data.tasks.len()];
    let mut v = vec![false; data.tasks.len()];
    for a in data.samples.iter().flat_map(|s| &s.active) {
        v[a.task] |= *first[a.task].get_or_insert(a.share) != a.share;
    }
    v
}
