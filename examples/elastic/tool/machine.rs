//! The machine of the simulation: the cost of a step, and its value.

/// Two trainings on four GPUs as Wei and Shudo ran them. The constants reproduce the directions of
/// their table; the time unit is a step on 4 GPUs with 128 samples each, alone.
#[derive(Clone, Copy)]
pub struct Machine {
    /// Seconds of the time unit. Ratios do not depend on it.
    unit_s: f64,
    /// Work of a sample, and size of the gradient, of the model relative to VGG16.
    sample: f64,
    gradient: f64,
}

/// The step time without samples, and the time of one sample.
const BASE: f64 = 0.655;
const SAMPLE: f64 = 0.195 / 128.0;
/// All-reduce: `2 V (g - 1) / g` on g GPUs (a ring moves this part of the gradient).
const REDUCE: f64 = 0.10;
/// Cost on the host due to a co-runner.
const HOST: f64 = 1.155;
/// Cost for the first all-reduce due to a second one on the same bus.
const BUS: f64 = 4.45;
/// Gradient noise scale at the start and at the target (McCandlish et al. 2018): a step of B samples
/// is worth B / (B + phi).
const NOISE: (f64, f64) = (628.0, 1075.0);

/// Co-runners.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// None.
    Nobody,
    /// Another on one GPU, without an all-reduce.
    Single,
    /// Another on several GPUs.
    Several,
}

impl Beside {
    /// Effect of a training with `gpus` on the others.
    pub fn of(gpus: u32) -> Self {
        match gpus {
            0 => Self::Nobody,
            1 => Self::Single,
            _ => Self::Several,
        }
    }
}

/// Samples of a step.
#[derive(Clone, Copy)]
pub enum Batch {
    /// 128 for each process.
    PerProcess,
    /// 512 for each task.
    PerTask,
}

impl Machine {
    /// Trains VGG16, for which the constants were chosen.
    pub fn vgg16(unit_s: f64) -> Self {
        Self {
            unit_s,
            sample: 1.0,
            gradient: 1.0,
        }
    }

    /// Trains another model of the catalogue: the time of a sample is in proportion to its operations, that of an
    /// all-reduce to the parameters. The cost of a step without samples is unchanged, because the catalogue does not
    /// say it.
    pub fn of(model: &str, unit_s: f64) -> Option<Self> {
        let [vgg16, other] = ["vgg16", model].map(|name| gpusim::Network::catalogue(name, 32).ok());
        let (vgg16, other) = (vgg16?, other?);
        Some(Self {
            unit_s,
            sample: other.flops_per_sample() / vgg16.flops_per_sample(),
            gradient: other.parameters()? as f64 / vgg16.parameters()? as f64,
        })
    }

    /// Seconds of a step on `gpus`.
    pub fn step_s(&self, gpus: u32, batch: Batch, beside: Beside) -> f64 {
        let g = f64::from(gpus);
        let each = match batch {
            Batch::PerProcess => 128.0,
            Batch::PerTask => 512.0 / g,
        };
        let host = if beside == Beside::Nobody { 1.0 } else { HOST };
        let bus = match gpus > 1 && beside == Beside::Several {
            true => BUS,
            false => 1.0,
        };
        let reduce = 2.0 * REDUCE * self.gradient * (g - 1.0) / g * bus;
        self.unit_s * (host * (BASE + SAMPLE * self.sample * each) + reduce)
    }

    /// Progress per second at the fraction `part` of the way to the target.
    pub fn progress(&self, gpus: u32, batch: Batch, beside: Beside, part: f64) -> f64 {
        let samples = match batch {
            Batch::PerProcess => 128.0 * f64::from(gpus),
            Batch::PerTask => 512.0,
        };
        let noise = NOISE.0 + (NOISE.1 - NOISE.0) * part.min(1.0);
        samples / (samples + noise) / self.step_s(gpus, batch, beside)
    }
}
