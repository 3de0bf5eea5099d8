//! What has been learnt about a command template.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Knowledge about a template, or about a set of templates that run together, on a kind of device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learnt {
    /// Number of copies that fill the device.
    pub level: usize,
    /// The next step up; 0: the number is settled and no longer explored.
    pub step: usize,
    /// A step gained nothing, so each further step is halved.
    pub halving: bool,
    /// Throughput at this level relative to one job alone, if measured.
    pub speedup: f64,
    /// Number of processors that one job keeps busy, if it runs on processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wants: Option<f64>,
    /// Cap of each job at this level, percent; absent: none was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
    /// Peak memory of a job in bytes, including the increase after a job ran out of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// The peak comes from jobs that have ended, and not only from one that still runs.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ended: bool,
    /// The memory of every job so far still grew when it ended, so a job on a slower device may reach more.
    #[serde(default, skip_serializing_if = "is_false")]
    pub growing: bool,
    /// A job ran out of memory, so `peak` was raised.
    #[serde(default, skip_serializing_if = "is_false")]
    pub short: bool,
    /// Work per second of a job at this level, in the unit that jobs report; compares kinds of device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Duration of its jobs from start to end, in seconds; a moving average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// How its jobs share a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    /// The numbers and caps that were tried, with their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
}

/// How jobs of a template share a GPU: parameters of `model.rs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sharing {
    /// What a cap costs a job by itself: near 0, nothing; large, as much as it takes.
    pub knee: f64,
    /// What one job of each template beside it costs a job of this one: with 0.5, it takes 1.5 times as long.
    pub losses: BTreeMap<String, f64>,
    /// What all jobs lose for each whole GPU of caps beyond two.
    pub contention: f64,
    /// Seconds from a job's start to its first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<f64>,
    /// The largest number of its jobs among which one was measured.
    #[serde(default)]
    pub copies: usize,
    /// Seconds of work that a job would have alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<f64>,
}

/// Result of running a number of jobs at once under a cap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// Jobs at once.
    pub at_once: usize,
    /// Cap of each job, percent; 0 if the jobs had different caps.
    pub cap: u32,
    /// Throughput relative to one job alone. If none ran alone, the smallest measured number `n` is assumed to give
    /// `n^0.7`, a typical value.
    pub gives: f64,
    /// Jobs that were measured.
    pub jobs: usize,
    /// Total seconds of measurement of these jobs.
    pub seconds: f64,
}

impl Learnt {
    /// Throughput at the best number relative to one job alone; `None` if no job ran alone.
    #[must_use]
    pub fn over_alone(&self) -> Option<f64> {
        let is_relative = match self.tried.is_empty() {
            // With 1, the initial value, nothing was measured: jobs may print no progress.
            true => self.speedup > 1.0,
            false => self.tried.iter().any(|t| t.at_once == 1),
        };
        is_relative.then_some(self.speedup)
    }

    /// The trials as sentences for users, compared with one job alone if that was measured, else with the smallest
    /// measured number.
    #[must_use]
    pub fn tried(&self) -> Vec<String> {
        let Some(least) = self.tried.iter().min_by_key(|tried| tried.at_once) else {
            return Vec::new();
        };
        let (base, than) = match least.at_once {
            1 => (1.0, "one".to_owned()),
            number => (least.gives, format!("{number} at once")),
        };
        let is_base = |tried: &Tried| least.at_once > 1 && std::ptr::eq(tried, least);
        let sentence = |tried: &Tried| {
            let cap = match tried.cap {
                0 | 100 => String::new(),
                cap => format!(" with at most {cap} % each"),
            };
            let gives = match is_base(tried) {
                true => "the smallest number that was measured".to_owned(),
                false => format!("{:.2} times the throughput of {than}", tried.gives / base),
            };
            format!(
                "{} at once{cap}: {gives}, of {} jobs",
                tried.at_once, tried.jobs
            )
        };
        self.tried.iter().map(sentence).collect()
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_false(on: &bool) -> bool {
    !*on
}

impl Default for Learnt {
    /// One job, with a step up of one.
    fn default() -> Self {
        Self {
            level: 1,
            step: 1,
            halving: false,
            speedup: 1.0,
            wants: None,
            cap: None,
            peak: None,
            ended: false,
            growing: false,
            short: false,
            rate: None,
            seconds: None,
            sharing: None,
            tried: Vec::new(),
        }
    }
}
