use doc::{DeviceFingerprint, GpuUse, GradientNoise, Launch};
use units::{SamplesPerSec, Seconds};

use crate::MeasureError;

/// One task of a configuration.
use units::corun::Setting;

/// Maximum number of averaged windows of one configuration: the mean of a thousand windows is thirty times as precise
/// as one window, and more windows do not average out the drift during the measurement.
pub const MOST_REPEATS: u32 = 1_000;

/// How long and how often to measure.
///
/// A device counts while every task trains, after a warm-up. The window ends when `least` has passed and the relative
/// standard error of every task's throughput is at most `precision`, or a task has done all of its own work, or `most`
/// has passed. If a job ends by itself before that, it is restarted; progress of the others meanwhile does not count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Shortest window.
    pub least: Seconds,
    /// Longest window.
    pub most: Seconds,
    /// Relative standard error that is sufficient, for example 0.01.
    pub precision: f64,
    /// Windows to average, 1 to [`MOST_REPEATS`].
    pub repeats: u32,
}

/// Throughput of one task in a configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Mean throughput.
    pub throughput: SamplesPerSec,
    /// Its standard error, if the device knows it.
    pub stderr: Option<SamplesPerSec>,
    /// Estimate of the noise scale from the gradient norms of its steps, if the training reports norms.
    pub gradient: Option<GradientNoise>,
    /// Cost of launching the job, if it was launched for this measurement.
    pub launch: Launch,
}

/// Measurement of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// One for each run, in the order of the configuration.
    pub rates: Vec<Rate>,
    /// Length of one window (their mean, if they differ), in device time: simulated seconds on
    /// the simulator.
    pub window: Seconds,
    /// Windows that were averaged.
    pub repeats: u32,
    /// GPU utilisation during the measurement, if reported.
    pub gpu: Option<GpuUse>,
}

/// Something that runs tasks together and measures the speed of each.
pub trait Device {
    /// Identity of the device, for the header of a profile.
    fn fingerprint(&self) -> DeviceFingerprint;

    /// Measures tasks that run together.
    ///
    /// `configuration` names tasks of the workload with which the device was opened: at least one, each at most once,
    /// ascending. When this returns, nothing that could affect other configurations runs any more (parked workers of a
    /// pool may wait).
    ///
    /// # Errors
    /// [`MeasureError`], which says whether other configurations may still be measured.
    fn measure(
        &mut self,
        configuration: &[Setting],
        window: &Window,
    ) -> Result<Measurement, MeasureError>;

    /// Repeats the measurement of a configuration that was measured `before` times in the same session. A simulator
    /// draws new noise, with a different seed each time; a real device has its own noise, and a recording does not
    /// change.
    ///
    /// # Errors
    /// As for [`Device::measure`].
    fn measure_again(
        &mut self,
        configuration: &[Setting],
        window: &Window,
        _before: u32,
    ) -> Result<Measurement, MeasureError> {
        self.measure(configuration, window)
    }

    /// Announces the next configurations in their order, so that a device with slow job starts can start several jobs
    /// at once, and a simulator can use all processors. Does nothing by default.
    fn expect(&mut self, _coming: Vec<Vec<Setting>>) {}

    /// The only configurations that can be measured; `None`: any.
    fn only(&self) -> Option<&[Vec<Setting>]> {
        None
    }

    /// Messages for the user about jobs since the last call; empty by default.
    fn untold(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// A final message for the user, for example the cost of a sample; nothing by default.
    fn summary(&self) -> Option<String> {
        None
    }
}
