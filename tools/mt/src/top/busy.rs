//! Measures how busy the device is.

use std::fs;

use host::Meter;
use host::discovery;

/// The observed device.
pub enum Busy {
    /// A GPU, measured by NVML.
    Gpu(Box<Meter>),
    /// The CPUs of this machine, measured since the previous observation.
    Processors(Ticks),
}

/// Clock ticks of all CPUs since the machine started.
#[derive(Default)]
pub struct Ticks {
    worked: u64,
    all: u64,
}

impl Busy {
    /// Observes the first GPU of this machine or, without one, its CPUs.
    pub fn of_machine() -> Self {
        let gpus = discovery::discover().unwrap_or_default();
        let meter = gpus.first().and_then(|gpu| Meter::open(&gpu.uuid).ok());
        meter.map_or(Self::Processors(Ticks::default()), |meter| {
            Self::Gpu(Box::new(meter))
        })
    }

    /// Measures how busy the device is; `None` if it cannot be read.
    pub fn now(&mut self) -> Option<String> {
        match self {
            Self::Gpu(meter) => {
                let (memory, busy) = meter.now();
                let busy = busy.map(|percent| format!("GPU busy {percent} %"));
                let memory = memory.map(|bytes| format!("{:.1} GB in use", bytes as f64 * 1e-9));
                let told: Vec<String> = busy.into_iter().chain(memory).collect();
                (!told.is_empty()).then(|| told.join(", "))
            }
            Self::Processors(before) => {
                let now = Ticks::of(&fs::read_to_string("/proc/stat").ok()?)?;
                let worked = now.worked - before.worked;
                let all = now.all - before.all;
                *before = now;
                let percent = 100.0 * worked as f64 / all.max(1) as f64;
                Some(format!("processors busy {percent:.0} %"))
            }
        }
    }
}

impl Ticks {
    /// Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, interrupts, and steal. The time of
    /// guests is included in user.
    fn of(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .take(8)
            .map(str::parse)
            .collect::<Result<_, _>>()
            .ok()?;
        let all = ticks.iter().sum();
        let idle: u64 = ticks.get(3..5)?.iter().sum();
        let worked = all - idle;
        Some(Self { worked, all })
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    #[test]
    fn guests_are_not_counted_twice_and_a_disk_is_waited_for_idly() {
        let ticks = Ticks::of("cpu  10 1 5 80 4 0 0 0 7 0\ncpu0 ...").unwrap();
        assert_eq!((ticks.worked, ticks.all), (16, 100));
        assert!(Ticks::of("intr 5").is_none());
    }
}
