use doc::params::{SumParams, UnseenParams, UnseenUse};
use units::Batch;
use units::corun::Setting;

use super::process::{process, tasks_of, write_process};
use super::{bad, length, not_negative, numbers};
use crate::base::Base;
use crate::error::PredictError;
use crate::gp::{MEMBER, Members, SetGp};
use crate::pool::{OwnHalves, Pool, Weights};
use crate::sum::{Sums, members_of};
use crate::unseen::{PoolCorrection, Unseen, UnseenError};

pub(super) fn write(u: &Unseen, points: &[Vec<Setting>]) -> UnseenParams {
    let pool = &u.pool;
    let batches = |v: &Vec<Batch>| v.iter().map(|b| u64::from(b.get())).collect();
    UnseenParams {
        seen_batches: u.seen.iter().map(batches).collect(),
        gp: write_process(&pool.part),
        tasks: tasks_of(&pool.part, points),
        mean: pool.mean,
        known_weight: u.weights.known,
        far_weight: Some(u.weights.far).filter(|far| *far != u.weights.known),
        sums: u.sums.as_ref().map(write_sums),
        batch: u.batch.as_ref().map(write_use),
        task: u.task.as_ref().map(write_use),
    }
}

fn write_sums(s: &Sums) -> SumParams {
    SumParams {
        weight: s.weight,
        mean: s.mean,
        inverse_length: s.gp.inverse_length.to_vec(),
        points: s.points.iter().map(|k| *k as u32).collect(),
        weights: s.gp.weights.clone(),
    }
}

fn read_sums(s: &SumParams, base: &Base, points: &[Vec<Setting>]) -> Result<Sums, PredictError> {
    let path = "$.predictor.unseen.sums";
    length(path, s.weights.len(), s.points.len())?;
    numbers(path, &s.weights, false)?;
    numbers(path, &s.inverse_length, true)?;
    numbers(path, &[s.mean], false)?;
    let inverse_length = s.inverse_length.as_slice().try_into().map_err(|_| {
        let problem = format!("{} entries where {MEMBER} belong", s.inverse_length.len());
        bad(format!("{path}.inverse_length"), problem)
    })?;
    if !(0.0..=1.0).contains(&s.weight) {
        let problem = format!("{} is not 0 to 1", s.weight);
        return Err(bad(format!("{path}.weight"), problem));
    }
    let mut members = Members::default();
    for k in &s.points {
        let Some(active) = points.get(*k as usize) else {
            return Err(bad(path, format!("point {k} of {}", points.len())));
        };
        let inputs = base.inputs(active);
        if !members.push(&members_of(&inputs)[..inputs.len]) {
            return Err(bad(path, "more points than a model keeps"));
        }
    }
    Ok(Sums {
        gp: SetGp::with_weights(members, inverse_length, s.weights.clone()),
        mean: s.mean,
        points: s.points.iter().map(|k| *k as usize).collect(),
        weight: s.weight,
    })
}

fn write_use(u: &PoolCorrection) -> UnseenUse {
    UnseenUse {
        weight: u.weight,
        factor: u.factor,
        interval_scale: u.interval_scale,
        parts: u.error.map_or(0, |e| e.parts as u32),
        error_percent: u.error.map(|e| e.error_percent),
    }
}

pub(super) fn read(
    u: &UnseenParams,
    base: &Base,
    points: &[Vec<Setting>],
) -> Result<Unseen, PredictError> {
    let path = "$.predictor.unseen";
    length(
        &format!("{path}.seen_batches"),
        u.seen_batches.len(),
        base.kind.len(),
    )?;
    numbers(&format!("{path}.mean"), &[u.mean], false)?;
    let weights = Weights {
        known: u.known_weight,
        far: u.far_weight.unwrap_or(u.known_weight),
    };
    for (weight, name) in [(weights.known, "known_weight"), (weights.far, "far_weight")] {
        if !(0.0..=1.0).contains(&weight) {
            let problem = format!("{weight} is not 0 to 1");
            return Err(bad(format!("{path}.{name}"), problem));
        }
    }
    let batch =
        |b: &u64| Batch::new(*b).map_err(|e| bad(format!("{path}.seen_batches"), e.to_string()));
    let batches = |v: &Vec<u64>| v.iter().map(batch).collect();
    let tasks: Vec<usize> = u.tasks.iter().map(|t| *t as usize).collect();
    if u.gp.own_features.is_none() {
        let problem = "absent, and the process of all tasks has two groups of features";
        return Err(bad(format!("{path}.gp.own_features"), problem));
    }
    let row = |inputs: &_, at| base.layout.groups_of(inputs, at);
    Ok(Unseen {
        seen: u
            .seen_batches
            .iter()
            .map(batches)
            .collect::<Result<_, _>>()?,
        pool: Pool {
            part: process(&u.gp, &tasks, base, points, &format!("{path}.gp"), row)?,
            mean: u.mean,
            own: OwnHalves::default(),
        },
        weights,
        sums: match &u.sums {
            Some(s) => Some(read_sums(s, base, points)?),
            None => None,
        },
        batch: read_use(u.batch.as_ref(), &format!("{path}.batch"))?,
        task: read_use(u.task.as_ref(), &format!("{path}.task"))?,
    })
}

fn read_use(u: Option<&UnseenUse>, path: &str) -> Result<Option<PoolCorrection>, PredictError> {
    let Some(u) = u else { return Ok(None) };
    numbers(path, &[u.factor, u.interval_scale], true)?;
    if let Some(error) = u.error_percent {
        not_negative(path, &[error])?;
    }
    if !(0.0..=1.0).contains(&u.weight) {
        return Err(bad(path, format!("weight {} is not 0 to 1", u.weight)));
    }
    Ok(Some(PoolCorrection {
        weight: u.weight,
        factor: u.factor,
        interval_scale: u.interval_scale,
        error: u.error_percent.map(|error_percent| UnseenError {
            parts: u.parts as usize,
            error_percent,
        }),
    }))
}
