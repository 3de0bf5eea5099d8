//! Plans.

use std::collections::BTreeMap;

use doc::wire::{self, Wire};
use doc::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

fn rate_rows(names: &[String], rates: &[f64]) -> Vec<wire::RateRow> {
    let single = |name: &String, &rate: &f64| wire::RateRow {
        active: vec![name.clone()],
        samples_per_s: BTreeMap::from([(name.clone(), rate)]),
    };
    let mut rows: Vec<_> = names.iter().zip(rates).map(|(n, r)| single(n, r)).collect();
    if names.len() > 1 {
        rows.push(wire::RateRow {
            active: names.to_vec(),
            samples_per_s: names.iter().cloned().zip(rates.iter().copied()).collect(),
        });
    }
    rows
}

fn points() -> impl Strategy<Value = Vec<wire::ParetoPoint>> {
    let point = (finite(), finite(), finite(), finite(), choices()).prop_map(
        |(objective, mismatch, total, fairness, tasks)| wire::ParetoPoint {
            objective,
            mismatch,
            total_samples_per_s: total,
            fairness,
            tasks,
        },
    );
    vec(point, 0..3)
}

pub fn search() -> impl Strategy<Value = Search> {
    (any::<u64>(), option::of(finite()), option::of(finite())).prop_map(
        |(points, bound, seconds)| Search {
            points,
            proof: Proof::Bounded,
            bound,
            seconds,
        },
    )
}

/// Fills in the results of a search.
fn decorate(
    mut plan: wire::Plan,
    numbers: &[f64],
    fronts: (Vec<wire::ParetoPoint>, Vec<wire::ParetoPoint>),
    search: Search,
) -> wire::Plan {
    let n = |i: usize| numbers[i];
    for task in &mut plan.tasks {
        let rate = task.solo_samples_per_s.get_or_insert(n(1).abs());
        let throughput = wire::Estimate {
            samples_per_s: *rate,
            low_samples_per_s: 0.0,
            high_samples_per_s: n(2).abs(),
        };
        task.throughput.get_or_insert(throughput);
        task.batch.get_or_insert(48);
        task.share_percent.get_or_insert(0.01);
    }
    plan.rv_percent.get_or_insert(0.02);
    let first = plan.tasks[0].id.clone();
    plan.objective = Some(wire::Objective {
        kind: ObjectiveKind::MaxMin,
        value: n(0),
    });
    plan.constraints = Some(wire::Constraints {
        share_step_percent: 12.5,
        rv_percent: plan.rv_percent,
        starvation_floor: Some(n(3).abs().min(1.0)),
        memory_bytes: Some(17),
        batch: BatchPolicy::Reference,
        mismatch: Some(n(4)),
        balance: Balance::Time,
        solo: SoloRate::Best,
    });
    plan.mismatch = Some(n(5));
    plan.prediction = Some(wire::PredictionError {
        kind: wire::Kind::Share,
        error_percent: Some(n(4).abs()),
        cases: 42,
        parts: 2,
    });
    plan.unconstrained_objective = Some(n(6));
    plan.baselines.push(wire::Baseline {
        name: Scheme::Sharing,
        total_samples_per_s: n(7),
        fairness: n(8),
        objective: n(9),
        feasible: true,
        tasks: Vec::new(),
    });
    plan.verdict = Some(wire::Verdict {
        share: true,
        work: WorkKind::Mixture,
        together_s: 1.0,
        together_low_s: 0.5,
        together_high_s: None,
        one_after_another_s: n(7).abs(),
        best_static: Some(wire::StaticScheme {
            name: Scheme::Moderate,
            seconds: n(8).abs(),
        }),
        tasks: vec![wire::WorkAlone {
            id: first.clone(),
            samples: n(9).abs() + 0.25,
            batch: 64,
            solo_samples_per_s: 12.5,
        }],
    });
    plan.target = Some(wire::Target {
        share: true,
        together_s: 1.0,
        together_low_s: 0.5,
        together_high_s: Some(n(7).abs()),
        one_after_another_s: n(8).abs(),
        gain_interval: Some([0.5, n(7).abs() + 0.5]),
        fastest_samples: Some(wire::FastestSamples {
            seconds: n(9).abs(),
            tasks: Vec::new(),
        }),
        tasks: vec![wire::TaskTarget {
            id: first.clone(),
            efficiency: n(9).abs().min(1.0) + 0.25,
            rounds: 4.5,
            seconds: 2.0,
            alone_batch: 16,
        }],
    });
    plan.explanation.push(wire::Marginal {
        id: first.clone(),
        share_percent: 35.0,
        objective_change: n(11),
        samples_per_s_change: BTreeMap::from([(first.clone(), n(12))]),
    });
    plan.gpus.push(wire::GpuPlan {
        gpu: 0,
        tasks: vec![first],
        rv_percent: 135.5,
        total_samples_per_s: n(14),
        fairness: n(15),
        objective: n(16),
    });
    let candidate = |config: Option<u64>, objective: f64| wire::Candidate {
        config,
        objective,
        low_objective: Some(n(10)),
        tasks: Vec::new(),
    };
    plan.candidates = Some(wire::Candidates {
        chosen: wire::Chosen::Measured,
        measured: candidate(Some(7), n(0)),
        predicted: (n(1) > 0.0).then(|| wire::Candidate {
            low_objective: (n(2) > 0.0).then(|| n(10)),
            ..candidate(None, n(1))
        }),
    });
    (plan.pareto, plan.alternatives) = fronts;
    plan.search = Some(search);
    plan
}

pub fn plan_task() -> BoxedStrategy<wire::PlanTask> {
    let estimate = (positive(), positive(), positive()).prop_map(|(a, b, c)| wire::Estimate {
        samples_per_s: a,
        low_samples_per_s: b,
        high_samples_per_s: c,
    });
    let run = (
        option::of(batch()),
        option::of(share_percent()),
        option::of(0..8_u32),
    );
    let round = (option::of(count()), option::of(update_bytes()));
    (run, round, option::of(estimate), option::of(positive()))
        .prop_map(
            |((batch, share_percent, gpu), (samples, update_bytes), throughput, solo)| {
                wire::PlanTask {
                    id: String::new(),
                    batch,
                    share_percent,
                    gpu,
                    samples,
                    load_samples: samples,
                    update_bytes,
                    throughput,
                    solo_samples_per_s: solo,
                }
            },
        )
        .boxed()
}

/// A plan with a table of rates, or a workload, or neither; found by a search, or hand-written.
pub fn plan() -> BoxedStrategy<wire::Plan> {
    let parts = names().prop_flat_map(|names| {
        let n = names.len();
        let carried = option::of(workload_of(names.clone()));
        (
            Just(names),
            vec(plan_task(), n),
            vec(positive(), n),
            carried,
        )
    });
    let head = (
        option::of(text()),
        option::of(link()),
        any::<bool>(),
        provenance(),
    );
    let extra = (
        vec(finite(), 17),
        (points(), points()),
        option::of(search()),
        option::of(Just(66.67)),
    );
    (parts, head, extra)
        .prop_map(|((names, mut tasks, rates, workload), head, extra)| {
            for (task, name) in tasks.iter_mut().zip(&names) {
                task.id.clone_from(name);
            }
            let plan = wire::Plan {
                schema: wire::Plan::SCHEMA.to_owned(),
                id: head.0,
                link: head.1,
                tasks,
                rates: if head.2 {
                    rate_rows(&names, &rates)
                } else {
                    Vec::new()
                },
                rv_percent: extra.3.map(|each| f64::from(names.len() as u32) * each),
                workload,
                provenance: head.3,
                ..wire::Plan::default()
            };
            match extra.2 {
                Some(search) => decorate(plan, &extra.0, extra.1, search),
                None => plan,
            }
        })
        .boxed()
}

/// Reasons why there is no plan.
pub fn infeasible_plan() -> impl Strategy<Value = wire::Plan> {
    let kinds = prop::sample::select(vec![
        ConstraintKind::StarvationFloor,
        ConstraintKind::Mismatch,
        ConstraintKind::Memory,
        ConstraintKind::Rv,
        ConstraintKind::Batch,
        ConstraintKind::Domain,
    ]);
    let reason =
        (kinds, finite(), finite(), text()).prop_map(|(constraint, limit, best, advice)| {
            Infeasibility {
                constraint,
                limit,
                best,
                advice,
            }
        });
    (vec(reason, 1..4), option::of(search())).prop_map(|(infeasible, search)| wire::Plan {
        schema: wire::Plan::SCHEMA.to_owned(),
        infeasible,
        search,
        ..wire::Plan::default()
    })
}
