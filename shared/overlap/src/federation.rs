use doc::{PhaseKind, Timeline};

/// One device of a federation and its part in the round.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// Name of the device; `device-N` by its place in the stream where it has none.
    pub name: String,
    /// When the device has finished, in seconds from the start of the round.
    pub makespan_s: f64,
    /// Seconds up to then in which none of its tasks computes.
    pub compute_idle_s: f64,
}

/// The round of a federation: all devices start together, and it ends with the slowest.
///
/// Keeps three numbers for each device, not its timeline, so that a stream of any length can be
/// summed up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Federation {
    devices: Vec<Device>,
    slowest: usize,
}

impl Federation {
    /// Adds the device of a timeline.
    pub fn add(&mut self, timeline: &Timeline) {
        let number = self.devices.len() + 1;
        let name = timeline.id.clone();
        if timeline.makespan.get() > self.makespan_s() {
            self.slowest = self.devices.len();
        }
        self.devices.push(Device {
            name: name.unwrap_or_else(|| format!("device-{number}")),
            makespan_s: timeline.makespan.get(),
            compute_idle_s: compute_idle_s(timeline),
        });
    }

    /// The devices in the order in which they were added.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The slowest device, the first of several; `None` of an empty federation.
    #[must_use]
    pub fn straggler(&self) -> Option<&Device> {
        self.devices.get(self.slowest)
    }

    /// End of the round in seconds: the straggler's.
    #[must_use]
    pub fn makespan_s(&self) -> f64 {
        self.straggler().map_or(0.0, |d| d.makespan_s)
    }

    /// Seconds that a device of the federation waits for the straggler.
    #[must_use]
    pub fn waiting_s(&self, device: &Device) -> f64 {
        self.makespan_s() - device.makespan_s
    }
}

/// Seconds of a round in which no task computes.
fn compute_idle_s(timeline: &Timeline) -> f64 {
    let (mut idle, mut until) = (0.0, 0.0_f64);
    // Phases stand by start time.
    for p in &timeline.phases {
        if p.kind == PhaseKind::Compute {
            idle += (p.start.get() - until).max(0.0);
            until = until.max(p.end.get());
        }
    }
    idle + (timeline.makespan.get() - until).max(0.0)
}
