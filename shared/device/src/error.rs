use doc::{DeviceKind, Fault};

/// Why a configuration has no measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// This configuration cannot run here (a job that crashes, a stall); others may. The reason is
    /// recorded in the profile in place of a sample.
    #[error("{0}")]
    Failed(String),
    /// This configuration needs more memory than there is; recorded as any other that failed.
    #[error("{0}")]
    OutOfMemory(String),
    /// The device cannot be used any more: a lost daemon, a permission taken away.
    #[error("{0}")]
    Unusable(String),
    /// The recording does not have this configuration.
    #[error("this configuration was not recorded")]
    Unrecorded,
    /// [`crate::Options::interrupted`] was set; every process of the measurement has ended.
    #[error("interrupted")]
    Interrupted,
}

/// Why a device could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The machine cannot: no GPU, no permission, no daemon. The text says what to do about it.
    #[error("the {kind} device cannot be used here: {reason}", kind = host::word(*kind))]
    Environment {
        /// Which device.
        kind: DeviceKind,
        /// Why, and what to do.
        reason: String,
    },
    /// The replay device was asked for without a recording.
    #[error("the replay device needs a recording: give it a profile")]
    NoRecording,
    /// The workload lacks something that this device needs, or asks for something impossible; the
    /// path of the fault is one in the workload.
    #[error("{0}")]
    Workload(Fault),
}

impl From<host::OpenError> for OpenError {
    fn from(error: host::OpenError) -> Self {
        match error {
            host::OpenError::Environment { kind, reason } => Self::Environment { kind, reason },
            host::OpenError::Workload(fault) => Self::Workload(fault),
        }
    }
}

impl OpenError {
    /// A fault of the workload at `path`, for example `$.tasks[0].model`.
    #[must_use]
    pub fn workload(code: doc::Code, path: &str, problem: String, advice: &str) -> Self {
        host::OpenError::workload(code, path, problem, advice).into()
    }
}
