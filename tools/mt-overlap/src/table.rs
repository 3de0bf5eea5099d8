//! The table of a federation's devices.

use cli::{Console, Failure, Output};
use overlap::{Device, Federation, Replanned};

/// Writes the table, and says how the round ends.
pub fn write(
    federation: &Federation,
    deadline: Option<f64>,
    mut output: Output,
    console: &Console,
) -> Result<(), Failure> {
    let mut table = csv::Writer::from_writer(Vec::new());
    let failed = |e: csv::Error| Failure::Environment(format!("cannot write the table: {e}"));
    let mut heading = vec!["device", "makespan_s", "waiting_s", "compute_idle_s"];
    heading.extend(["samples", "samples_per_s", "fairness", "weights"]);
    if deadline.is_some() {
        heading.extend(["replanned_makespan_s", "replanned"]);
        heading.extend(["kept_percent", "kept_samples"]);
        heading.extend(["kept_makespan_s", "kept_weights"]);
    }
    table.write_record(heading).map_err(failed)?;
    let (before, after) = (federation.weights(false), federation.weights(true));
    for ((device, before), after) in federation.devices().iter().zip(before).zip(after) {
        let mut row = vec![
            device.name.clone(),
            device.makespan_s.to_string(),
            federation.waiting_s(device).to_string(),
            device.compute_idle_s.to_string(),
            device.samples().to_string(),
            (device.samples() / federation.makespan_s()).to_string(),
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
            ]);
        }
        table.write_record(row).map_err(failed)?;
    }
    let bytes = table
        .into_inner()
        .map_err(|e| failed(e.into_error().into()))?;
    output.text(&String::from_utf8_lossy(&bytes))?;
    output.finish()?;
    tell(federation, deadline, console);
    Ok(())
}

/// The weight of each task of a device.
fn each(weights: &[(impl std::fmt::Display, f64)]) -> String {
    let weights: Vec<String> = weights.iter().map(|(t, w)| format!("{t}={w:.6}")).collect();
    weights.join(" ")
}

/// Batch size and share of each task of a device.
fn settings(replanned: &Replanned) -> String {
    let settings = replanned.settings.iter().map(|(task, batch, share)| {
        let batch = batch.map_or(String::new(), |b| b.to_string());
        let share = share.map_or(String::new(), |s| format!("@{}%", s.percent()));
        format!("{task}={batch}{share}")
    });
    settings.collect::<Vec<_>>().join(" ")
}

fn tell(federation: &Federation, deadline: Option<f64>, console: &Console) {
    let Some(straggler) = federation.straggler() else {
        return;
    };
    let devices = federation.devices();
    let count = devices.len();
    let waiting: f64 = devices.iter().map(|d| federation.waiting_s(d)).sum();
    let fairness = federation.fairness();
    let fairness = fairness.map_or(String::new(), |f| format!(", P/S {f:.3} on average"));
    console.note(&format!(
        "the round of {count} devices ends after {:.3} s with {}; the others wait {:.3} s on \
         average; the whole trains {:.1} samples/s{fairness}",
        straggler.makespan_s,
        straggler.name,
        waiting / (count.max(2) - 1) as f64,
        federation.samples_per_s(),
    ));
    let Some(deadline) = deadline else { return };
    let replanned: Vec<&Device> = devices.iter().filter(|d| d.replanned.is_some()).collect();
    let late: Vec<&Device> = devices.iter().filter(|d| d.shortened.is_some()).collect();
    if !replanned.is_empty() {
        let enough = replanned.iter().filter(|d| d.shortened.is_none()).count();
        let end = devices.iter().map(Device::replanned_s).fold(0.0, f64::max);
        console.note(&format!(
            "{} late devices end sooner with other batch sizes and shares, {enough} of them by the \
             deadline: with all samples the round ends after {end:.3} s",
            replanned.len(),
        ));
    }
    if late.is_empty() {
        return console.note(&format!(
            "every device ends by the deadline of {deadline} s"
        ));
    }
    let kept: f64 = devices.iter().map(Device::kept_samples).sum();
    let all: f64 = devices.iter().map(Device::samples).sum();
    if kept == 0.0 {
        return console.note(&format!(
            "no device ends by the deadline of {deadline} s: their transfers alone take longer"
        ));
    }
    let never = late
        .iter()
        .filter(|d| d.shortened.is_some_and(|s| s.part == 0.0));
    let never = match never.count() {
        0 => String::new(),
        n => format!(" ({n} of them on none: their transfers alone take longer)"),
    };
    console.note(&format!(
        "by the deadline of {deadline} s {} devices train on less{never}: the round ends after \
         {:.3} s with {:.1} % of the samples, {:.1} samples/s",
        late.len(),
        federation.kept_makespan_s(),
        100.0 * kept / all,
        kept / federation.kept_makespan_s(),
    ));
}
