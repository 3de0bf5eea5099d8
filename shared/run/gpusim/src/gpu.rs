//! GPUs: five built-in ones, and GPUs that users describe by their parameters.

use doc::{GpuDescription, HostDescription};

/// Why a GPU description was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GpuError {
    /// No built-in GPU has this name.
    #[error("no built-in GPU is called {name:?}: use one of {}, or give its figures", Gpu::BUILT_IN.join(", "))]
    UnknownName {
        /// The requested name.
        name: String,
    },
    /// A value of the description is out of range.
    #[error("GPU field `{field}` is {value}: expected {expected}")]
    OutOfRange {
        /// Field of the description.
        field: &'static str,
        /// The offending value.
        value: f64,
        /// The valid range.
        expected: &'static str,
    },
    /// The name is empty or too long.
    #[error("a GPU needs a name of 1 to 64 characters")]
    BadName,
    /// The text is not a GPU description at all.
    #[error("not a GPU description: {0}")]
    Syntax(String),
}

/// Host side of a training step: input pipeline and framework, serial with the GPU work.
///
/// It is a property of the machine and the job, and not of the card. One step of a task with batch `B`, of `n` tasks
/// that share the GPU, spends `(us_per_step + us_per_sample B) (1 + contention 2 (1 - 1/n)) jitter` microseconds here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// Fixed part, microseconds per step.
    pub us_per_step: f64,
    /// Part that grows with the batch, microseconds per sample.
    pub us_per_sample: f64,
    /// Strength of contention between tasks on the host; 0 = none.
    pub contention: f64,
    /// Time to launch one kernel, microseconds; launches run ahead of the GPU.
    pub launch_us: f64,
}

impl Host {
    /// The host parameters calibrated with the RTX 3090; used if a GPU description has no `host` block.
    pub const DEFAULT: Host = Host {
        us_per_step: 5_500.0,
        us_per_sample: 154.0,
        contention: 0.488,
        launch_us: 10.0,
    };

    /// The host parameters calibrated with the Titan V.
    const TITAN_V: Host = Host {
        us_per_sample: 221.0,
        ..Self::DEFAULT
    };

    /// Checks the values of a description.
    pub fn new(description: &HostDescription) -> Result<Self, GpuError> {
        let host = Self {
            us_per_step: description.us_per_step,
            us_per_sample: description.us_per_sample,
            contention: description.contention,
            launch_us: description.launch_us,
        };
        in_range("host.us_per_step", host.us_per_step, 0.0, 1e9)?;
        in_range("host.us_per_sample", host.us_per_sample, 0.0, 1e9)?;
        in_range("host.contention", host.contention, 0.0, 100.0)?;
        in_range("host.launch_us", host.launch_us, 0.0, 1e6)?;
        Ok(host)
    }

    /// These parameters as a description.
    #[must_use]
    pub fn description(&self) -> HostDescription {
        HostDescription {
            us_per_step: self.us_per_step,
            us_per_sample: self.us_per_sample,
            contention: self.contention,
            launch_us: self.launch_us,
        }
    }
}

/// A GPU with its host; every value is finite and in range.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    name: String,
    sms: u32,
    flops_per_us: f64,
    bytes_per_us: f64,
    memory_bytes: Option<u64>,
    host: Host,
}

impl Gpu {
    /// Names that [`Gpu::built_in`] knows.
    pub const BUILT_IN: [&'static str; 5] = ["titan-v", "rtx-3080", "rtx-3090", "a100", "h100"];

    /// The GPU that is simulated if none is named.
    pub const DEFAULT_NAME: &'static str = "rtx-3090";

    /// A built-in GPU by name.
    ///
    /// Values are from the vendor's data sheets (dense FP32 without tensor cores).
    pub fn built_in(name: &str) -> Result<Self, GpuError> {
        let (sms, tflops, gb_per_s, memory_gib) = match name {
            "titan-v" => (80, 14.9, 652.8, 12),
            "rtx-3080" => (68, 29.8, 760.3, 10),
            "rtx-3090" => (82, 35.6, 936.2, 24),
            "a100" => (108, 19.5, 1_555.0, 40),
            "h100" => (132, 66.9, 3_352.0, 80),
            _ => {
                return Err(GpuError::UnknownName {
                    name: name.to_owned(),
                });
            }
        };
        Self::new(&GpuDescription {
            name: name.to_owned(),
            sms,
            fp32_tflops: tflops,
            memory_gb_per_s: gb_per_s,
            memory_bytes: Some(memory_gib << 30),
            host: (name == "titan-v").then(|| Host::TITAN_V.description()),
        })
    }

    /// Checks a description; the error names the first value that is out of range.
    pub fn new(description: &GpuDescription) -> Result<Self, GpuError> {
        let d = description;
        if d.name.is_empty() || d.name.chars().count() > 64 {
            return Err(GpuError::BadName);
        }
        in_range("sms", f64::from(d.sms), 1.0, 10_000.0)?;
        in_range("fp32_tflops", d.fp32_tflops, 1e-3, 1e5)?;
        in_range("memory_gb_per_s", d.memory_gb_per_s, 1e-1, 1e6)?;
        if let Some(bytes) = d.memory_bytes {
            in_range("memory_bytes", bytes as f64, 1.0, 2f64.powi(53))?;
        }
        Ok(Self {
            name: d.name.clone(),
            sms: d.sms,
            flops_per_us: d.fp32_tflops * 1e6,
            bytes_per_us: d.memory_gb_per_s * 1e3,
            memory_bytes: d.memory_bytes,
            host: d.host.as_ref().map_or(Ok(Host::DEFAULT), Host::new)?,
        })
    }

    /// Reads a description from JSON text, for example the content of a GPU file.
    pub fn from_json(text: &str) -> Result<Self, GpuError> {
        let description: GpuDescription =
            serde_json::from_str(text).map_err(|e| GpuError::Syntax(e.to_string()))?;
        Self::new(&description)
    }

    /// The description of this GPU, including the host block.
    #[must_use]
    pub fn description(&self) -> GpuDescription {
        GpuDescription {
            name: self.name.clone(),
            sms: self.sms,
            fp32_tflops: self.flops_per_us / 1e6,
            memory_gb_per_s: self.bytes_per_us / 1e3,
            memory_bytes: self.memory_bytes,
            host: Some(self.host.description()),
        }
    }

    /// The same GPU with another host.
    pub fn with_host(mut self, host: Host) -> Result<Self, GpuError> {
        self.host = Host::new(&host.description())?;
        Ok(self)
    }

    /// Name for display.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of streaming multiprocessors.
    #[must_use]
    pub fn sms(&self) -> u32 {
        self.sms
    }

    /// FP32 operations per microsecond of the whole card.
    #[must_use]
    pub fn flops_per_us(&self) -> f64 {
        self.flops_per_us
    }

    /// Bytes of memory traffic per microsecond of the whole card.
    #[must_use]
    pub fn bytes_per_us(&self) -> f64 {
        self.bytes_per_us
    }

    /// Device memory in bytes, if known.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory_bytes
    }

    /// The host parameters.
    #[must_use]
    pub fn host(&self) -> Host {
        self.host
    }
}

fn in_range(field: &'static str, value: f64, low: f64, high: f64) -> Result<(), GpuError> {
    if value.is_finite() && (low..=high).contains(&value) {
        return Ok(());
    }
    let expected = if low > 0.0 {
        "a positive number of plausible size"
    } else {
        "a number of plausible size, 0 or more"
    };
    Err(GpuError::OutOfRange {
        field,
        value,
        expected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_names_resolve_and_survive_their_own_description() {
        for name in Gpu::BUILT_IN {
            let gpu = Gpu::built_in(name).unwrap();
            let text = serde_json::to_string(&gpu.description()).unwrap();
            assert_eq!(Gpu::from_json(&text).unwrap().sms(), gpu.sms());
        }
        assert!(matches!(
            Gpu::built_in("gtx-1"),
            Err(GpuError::UnknownName { .. })
        ));
    }

    #[test]
    fn refuses_what_cannot_be_a_gpu() {
        let good = Gpu::built_in("a100").unwrap().description();
        let host = Host {
            us_per_step: -1.0,
            ..Host::DEFAULT
        };
        let spoil: [fn(&mut GpuDescription); 5] = [
            |d| d.sms = 0,
            |d| d.fp32_tflops = -1.0,
            |d| d.memory_gb_per_s = f64::NAN,
            |d| d.memory_bytes = Some(0),
            |d| d.name.clear(),
        ];
        for change in spoil {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(Gpu::new(&bad).is_err(), "{bad:?}");
        }
        assert!(Gpu::new(&good).unwrap().with_host(host).is_err());
        assert!(Gpu::from_json(r#"{"name":"x","sms":10,"color":"red"}"#).is_err());
    }
}
