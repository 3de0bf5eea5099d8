//! Models.

use doc::wire::{self, Wire};
use doc::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn method() -> impl Strategy<Value = Method> {
    prop_oneof![
        Just(Method::Structured),
        Just(Method::Gp),
        Just(Method::Blend),
    ]
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    vec(finite(), 0..4)
}

fn law() -> impl Strategy<Value = wire::LawParams> {
    let all = (vec(finite(), 7), numbers());
    all.prop_map(|(n, slowdown)| wire::LawParams {
        fixed_s: n[0],
        crowding: n[1],
        per_sample_s: n[2],
        bend: n[3],
        sharpness: n[4],
        overlap: n[5],
        interference_exponent: n[6],
        slowdown,
    })
}

fn solo_part() -> impl Strategy<Value = wire::SoloPart> {
    let all = (batch(), finite(), finite(), option::of(finite()));
    all.prop_map(|(batch, share, weight, step_s)| wire::SoloPart {
        batch,
        share,
        weight,
        step_s,
    })
}

fn gp() -> impl Strategy<Value = wire::GpParams> {
    let lists = (numbers(), numbers(), numbers(), vec(any::<u32>(), 0..4));
    let rest = (
        finite(),
        finite(),
        option::of(any::<u32>()),
        matern(),
        vec(any::<u32>(), 0..4),
    );
    (lists, rest).prop_map(
        |(
            (inverse_length, weights, noise_factor, points),
            (signal, noise, own_features, matern, tasks),
        )| {
            wire::GpParams {
                inverse_length,
                signal,
                noise,
                own_features,
                matern,
                points,
                tasks,
                weights,
                noise_factor,
            }
        },
    )
}

fn trees() -> impl Strategy<Value = wire::TreesParams> {
    let all = (vec(any::<u32>(), 0..4), numbers(), numbers());
    all.prop_map(|(feature, threshold, value)| wire::TreesParams {
        feature,
        threshold,
        value,
    })
}

fn matern() -> impl Strategy<Value = wire::Matern> {
    prop_oneof![
        Just(wire::Matern::FiveHalves),
        Just(wire::Matern::ThreeHalves),
    ]
}

fn evidence() -> impl Strategy<Value = wire::Evidence> {
    prop_oneof![
        Just(wire::Evidence::Together),
        Just(wire::Evidence::Alone),
        Just(wire::Evidence::Nothing),
    ]
}

fn solo() -> impl Strategy<Value = Vec<wire::SoloStep>> {
    vec((batch(), finite()), 0..3).prop_map(|steps| {
        let step = |(batch, step_s)| wire::SoloStep { batch, step_s };
        steps.into_iter().map(step).collect()
    })
}

fn task() -> impl Strategy<Value = wire::TaskParams> {
    let parts = (option::of(gp()), option::of(trees()), option::of(trees()));
    let known = (evidence(), solo(), law(), vec(finite(), 3));
    let ranges = (
        option::of(finite()),
        option::of((batch(), batch())),
        option::of((share_percent(), share_percent())),
        vec(share_percent(), 0..3),
        vec(solo_part(), 0..3),
        (
            option::of(finite()),
            option::of(finite()),
            option::of(any::<u32>()),
        ),
    );
    (name(), known, parts, ranges).prop_map(
        |(id, (evidence, solo, law, n), (gp, trees, solo_trees), ranges)| wire::TaskParams {
            id,
            copy_of: ranges.5.2,
            evidence,
            solo,
            solo_slope_s: n[0],
            solo_parts: ranges.4,
            law,
            gp,
            trees,
            solo_trees,
            spread: n[1],
            interval_scale: n[2],
            far_interval_scale: ranges.0,
            part_spread: ranges.5.0,
            part_far_spread: ranges.5.1,
            error_percent: ranges.0,
            batch_range: ranges.1,
            share_range_percent: ranges.2,
            together_shares_percent: ranges.3,
        },
    )
}

fn kind_error() -> impl Strategy<Value = wire::KindError> {
    let kind = prop::sample::select(vec![
        wire::Kind::Within,
        wire::Kind::Share,
        wire::Kind::Batch,
        wire::Kind::Task,
        wire::Kind::Crowd,
    ]);
    let all = (kind, finite(), any::<u64>(), any::<u32>());
    all.prop_map(|(kind, error_percent, cases, parts)| wire::KindError {
        kind,
        error_percent,
        cases,
        parts,
    })
}

fn validation() -> impl Strategy<Value = wire::Validation> {
    let family = (method(), finite()).prop_map(|(method, total_error_percent)| wire::FamilyError {
        method,
        total_error_percent,
    });
    let numbers = vec(option::of(finite()), 5);
    let all = (
        any::<u32>(),
        numbers,
        vec(kind_error(), 0..3),
        vec(family, 0..3),
    );
    all.prop_map(|(folds, n, kinds, families)| wire::Validation {
        folds,
        total_error_percent: n[0],
        throughput_error_percent: n[1],
        level_error_percent: n[2],
        crowd_error_percent: n[3],
        coverage_90: n[4],
        kinds,
        families,
    })
}

fn point() -> impl Strategy<Value = wire::Point> {
    let all = (any::<u32>(), batch(), share_percent());
    all.prop_map(|(task, batch, share_percent)| wire::Point {
        task,
        batch,
        share_percent,
    })
}

fn unseen_use() -> impl Strategy<Value = wire::UnseenUse> {
    (vec(finite(), 3), any::<u32>(), option::of(finite())).prop_map(|(n, parts, error_percent)| {
        wire::UnseenUse {
            weight: n[0],
            factor: n[1],
            interval_scale: n[2],
            parts,
            error_percent,
        }
    })
}

fn unseen() -> impl Strategy<Value = wire::UnseenParams> {
    let uses = (option::of(unseen_use()), option::of(unseen_use()));
    let lists = (vec(vec(batch(), 0..3), 0..3), vec(any::<u32>(), 0..4));
    let parts = (vec(finite(), 5), vec(any::<u32>(), 0..4), vec(finite(), 2));
    let sums = option::of(
        parts.prop_map(|(inverse_length, points, n)| wire::SumParams {
            weight: n[0],
            mean: n[1],
            inverse_length,
            weights: vec![n[0]; points.len()],
            points,
        }),
    );
    let numbers = (finite(), finite(), option::of(finite()));
    (lists, gp(), numbers, uses, sums).prop_map(
        |((seen_batches, tasks), gp, (mean, known_weight, far_weight), (batch, task), sums)| {
            wire::UnseenParams {
                seen_batches,
                gp,
                tasks,
                mean,
                known_weight,
                far_weight,
                sums,
                batch,
                task,
            }
        },
    )
}

/// The parameters of a predictor: any numbers, as only the predictor checks them.
pub fn params() -> BoxedStrategy<wire::ModelParams> {
    let law = vec(finite(), 4).prop_map(|n| wire::WorkloadLaw {
        gamma0_s: n[0],
        gamma1_s: n[1],
        alpha: n[2],
        beta: n[3],
    });
    let crowds = vec(any::<u32>(), 0..3);
    let domain = (count(), any::<u32>(), crowds, finite()).prop_map(
        |(configurations, most_together, crowds, line_weight)| wire::Domain {
            configurations,
            most_together,
            crowds,
            line_weight,
        },
    );
    let points = vec(vec(point(), 0..3), 0..3);
    let learnt = (
        (any::<bool>(), option::of(law)),
        points,
        option::of(unseen()),
        domain,
    );
    (method(), vec(task(), 0..3), learnt, validation())
        .prop_map(
            |(method, tasks, ((anchored, workload_law), points, unseen, domain), validation)| {
                wire::ModelParams {
                    method,
                    anchored,
                    tasks,
                    workload_law,
                    points,
                    unseen,
                    domain,
                    validation,
                }
            },
        )
        .boxed()
}

fn measured(task: &wire::Task) -> wire::MeasuredTask {
    wire::MeasuredTask {
        id: task.id.clone(),
        batch: 48,
        share_percent: 66.66,
        samples_per_s: 12.5,
        stderr_samples_per_s: Some(0.25),
        gradient: None,
        startup_s: Some(5.0),
        run_s: Some(60.0),
        run_samples: Some(640),
    }
}

/// A model.
pub fn model() -> BoxedStrategy<wire::Model> {
    (workload(), fingerprint(), params(), provenance())
        .prop_map(|(workload, device, predictor, provenance)| wire::Model {
            schema: wire::Model::SCHEMA.to_owned(),
            measured: vec![wire::Corun {
                config: 3,
                tasks: workload.tasks.iter().map(measured).collect(),
            }],
            workload,
            device,
            predictor,
            aim: Some(Aim {
                objective: ObjectiveKind::Fairness,
                starvation_floor: Some(0.25),
            }),
            provenance,
        })
        .boxed()
}
