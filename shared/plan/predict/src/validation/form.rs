//! The form of the laws, by cross-validation.

use units::Share;

use super::folds;
use super::left::trimmed;
use crate::base::Base;
use crate::dataset::{Dataset, Sample};
use crate::error::PredictError;
use crate::structured::Form;

/// Minimum number of solo runs at partial shares, which are needed to see how tasks scale by themselves.
const LEAST_PARTS: usize = 2;
/// The form with more constants is chosen only if it reduces the error of held-out co-runs to less than this
/// fraction. On simulated GPUs, whose host and device times add up, that form raised the error of the law alone with
/// 125 samples from 2.2 to 5.5 %, so this value hardly matters there. It could not be chosen on data of a real GPU,
/// since there were none with co-runs and solo runs at partial shares.
const FORM_WORTH: f64 = 0.97;

/// Form of the laws, by the errors of the laws alone on held-out co-runs. The simple form if there is no solo run at
/// a partial share; the other one if there are only solo runs.
pub(crate) fn choose_form(data: &Dataset) -> Result<Form, PredictError> {
    let part = |s: &&Sample| s.active.len() == 1 && s.active[0].share < Share::FULL;
    if data.samples.iter().filter(part).count() < LEAST_PARTS {
        return Ok(Form::Added);
    }
    if data.samples.iter().all(|s| s.active.len() == 1) {
        return Ok(Form::Overlapping);
    }
    let Some(fold) = folds(data, 3) else {
        return Ok(Form::Added);
    };
    let error = |form: Form| -> Result<f64, PredictError> {
        let mut errors = Vec::new();
        for f in 0..3 {
            let in_fold = |out: bool| {
                let numbered = data.samples.iter().zip(&fold);
                numbered.filter(move |(_, k)| (**k == f) == out)
            };
            let kept = Dataset {
                tasks: data.tasks.clone(),
                samples: in_fold(false).map(|(s, _)| s.clone()).collect(),
            };
            let base = Base::learn(&kept, form)?;
            for (s, _) in in_fold(true) {
                let inputs = base.inputs(&s.active);
                for (at, (a, p)) in s.active.iter().zip(&s.throughput).enumerate() {
                    let step = inputs.by_law(at, &base.laws[a.task]);
                    if *p > 0.0 {
                        errors.push((a.batch.as_f64() / p / step).ln().abs());
                    }
                }
            }
        }
        Ok(trimmed(errors).unwrap_or(f64::INFINITY))
    };
    if error(Form::Overlapping)? < FORM_WORTH * error(Form::Added)? {
        Ok(Form::Overlapping)
    } else {
        Ok(Form::Added)
    }
}
