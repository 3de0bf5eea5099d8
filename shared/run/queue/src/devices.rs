//! The devices of a machine, as the policy sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use units::Share;

use crate::book::{Id, Placed};

/// A device that runs jobs: a GPU, or the processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// UUID of a GPU, or [`CPU`].
    pub id: String,
    /// Name of its model. Measurements apply to all devices of a kind.
    pub kind: String,
    /// Bytes of memory.
    pub total: u64,
    /// Maximum number of jobs at once.
    pub clients: usize,
    /// Number of processors; `None` for a GPU.
    pub cores: Option<usize>,
}

/// [`Device::id`] of the processors.
pub const CPU: &str = "cpu";

/// Observation of a device at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// Bytes free now, after the jobs of the queue and all other processes.
    pub free: u64,
    /// Processes on the device that do not belong to the queue.
    pub strangers: Vec<Stranger>,
    /// Bytes that running jobs of the queue use now, as far as known.
    pub used: BTreeMap<Id, u64>,
    /// Why it cannot be used, if it cannot.
    pub lost: Option<String>,
}

/// A process on a device that does not belong to the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stranger {
    /// Its process number.
    pub pid: u32,
    /// Its name; empty if unknown.
    pub name: String,
    /// Bytes of the device's memory that it holds.
    pub bytes: u64,
}

/// The devices that a job runs on, and its share of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// Positions in the list of devices.
    pub devices: Vec<usize>,
    /// The cap of an MPS client, or the quota on processors.
    pub share: Share,
}

impl Placed {
    /// A spot among these devices.
    #[must_use]
    pub fn of(spot: &Spot, devices: &[Device]) -> Self {
        let named = spot.devices.iter().filter_map(|&at| devices.get(at));
        Self {
            devices: named.map(|device| device.id.clone()).collect(),
            share: spot.share.hundredths(),
        }
    }

    /// The spot with positions in `devices`; devices that no longer exist are left out.
    #[must_use]
    pub fn spot(&self, devices: &[Device]) -> Spot {
        let at = |id: &String| devices.iter().position(|device| device.id == *id);
        Spot {
            devices: self.devices.iter().filter_map(at).collect(),
            share: Share::from_hundredths(self.share.min(Share::FULL.hundredths())),
        }
    }
}

impl Device {
    /// Its name for users; `at` is its position.
    #[must_use]
    pub fn label(&self, at: usize) -> String {
        match self.cores {
            Some(_) => "the machine".to_owned(),
            None => format!("gpu{at}"),
        }
    }
}
