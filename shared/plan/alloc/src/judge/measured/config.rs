//! Measured co-runs, and the rates of a predictor with them.

use doc::{Corun, DeviceKind, Workload};
use units::Batch;
use units::corun::{Setting, Throughput};

/// Relative standard error assumed for a measured throughput that has none: windows on real devices
/// end at 1 %. For the simulator it is 0, because its throughputs are exact unless stated
/// otherwise.
const UNKNOWN_ERROR: f64 = 0.01;

/// A measured co-run of some tasks of a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredConfig {
    pub(super) config: u64,
    pub(super) settings: Vec<Setting>,
    /// Throughput of each task, and its standard error.
    pub(super) rates: Vec<f64>,
    pub(super) errors: Vec<f64>,
}

impl MeasuredConfig {
    /// The measured co-runs of a model. Measurements of the same configuration are merged into
    /// their mean. Tasks that are not in the workload are ignored.
    #[must_use]
    pub fn of_model(coruns: &[Corun], workload: &Workload) -> Vec<Self> {
        let exact = workload.device.kind == DeviceKind::Sim;
        let unknown = if exact { 0.0 } else { UNKNOWN_ERROR };
        let each = coruns.iter().map(|corun| {
            let rate = |t: &doc::Measured| t.throughput.get();
            let error = |t: &doc::Measured| {
                t.stderr
                    .map_or(unknown * rate(t), units::SamplesPerSec::get)
            };
            let setting = |t: &doc::Measured| {
                let task = workload.tasks.iter().position(|of| of.id == t.id);
                task.map(|task| Setting {
                    task,
                    batch: t.batch,
                    share: t.share,
                })
            };
            Self {
                config: corun.config,
                settings: corun.tasks.iter().filter_map(setting).collect(),
                rates: corun.tasks.iter().map(rate).collect(),
                errors: corun.tasks.iter().map(error).collect(),
            }
        });
        Self::merged(each)
    }

    /// A co-run with measured throughputs and their standard errors, in samples per second, one per
    /// setting.
    #[must_use]
    pub fn new(settings: Vec<Setting>, rates: Vec<f64>, errors: Vec<f64>) -> Self {
        let config = 0;
        Self {
            config,
            settings,
            rates,
            errors,
        }
    }

    /// Merges the measurements of each configuration into their mean.
    #[must_use]
    pub fn merged(each: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut groups: Vec<(Self, f64)> = Vec::new();
        for one in each {
            match groups.iter_mut().find(|(g, _)| g.settings == one.settings) {
                Some((group, count)) => {
                    group.join(&one, *count);
                    *count += 1.0;
                }
                None => groups.push((one, 1.0)),
            }
        }
        groups.into_iter().map(|(group, _)| group).collect()
    }

    /// Adds a measurement to the mean of `count` earlier ones.
    fn join(&mut self, one: &Self, count: f64) {
        let mean = |all: f64, one: f64| (all * count + one) / (count + 1.0);
        for i in 0..self.rates.len() {
            self.rates[i] = mean(self.rates[i], one.rates[i]);
            let squares = (self.errors[i] * count).powi(2) + one.errors[i].powi(2);
            self.errors[i] = squares.sqrt() / (count + 1.0);
        }
    }

    /// Settings of each task.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }
}

/// A predictor that returns measured rates for measured co-runs and predictions of `inner` for all
/// others.
pub(super) struct MeasuredOver<'a, C: ?Sized> {
    pub(super) inner: &'a C,
    pub(super) known: &'a [MeasuredConfig],
}

impl<C: ?Sized> MeasuredOver<'_, C> {
    pub(super) fn known(&self, active: &[Setting]) -> Option<&MeasuredConfig> {
        self.known.iter().find(|known| known.settings == active)
    }
}

impl<C: Throughput + ?Sized> Throughput for MeasuredOver<'_, C> {
    fn task_count(&self) -> usize {
        self.inner.task_count()
    }

    fn solo(&self, task: usize, batch: Batch) -> f64 {
        self.inner.solo(task, batch)
    }

    fn means(&self, active: &[Setting], out: &mut [f64]) {
        if let Some(known) = self.known(active) {
            return out.copy_from_slice(&known.rates);
        }
        self.inner.means(active, out);
    }

    fn std_errors(&self, active: &[Setting]) -> Vec<f64> {
        let known = self.known(active).map(|known| known.errors.clone());
        known.unwrap_or_else(|| self.inner.std_errors(active))
    }

    fn covers(&self, setting: Setting, running: usize) -> bool {
        self.inner.covers(setting, running)
    }
}
