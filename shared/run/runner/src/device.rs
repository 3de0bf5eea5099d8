//! Whether the device serves jobs.

/// State of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Device {
    #[default]
    Good,
    /// It has had a fault and has not recovered yet.
    Faulted,
    /// It will not recover.
    Lost,
}

impl Device {
    pub(crate) const fn is_faulted(self) -> bool {
        matches!(self, Self::Faulted)
    }

    pub(crate) const fn is_lost(self) -> bool {
        matches!(self, Self::Lost)
    }
}
