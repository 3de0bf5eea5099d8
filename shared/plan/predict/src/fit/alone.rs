//! Error of solo rates at partial shares that were not measured.

use units::Share;

use crate::base::Base;
use crate::dataset::{Dataset, Sample};
use crate::error::PredictError;
use crate::structured::Form;
use crate::trust::PartSpread;
use crate::validation::{conformal, scale_of_parts};

/// Number of parts that are held out one after another. With two, only half of the levels would remain to learn
/// from. Each part costs a fit of the laws to the solo runs.
const PARTS: usize = 3;
/// Minimum number of held-out runs for an estimate: with fewer, even the largest error covers less than 90 %.
const LEAST: usize = 9;

impl PartSpread {
    /// Learns from held-out solo runs: single runs (`near`), and all runs of a task at one share (`far`).
    pub fn of(data: &Dataset, form: Form) -> Result<Self, PredictError> {
        let alone: Vec<Sample> = data
            .samples
            .iter()
            .filter(|s| is_alone(s))
            .cloned()
            .collect();
        let data = Dataset {
            tasks: data.tasks.clone(),
            samples: alone,
        };
        let levels = levels(&data);
        let level = |s: &Sample| {
            let a = s.active[0];
            levels[a.task].iter().position(|l| *l == a.share)
        };
        let parts = levels.iter().map(Vec::len).sum();
        let (mut seen, mut count) = (Vec::new(), 0);
        for s in &data.samples {
            seen.push(level(s).map(|_| count % PARTS));
            count += usize::from(level(s).is_some());
        }
        let whole: Vec<Option<usize>> = data
            .samples
            .iter()
            .map(|s| level(s).map(|l| l % PARTS))
            .collect();
        Ok(Self {
            near: left_out(&data, form, &seen)?
                .and_then(conformal)
                .map(at_least),
            far: left_out(&data, form, &whole)?
                .and_then(|errors| scale_of_parts(&errors, parts))
                .map(at_least),
        })
    }
}

fn is_alone(s: &Sample) -> bool {
    s.active.len() == 1 && s.throughput[0] > 0.0
}

/// Partial shares at which each task ran alone, ascending.
fn levels(data: &Dataset) -> Vec<Vec<Share>> {
    let mut levels = vec![Vec::new(); data.tasks.len()];
    for s in &data.samples {
        let a = s.active[0];
        if a.share < Share::FULL {
            levels[a.task].push(a.share);
        }
    }
    for l in &mut levels {
        l.sort_unstable();
        l.dedup();
    }
    levels
}

/// Lower limit of a spread: measurements repeat to a tenth of a percent at best.
fn at_least(spread: f64) -> f64 {
    spread.max(1e-3)
}

/// Errors of the held-out runs of each part; runs with `None` are never held out.
fn left_out(
    data: &Dataset,
    form: Form,
    part: &[Option<usize>],
) -> Result<Option<Vec<f64>>, PredictError> {
    if part.iter().flatten().count() < LEAST {
        return Ok(None);
    }
    let mut errors = Vec::new();
    for out in 0..PARTS {
        let runs = || data.samples.iter().zip(part);
        let others = runs().filter(|(_, p)| **p != Some(out));
        let kept = Dataset {
            tasks: data.tasks.clone(),
            samples: others.map(|(s, _)| s.clone()).collect(),
        };
        let base = match Base::learn(&kept, form) {
            Ok(base) => base,
            // All runs of a task are in this part, so it cannot be predicted without them.
            Err(PredictError::UnknownTask { .. } | PredictError::NoUsableSample) => continue,
            Err(other) => return Err(other),
        };
        for (s, _) in runs().filter(|(_, p)| **p == Some(out)) {
            let a = s.active[0];
            let (batch, share) = (a.batch.as_f64(), a.share.fraction());
            let (_, ln_step, _) = base.solo_steps(a.task, batch, share);
            errors.push((ln_step - (batch / s.throughput[0]).ln()).abs());
        }
    }
    Ok(Some(errors))
}
