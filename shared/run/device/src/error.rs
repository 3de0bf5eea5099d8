use doc::{DeviceKind, FailureCause, Fault};

/// A configuration that could not be measured. It is recorded in the profile instead of a sample.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failed {
    /// The reason, as a message.
    pub reason: String,
    /// Class of the reason; `None` if a recording does not contain it.
    pub cause: Option<FailureCause>,
    /// Index, in the workload, of the task whose job caused the failure.
    pub task: Option<usize>,
    /// The last lines that this job printed; may be empty.
    pub output: String,
}

impl Failed {
    /// A failure that is not due to a job.
    #[must_use]
    pub fn new(cause: FailureCause, reason: String) -> Self {
        Self {
            reason,
            cause: Some(cause),
            task: None,
            output: String::new(),
        }
    }
}

/// Why a configuration has no measurement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// This configuration cannot run here (a job that crashes, a stall, too little memory); others
    /// may.
    #[error("{0}")]
    Failed(Box<Failed>),
    /// The device can no longer be used: a lost daemon, a revoked permission.
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
    /// The machine does not support it: no GPU, no permission, no daemon. The message says what to do.
    #[error("the {kind} device cannot be used here: {reason}", kind = host::word(*kind))]
    Environment {
        /// Which device.
        kind: DeviceKind,
        /// The reason, and what to do.
        reason: String,
    },
    /// The replay device was requested without a recording.
    #[error("the replay device needs a recording: give it a profile")]
    NoRecording,
    /// An option has no effect on this device.
    #[error("{0}")]
    Unfit(String),
    /// The workload lacks something that this device needs, or requests something impossible; the path is one in the
    /// workload.
    #[error("{0}")]
    Workload(Fault),
}

impl MeasureError {
    /// A failure that is not due to a job.
    pub(crate) fn failed(cause: FailureCause, reason: String) -> Self {
        Self::Failed(Box::new(Failed::new(cause, reason)))
    }

    /// Whether memory was insufficient.
    #[must_use]
    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Failed(f) if f.cause == Some(FailureCause::Memory))
    }
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
    /// An error of the workload at `path`, for example `$.tasks[0].model`.
    #[must_use]
    pub fn workload(code: doc::Code, path: &str, problem: String, advice: &str) -> Self {
        host::OpenError::workload(code, path, problem, advice).into()
    }
}
