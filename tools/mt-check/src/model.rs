//! A model: can it predict, and is what it predicts possible?

use doc::{DeviceKind, Model};
use predict::{Active, Predictor};
use units::Share;

use crate::judge::Judge;
use crate::workload;

/// Judges a model.
pub fn judge(model: &Model, j: &mut Judge) {
    j.field("workload", |j| workload::judge(&model.workload, j));
    if model.device.kind == DeviceKind::Sim && !model.device.simulated {
        j.field("device", |j| j.same("simulated", false, true));
    }
    match Predictor::from_model(model) {
        Err(error) => j.lie("predictor", "parameters of a predictor", error),
        Ok(predictor) => predictions(model, &predictor, j),
    }
}

/// Throughput is finite and above 0 alone and together at full share.
fn predictions(model: &Model, predictor: &Predictor, j: &mut Judge) {
    let tasks = &model.workload.tasks;
    if predictor.task_count() != tasks.len() {
        return j.lie("predictor", predictor.task_count(), tasks.len());
    }
    for (i, task) in tasks.iter().enumerate() {
        for &batch in &task.batch_sizes {
            let rate = predictor.solo(i, batch);
            if !(rate.is_finite() && rate > 0.0) {
                let claimed = format!("{rate} samples/s of {} at batch size {batch}", task.id);
                j.lie("predictor", claimed, "a finite number above 0");
            }
        }
    }
    let together: Vec<Active> = tasks
        .iter()
        .enumerate()
        .map(|(i, task)| Active {
            task: i,
            batch: task.batch_sizes[0],
            share: Share::FULL,
        })
        .collect();
    for (task, p) in tasks.iter().zip(predictor.predict(&together)) {
        let fine = p.samples_per_s.is_finite() && p.samples_per_s > 0.0 && p.std_error >= 0.0;
        if !fine {
            let claimed = format!(
                "{} samples/s of {} with all others",
                p.samples_per_s, task.id
            );
            j.lie("predictor", claimed, "a finite number above 0");
        }
    }
}
