//! GPUs: four cards that are built in, an H100, and a user's own from a file.

use serde::{Deserialize, Serialize};

/// Why a GPU description was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GpuError {
    /// No built-in GPU has this name.
    #[error("no built-in GPU is called {name:?}: use one of {}, or a GPU file", Gpu::BUILT_IN.join(", "))]
    UnknownName {
        /// What was asked for.
        name: String,
    },
    /// A figure of the description is out of range.
    #[error("GPU field `{field}` is {value}: expected {expected}")]
    OutOfRange {
        /// Field of [`GpuSpec`].
        field: &'static str,
        /// The offending value.
        value: f64,
        /// What would have been right.
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
/// Belongs to the machine and the job, not to the card. One step of a task with batch `B`, of
/// `n` tasks that share the GPU, spends
/// `(us_per_step + us_per_sample B) (1 + contention 2 (1 - 1/n)) jitter` microseconds here.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Fixed part, microseconds per step.
    pub us_per_step: f64,
    /// Part that grows with the batch, microseconds per sample.
    pub us_per_sample: f64,
    /// How much tasks slow each other down on the host; 0 = not at all.
    #[serde(default = "default_contention")]
    pub contention: f64,
}

fn default_contention() -> f64 {
    Host::DEFAULT.contention
}

impl Host {
    /// The host of the calibration set-up, used where a GPU description has no `host` block.
    pub const DEFAULT: Host = Host {
        us_per_step: 5_500.0,
        us_per_sample: 186.0,
        contention: 0.43,
    };

    pub(crate) fn check(self) -> Result<Self, GpuError> {
        in_range("host.us_per_step", self.us_per_step, 0.0, 1e9)?;
        in_range("host.us_per_sample", self.us_per_sample, 0.0, 1e9)?;
        in_range("host.contention", self.contention, 0.0, 100.0)?;
        Ok(self)
    }
}

/// A GPU description as written in a file: plain figures from a data sheet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuSpec {
    /// Name, for display.
    pub name: String,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Dense FP32 throughput in TFLOP/s.
    pub fp32_tflops: f64,
    /// Memory bandwidth in GB/s (1e9 bytes).
    pub mem_gb_per_s: f64,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Host of the machine; [`Host::DEFAULT`] where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
}

/// A GPU with the machine around it: every figure finite and in range.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    name: String,
    sms: u32,
    flops_per_us: f64,
    bytes_per_us: f64,
    memory_bytes: u64,
    host: Host,
}

impl Gpu {
    /// Names that [`Gpu::built_in`] knows.
    pub const BUILT_IN: [&'static str; 5] = ["titan-v", "rtx-3080", "rtx-3090", "a100", "h100"];

    /// A built-in GPU by name.
    ///
    /// Figures are those of the vendor's data sheets (dense FP32 without tensor cores).
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
        Self::new(GpuSpec {
            name: name.to_owned(),
            sms,
            fp32_tflops: tflops,
            mem_gb_per_s: gb_per_s,
            memory_bytes: memory_gib << 30,
            host: None,
        })
    }

    /// Checks a description; the error names the first field that is out of range.
    pub fn new(spec: GpuSpec) -> Result<Self, GpuError> {
        if spec.name.is_empty() || spec.name.chars().count() > 64 {
            return Err(GpuError::BadName);
        }
        in_range("sms", f64::from(spec.sms), 1.0, 4_096.0)?;
        in_range("fp32_tflops", spec.fp32_tflops, 1e-3, 1e5)?;
        in_range("mem_gb_per_s", spec.mem_gb_per_s, 1e-1, 1e6)?;
        in_range("memory_bytes", spec.memory_bytes as f64, 1.0, 2f64.powi(53))?;
        Ok(Self {
            name: spec.name,
            sms: spec.sms,
            flops_per_us: spec.fp32_tflops * 1e6,
            bytes_per_us: spec.mem_gb_per_s * 1e3,
            memory_bytes: spec.memory_bytes,
            host: spec.host.unwrap_or(Host::DEFAULT).check()?,
        })
    }

    /// Reads a description from JSON text, for example the content of a GPU file.
    pub fn from_json(text: &str) -> Result<Self, GpuError> {
        let spec: GpuSpec =
            serde_json::from_str(text).map_err(|e| GpuError::Syntax(e.to_string()))?;
        Self::new(spec)
    }

    /// The description of this GPU, host block included; [`Gpu::new`] of it gives an equal GPU.
    #[must_use]
    pub fn spec(&self) -> GpuSpec {
        GpuSpec {
            name: self.name.clone(),
            sms: self.sms,
            fp32_tflops: self.flops_per_us / 1e6,
            mem_gb_per_s: self.bytes_per_us / 1e3,
            memory_bytes: self.memory_bytes,
            host: Some(self.host),
        }
    }

    /// The same GPU in another machine.
    pub fn with_host(mut self, host: Host) -> Result<Self, GpuError> {
        self.host = host.check()?;
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

    /// FP32 operations per microsecond, whole card.
    #[must_use]
    pub fn flops_per_us(&self) -> f64 {
        self.flops_per_us
    }

    /// Bytes of memory traffic per microsecond, whole card.
    #[must_use]
    pub fn bytes_per_us(&self) -> f64 {
        self.bytes_per_us
    }

    /// Device memory in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// The machine around the card.
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
            let text = serde_json::to_string(&gpu.spec()).unwrap();
            assert_eq!(Gpu::from_json(&text).unwrap().sms(), gpu.sms());
        }
        assert!(matches!(
            Gpu::built_in("gtx-1"),
            Err(GpuError::UnknownName { .. })
        ));
    }

    #[test]
    fn refuses_what_cannot_be_a_gpu() {
        let good = Gpu::built_in("a100").unwrap().spec();
        for bad in [
            GpuSpec {
                sms: 0,
                ..good.clone()
            },
            GpuSpec {
                fp32_tflops: -1.0,
                ..good.clone()
            },
            GpuSpec {
                mem_gb_per_s: f64::NAN,
                ..good.clone()
            },
            GpuSpec {
                memory_bytes: 0,
                ..good.clone()
            },
            GpuSpec {
                name: String::new(),
                ..good.clone()
            },
            GpuSpec {
                host: Some(Host {
                    us_per_step: -1.0,
                    ..Host::DEFAULT
                }),
                ..good.clone()
            },
        ] {
            assert!(Gpu::new(bad.clone()).is_err(), "{bad:?}");
        }
        assert!(Gpu::from_json(r#"{"name":"x","sms":10,"color":"red"}"#).is_err());
    }
}
