//! Tasks that are copies of one model, and are learnt together.
//!
//! Hyper-parameter searches train one model several times at once. A measurement of one copy holds for the others, so
//! the model has one regression per kind of task, which learns from the rows of all copies. For 4 to 7 trainings on
//! an A100 with up to three copies of each of 8 models (MISO), this reduced the error of the ratio of rates at a
//! share of 14 % to rates at 100 % from 16.3 to 7.9 %.

use std::borrow::Cow;
use std::collections::BTreeMap;

use math::stats;
use units::corun::Setting;

use crate::anchor;
use crate::dataset::{Dataset, Sample, TaskSpec};

/// Copies whose solo steps differ by more than this (in logarithms) are treated as different models, whatever the
/// workload says: for example, one may have another data pipeline. Windows end at a standard error of 1 %, and
/// repeated windows differ by 2 to 3 %. The mean of two copies that differ by 10 % is off by 5 % for each.
const UNLIKE: f64 = 0.1;

/// The grouping of the tasks into kinds; copies of one model are one kind.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Copies {
    /// Kind of each task.
    pub kind: Vec<usize>,
    /// The first task of each kind, ascending.
    pub first: Vec<usize>,
}

impl Copies {
    /// Groups tasks with identical descriptions, unless their solo steps differ ([`UNLIKE`]).
    pub fn of(data: &Dataset) -> Self {
        let mut copies = Self::default();
        let solo = anchor::solo_steps(data);
        let model = |task: usize| data.tasks[task].copy_of.unwrap_or(task);
        for task in 0..data.tasks.len() {
            let like =
                |first: &usize| model(*first) == model(task) && agree(&solo[*first], &solo[task]);
            let known = copies.first.iter().position(like);
            copies.kind.push(known.unwrap_or(copies.first.len()));
            if known.is_none() {
                copies.first.push(task);
            }
        }
        copies
    }

    /// Whether there are any copies.
    fn any(&self) -> bool {
        self.first.len() < self.kind.len()
    }

    /// The measurements with kinds instead of tasks. A kind may then run more than once in a co-run; a kind of
    /// several tasks is marked as a copy of itself ([`TaskSpec::copy_of`]). Without copies, the measurements are
    /// unchanged.
    pub fn merge<'d>(&self, data: &'d Dataset) -> Cow<'d, Dataset> {
        if !self.any() {
            return Cow::Borrowed(data);
        }
        let mut tasks: Vec<TaskSpec> = self.first.iter().map(|t| data.tasks[*t].clone()).collect();
        for (kind, spec) in tasks.iter_mut().enumerate() {
            let own: Vec<&TaskSpec> = self
                .kind
                .iter()
                .zip(&data.tasks)
                .filter(|(k, _)| **k == kind)
                .map(|(_, t)| t)
                .collect();
            spec.copy_of = (own.len() > 1).then_some(kind);
            spec.batches = own.iter().flat_map(|t| &t.batches).copied().collect();
            if own.len() > 1 {
                spec.batches.sort_unstable();
                spec.batches.dedup();
            }
        }
        let sample = |s: &Sample| Sample {
            active: s.active.iter().map(|a| self.setting(a)).collect(),
            ..s.clone()
        };
        Cow::Owned(Dataset {
            tasks,
            samples: data.samples.iter().map(sample).collect(),
        })
    }

    fn setting(&self, a: &Setting) -> Setting {
        Setting {
            task: self.kind[a.task],
            ..*a
        }
    }

    /// Expands a list with one entry per kind to one with an entry per task.
    pub fn spread<T: Clone>(&self, of: &[T]) -> Vec<T> {
        self.kind.iter().map(|k| of[*k].clone()).collect()
    }
}

/// Whether the solo steps of two tasks agree at the batch sizes at which both were measured.
fn agree(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>) -> bool {
    let gap = |(batch, step): (&u32, &f64)| Some((step / b.get(batch)?).ln());
    let gaps: Vec<f64> = a.iter().filter_map(gap).collect();
    stats::median(&gaps).is_none_or(|m| m.abs() <= UNLIKE)
}
