//! A table of a federation's devices, and remarks on its round.

use std::io::Write;

use super::{Device, Federation, Replanned};

impl Federation {
    /// Writes the devices as CSV, with a heading; with a deadline, also how each device meets it.
    ///
    /// # Errors
    /// [`csv::Error`] if `out` cannot be written.
    pub fn write_csv(&self, deadline: Option<f64>, out: impl Write) -> Result<(), csv::Error> {
        let mut table = csv::Writer::from_writer(out);
        let mut heading = vec!["device", "makespan_s", "waiting_s", "compute_idle_s"];
        heading.extend(["samples", "samples_per_s", "fairness", "weights"]);
        if deadline.is_some() {
            heading.extend(["replanned_makespan_s", "replanned"]);
            heading.extend(["kept_percent", "kept_samples"]);
            heading.extend(["kept_makespan_s", "kept_weights", "kept_progress"]);
        }
        table.write_record(heading)?;
        let before = self.weights(false);
        let after = self.weights(true);
        for ((device, before), after) in self.devices().iter().zip(before).zip(after) {
            let mut row = vec![
                device.name.clone(),
                device.makespan_s.to_string(),
                self.waiting_s(device).to_string(),
                device.compute_idle_s.to_string(),
                device.samples().to_string(),
                (device.samples() / self.makespan_s()).to_string(),
                device.fairness.map_or(String::new(), |f| f.to_string()),
                each(&before),
            ];
            if deadline.is_some() {
                let kept = device.shortened.map_or(1.0, |s| s.part);
                row.extend([
                    device.replanned_s().to_string(),
                    device.replanned.as_ref().map_or(String::new(), settings),
                    (100.0 * kept).to_string(),
                    device.kept_samples().to_string(),
                    device.kept_s().to_string(),
                    each(&after),
                    device
                        .kept_progress
                        .as_ref()
                        .map_or(String::new(), |p| each(p)),
                ]);
            }
            table.write_record(row)?;
        }
        table.flush()?;
        Ok(())
    }

    /// Explains in words how the round ends, for which device the others wait, and how a deadline
    /// is met. Empty without devices.
    #[must_use]
    pub fn remarks(&self, deadline: Option<f64>) -> Vec<String> {
        let Some(straggler) = self.straggler() else {
            return Vec::new();
        };
        let devices = self.devices();
        let count = devices.len();
        let waiting: f64 = devices.iter().map(|d| self.waiting_s(d)).sum();
        let fairness = self
            .fairness()
            .map_or(String::new(), |f| format!(", P/S {f:.3} on average"));
        let mut all = vec![format!(
            "the round of {count} devices ends after {:.3} s with {}; the others wait {:.3} s on \
             average; the whole trains {:.1} samples/s{fairness}",
            straggler.makespan_s,
            straggler.name,
            waiting / (count.max(2) - 1) as f64,
            self.samples_per_s(),
        )];
        let Some(deadline) = deadline else {
            return all;
        };
        let replanned: Vec<&Device> = devices.iter().filter(|d| d.replanned.is_some()).collect();
        if !replanned.is_empty() {
            let enough = replanned.iter().filter(|d| d.shortened.is_none()).count();
            let end = devices.iter().map(Device::replanned_s).fold(0.0, f64::max);
            all.push(format!(
                "{} late devices get other batch sizes and shares, {enough} of them train on all \
                 their samples by the deadline: with all samples the round ends after {end:.3} s",
                replanned.len(),
            ));
        }
        all.push(self.kept(deadline));
        all
    }

    /// Explains how the deadline is met with fewer samples.
    fn kept(&self, deadline: f64) -> String {
        let devices = self.devices();
        let shortened = devices.iter().filter_map(|d| d.shortened);
        let parts: Vec<f64> = shortened.map(|s| s.part).collect();
        if parts.is_empty() {
            return format!("every device ends by the deadline of {deadline} s");
        }
        let kept: f64 = devices.iter().map(Device::kept_samples).sum();
        let all: f64 = devices.iter().map(Device::samples).sum();
        if kept == 0.0 {
            return format!(
                "no device ends by the deadline of {deadline} s: their transfers alone take longer"
            );
        }
        let never = match parts.iter().filter(|part| **part == 0.0).count() {
            0 => String::new(),
            n => format!(" ({n} of them on none: their transfers alone take longer)"),
        };
        format!(
            "by the deadline of {deadline} s {} devices train on less{never}: the round ends after \
             {:.3} s with {:.1} % of the samples, {:.1} samples/s",
            parts.len(),
            self.kept_makespan_s(),
            100.0 * kept / all,
            kept / self.kept_makespan_s(),
        )
    }
}

/// The tasks of a device, each with a number, as text.
fn each(weights: &[(impl std::fmt::Display, f64)]) -> String {
    let weights: Vec<String> = weights.iter().map(|(t, w)| format!("{t}={w:.6}")).collect();
    weights.join(" ")
}

/// Batch size and share of each task of a device, as text.
fn settings(replanned: &Replanned) -> String {
    let settings = replanned.settings.iter().map(|(task, batch, share)| {
        let batch = batch.map_or(String::new(), |b| b.to_string());
        let share = share.map_or(String::new(), |s| format!("@{}%", s.percent()));
        format!("{task}={batch}{share}")
    });
    settings.collect::<Vec<_>>().join(" ")
}
