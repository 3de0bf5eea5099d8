use std::collections::BTreeSet;

use allocation::Problem;
use doc::{BatchPolicy, Documents, Frames, ObjectiveKind};
use predict::design::{Goal, fit_so_far};
use predict::{Dataset, FitOptions, fit};
use units::corun::Setting;
use units::{SamplesPerSec, Share, TotalShare};

use super::adaptive::STARTS;
use super::asked::Asked;
use super::*;
use crate::settings::Strategy;

#[path = "../../../../plan/alloc/tests/properties/brute.rs"]
mod brute;

fn workload(memory: &str) -> Workload {
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim"{memory}}},"tasks":[
        {{"id":"a","model":"vgg16","batch_sizes":[16,32],"memory":{{"fixed_bytes":10,"bytes_per_sample":1}}}},
        {{"id":"b","model":"alexnet","batch_sizes":[64],"memory":{{"fixed_bytes":10,"bytes_per_sample":1}}}},
        {{"id":"c","model":"resnet18","batch_sizes":[8,128],"memory":{{"fixed_bytes":10,"bytes_per_sample":1}}}}]}}"#
    );
    read(&text)
}

fn read(workload: &str) -> Workload {
    Documents::<_, Workload>::new(Frames::new(workload.as_bytes(), "test"))
        .next()
        .unwrap()
        .unwrap()
}

fn settings(strategy: Strategy) -> DesignSettings {
    DesignSettings {
        strategy,
        budget: Some(60),
        step: Share::from_percent(10.0).unwrap(),
        rv_min: TotalShare::from_hundredths(15_000),
        rv_max: TotalShare::from_hundredths(20_000),
        subsets: 0.3,
        tolerance: 0.0,
        batch: Some(BatchPolicy::Free),
        objective: Some(ObjectiveKind::Raw),
        floor: 0.0,
    }
}

fn conditions(drifts: bool) -> Conditions<'static> {
    Conditions {
        only: None,
        drifts,
        earlier: None,
        seed: 4,
    }
}

/// Rates of a synthetic device on which small shares are best.
fn rates(runs: &[Setting]) -> Vec<Rate> {
    let total: f64 = runs.iter().map(|r| r.share.fraction()).sum();
    runs.iter()
        .map(|run| Rate {
            throughput: SamplesPerSec::new(
                run.batch.as_f64() * run.share.fraction().sqrt() / (1.0 + total * total),
            )
            .unwrap(),
            stderr: None,
            gradient: None,
            launch: doc::Launch::default(),
        })
        .collect()
}

fn all(mut plan: Sequence) -> (Vec<Configuration>, StopReason) {
    let mut all = Vec::new();
    while let Some(runs) = plan.next_configuration().unwrap() {
        plan.observe(&runs, Some(&rates(&runs)));
        all.push(runs);
    }
    (all, plan.stopped())
}

#[test]
fn solo_runs_come_first_and_every_co_run_is_new_and_allowed() {
    for design in [Strategy::Random, Strategy::Adaptive] {
        let plan = Sequence::designed(&workload(""), &settings(design), conditions(false)).unwrap();
        assert_eq!(plan.length, 65);
        let (all, stopped) = all(plan);
        assert!(all[..5].iter().all(|runs| runs.len() == 1));
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        let (alone, together): (Vec<_>, Vec<_>) = all[5..].iter().partition(|r| r.len() == 1);
        assert_eq!((together.len(), stopped), (60, StopReason::Budget));
        assert_eq!(alone.is_empty(), design == Strategy::Random);
        assert!(alone.iter().all(|runs| runs[0].share < Share::FULL));
        let mut parts = 0;
        for runs in together {
            assert!(runs.windows(2).all(|w| w[0].task < w[1].task));
            let total: TotalShare = runs.iter().map(|r| r.share).sum();
            assert!(total.hundredths() <= 20_000);
            assert!(runs.len() < 3 || total.hundredths() >= 15_000);
            parts += usize::from(runs.len() == 2);
        }
        assert!((4..=30).contains(&parts), "{design:?} {parts}");
    }
}

#[test]
fn co_runs_have_the_batch_sizes_of_the_plan_that_they_serve() {
    let known = r#"{"schema":"mt.workload/1","device":{"kind":"sim"},"tasks":[
        {"id":"a","model":"vgg16","batch_sizes":[16,32],"samples":9000,"efficiency":{"noise_scale":5000}},
        {"id":"b","model":"alexnet","batch_sizes":[64,128],"samples":9000,"efficiency":{"noise_scale":5000}}]}"#;
    let (unknown, known) = (workload(""), read(known));
    let kept = |workload: &Workload, strategy, batch, objective| {
        let settings = DesignSettings {
            budget: Some(20),
            rv_min: TotalShare::ZERO,
            batch,
            objective,
            ..settings(strategy)
        };
        let (all, _) = all(Sequence::designed(workload, &settings, conditions(false)).unwrap());
        // In solo runs, each task runs at each of its sizes in any case.
        let sizes: usize = workload.tasks.iter().map(|t| t.batch_sizes.len()).sum();
        assert!(all[..sizes].iter().all(|runs| runs.len() == 1));
        let reference = |run: &Setting| run.batch == workload.tasks[run.task].reference();
        all[sizes..].iter().flatten().all(reference)
    };
    use BatchPolicy::{Free, Reference};
    let raw = Some(ObjectiveKind::Raw);
    assert!(kept(&unknown, Strategy::Adaptive, None, raw));
    assert!(kept(&unknown, Strategy::Random, Some(Reference), raw));
    assert!(!kept(&unknown, Strategy::Adaptive, Some(Free), raw));
    assert!(!kept(&unknown, Strategy::Random, None, raw));
    // The efficiency of larger batches is known: the plan accounts for it, or has another objective and does not.
    assert!(!kept(&known, Strategy::Adaptive, None, None));
    assert!(kept(&known, Strategy::Adaptive, None, raw));
}

#[test]
fn a_larger_budget_only_adds() {
    for design in [Strategy::Random, Strategy::Adaptive] {
        let of = |budget| {
            let settings = DesignSettings {
                budget: Some(budget),
                ..settings(design)
            };
            all(Sequence::designed(&workload(""), &settings, conditions(true)).unwrap()).0
        };
        let (few, many) = (of(10), of(20));
        assert_eq!(few[..], many[..few.len()], "{design:?}");
    }
}

#[test]
fn what_cannot_fit_is_not_drawn() {
    let small = workload(r#","memory_bytes":150"#);
    for design in [Strategy::Random, Strategy::Adaptive] {
        let (all, _) =
            all(Sequence::designed(&small, &settings(design), conditions(false)).unwrap());
        assert!(all.len() > 6);
        for runs in all.iter().filter(|runs| runs.len() > 1) {
            let need: u32 = runs.iter().map(|r| 10 + r.batch.get()).sum();
            assert!(need <= 150, "{runs:?}");
        }
    }
}

#[test]
fn a_space_that_is_used_up_ends_the_design() {
    let coarse = DesignSettings {
        step: Share::from_percent(50.0).unwrap(),
        subsets: 0.0,
        ..settings(Strategy::Random)
    };
    let (all, stopped) =
        all(Sequence::designed(&workload(""), &coarse, conditions(false)).unwrap());
    // All shares are 50 or one is 100: 4 choices of shares, 4 of batch sizes, 5 solo runs.
    assert_eq!((all.len(), stopped), (4 * 4 + 5, StopReason::Complete));
}

#[test]
fn an_adaptive_design_ends_where_nothing_more_is_to_be_gained() {
    let lax = DesignSettings {
        tolerance: 0.5,
        ..settings(Strategy::Adaptive)
    };
    let (all, stopped) = all(Sequence::designed(&workload(""), &lax, conditions(false)).unwrap());
    assert!(all.iter().filter(|runs| runs.len() > 1).count() < 60);
    assert_eq!(stopped, StopReason::Tolerance);
}

#[test]
fn configurations_that_fail_are_not_asked_for_again() {
    let mut plan = Sequence::designed(
        &workload(""),
        &settings(Strategy::Adaptive),
        conditions(false),
    )
    .unwrap();
    let mut seen = BTreeSet::new();
    while let Some(runs) = plan.next_configuration().unwrap() {
        let fails = runs.len() == 3 && runs[0].share > Share::from_hundredths(6_000);
        plan.observe(&runs, (!fails).then(|| rates(&runs)).as_deref());
        assert!(seen.insert(runs));
    }
    // The design ends early only if nothing more can be gained.
    let together = seen.iter().filter(|runs| runs.len() > 1).count();
    assert!(together == 60 || plan.stopped() == StopReason::Tolerance);
    assert!(seen.len() > 20);
}

#[test]
fn weights_and_volumes_of_the_workload_make_the_goal() {
    let mut workload = workload("");
    assert!(settings::goal(ObjectiveKind::Round, &workload).is_err());
    for task in &mut workload.tasks {
        task.samples = units::Samples::new(500).ok();
        task.weight = units::Weight::new(2.0).ok();
    }
    assert_eq!(
        settings::goal(ObjectiveKind::Round, &workload).unwrap(),
        Goal::Round(vec![500.0; 3])
    );
    assert_eq!(
        settings::goal(ObjectiveKind::Weighted, &workload).unwrap(),
        Goal::Weighted(vec![2.0; 3])
    );
}

#[test]
fn the_budget_of_a_device_that_takes_time_counts_everything() {
    for design in [Strategy::Random, Strategy::Adaptive, Strategy::Grid] {
        let of = |budget, workload: &Workload| {
            let settings = DesignSettings {
                budget: Some(budget),
                rv_min: TotalShare::ZERO,
                ..settings(design)
            };
            let plan = Sequence::designed(workload, &settings, conditions(true)).unwrap();
            let length = plan.length;
            let (all, _) = all(plan);
            assert_eq!(all.len() as u64, length, "{design:?} {budget}");
            all
        };
        let three = workload("");
        let few = of(3, &three);
        // Five solo runs of three tasks, and one co-run, whatever the budget.
        assert_eq!(few.len(), 6);
        assert_eq!(few.iter().filter(|c| c.len() > 1).count(), 1);
        let more = of(20, &three);
        assert_eq!(more.len(), 20);
        assert_eq!(few, more[..6]);
    }
    let alone = read(
        r#"{"schema":"mt.workload/1","tasks":[{"id":"a","model":"vgg16","batch_sizes":[16]}]}"#,
    );
    let settings = DesignSettings {
        rv_min: TotalShare::ZERO,
        ..settings(Strategy::Adaptive)
    };
    let (all, stopped) = all(Sequence::designed(&alone, &settings, conditions(true)).unwrap());
    let shares: BTreeSet<Share> = all.iter().map(|c| c[0].share).collect();
    assert_eq!((all.len(), shares.len()), (3, 3), "{all:?}");
    assert_eq!(stopped, StopReason::Complete);
}

#[test]
fn on_devices_that_drift_solo_runs_are_repeated_between_co_runs() {
    for design in [Strategy::Random, Strategy::Adaptive, Strategy::Grid] {
        let plan = |drifts| {
            Sequence::designed(&workload(""), &settings(design), conditions(drifts)).unwrap()
        };
        let length = plan(true).length;
        let (steady, _) = all(plan(false));
        let (drifting, _) = all(plan(true));
        let solos = |c: &[Configuration]| c.iter().filter(|runs| runs.len() == 1).count();
        let alone = solos(&steady) - 5;
        assert_eq!(
            alone > 0,
            design == Strategy::Adaptive,
            "{design:?} {alone}"
        );
        assert_eq!((length, drifting.len()), (60, 60), "{design:?}");
        let part = |runs: &&Configuration| runs.len() == 1 && runs[0].share < Share::FULL;
        let parts = drifting.iter().filter(part).count();
        assert!(
            parts >= 5,
            "each task alone at part shares, at its ends: {parts}"
        );
        let repeated: Vec<usize> = drifting[5..]
            .iter()
            .filter(|runs| runs.len() == 1 && runs[0].share == Share::FULL)
            .map(|runs| runs[0].task)
            .collect();
        // The repeat after the last co-run would exceed the budget.
        let coruns = drifting[..59].iter().filter(|runs| runs.len() > 1).count();
        assert_eq!(repeated.len(), coruns / COMPARED_EVERY, "{design:?}");
        let tasks: BTreeSet<usize> = repeated[..3].iter().copied().collect();
        assert_eq!(tasks.len(), 3, "in turn: {repeated:?}");
    }
}

fn nothing_known(workload: &Workload) -> Dataset {
    Dataset {
        tasks: TaskSpec::all(workload),
        samples: Vec::new(),
    }
}

/// At the end of a round, a task runs alone at its share. This is measured at the shares of the best co-run so far,
/// for the task that trains longest first.
#[test]
fn what_the_best_co_run_leaves_alone_is_measured() {
    let mut workload = workload("");
    for (task, samples) in workload.tasks.iter_mut().zip([100, 100_000, 100]) {
        task.samples = units::Samples::new(samples).ok();
    }
    let open = DesignSettings {
        budget: Some(16),
        subsets: 0.0,
        ..settings(Strategy::Adaptive)
    };
    let mut plan = Sequence::designed(&workload, &open, conditions(false)).unwrap();
    let mut best: Option<(f64, Configuration)> = None;
    let (mut coruns, mut alone) = (0, Vec::new());
    while let Some(runs) = plan.next_configuration().unwrap() {
        let rates = rates(&runs);
        let total: f64 = rates.iter().map(|r| r.throughput.get()).sum();
        if runs.len() > 1 {
            coruns += 1;
            if best.as_ref().is_none_or(|(most, _)| total > *most) {
                best = Some((total, runs.clone()));
            }
        } else if runs[0].share < Share::FULL {
            let (_, best) = best.as_ref().unwrap();
            assert!(best.contains(&runs[0]), "{runs:?} is not of {best:?}");
            alone.push(runs[0].task);
        }
        plan.observe(&runs, Some(&rates));
    }
    assert_eq!(coruns, 16);
    assert_eq!(alone[0], 1, "the longest first: {alone:?}");
    assert!(alone.len() <= coruns / PARTED_EVERY, "{alone:?}");
}

/// In every second turn, the solver's current choice is measured next, until it has been measured.
#[test]
fn every_second_co_run_is_the_plan_that_would_be_chosen_now() {
    let workload = workload("");
    let open = DesignSettings {
        budget: Some(18),
        rv_min: TotalShare::from_hundredths(0),
        rv_max: TotalShare::from_hundredths(30_000),
        subsets: 0.0,
        ..settings(Strategy::Adaptive)
    };
    let asked = Asked {
        workload: workload.clone(),
        objective: ObjectiveKind::Raw,
        limits: Limits {
            step: open.step,
            ..Limits::default()
        },
    };
    let mut plan = Sequence::designed(&workload, &open, conditions(false)).unwrap();
    let mut data = nothing_known(&workload);
    let (mut planned, mut known) = (0, 0);
    while let Some(runs) = plan.next_configuration().unwrap() {
        let coruns = data.samples.iter().filter(|s| s.active.len() > 1).count();
        if runs.len() > 1 && coruns >= STARTS && coruns.is_multiple_of(2) {
            let best = asked.by_model(&fit_so_far(&data).unwrap(), 4).remove(0);
            if data.samples.iter().any(|s| s.active == best) {
                known += 1;
            } else {
                assert_eq!(runs, best, "after {coruns} co-runs");
                planned += 1;
            }
        }
        let rates = rates(&runs);
        plan.observe(&runs, Some(&rates));
        data.samples.push(lesson(&runs, &rates));
    }
    // On such a simple device, the plan is soon known; it is computed again each time.
    assert!(
        planned >= 1 && known >= 1,
        "{planned} plans measured, {known} known"
    );
}

/// The plan between two measurements is the best by the model under the user's constraints, as shown by trying every
/// choice.
#[test]
fn the_plan_that_is_asked_for_is_the_best_by_the_model() {
    let small = workload(r#","memory_bytes":200"#);
    let mut data = nothing_known(&small);
    let spread = DesignSettings {
        budget: Some(16),
        rv_min: TotalShare::from_hundredths(0),
        rv_max: TotalShare::from_hundredths(30_000),
        ..settings(Strategy::Random)
    };
    let (measured, _) = all(Sequence::designed(&small, &spread, conditions(false)).unwrap());
    for runs in measured {
        data.samples.push(lesson(&runs, &rates(&runs)));
    }
    for (objective, floor) in [
        (ObjectiveKind::Raw, 0.0),
        (ObjectiveKind::Fairness, 0.0),
        (ObjectiveKind::Raw, 0.2),
    ] {
        let asked = Asked {
            workload: small.clone(),
            objective,
            limits: Limits {
                step: Share::from_percent(25.0).unwrap(),
                floor,
                memory: small.device.memory,
                ..Limits::default()
            },
        };
        let options = FitOptions {
            evaluations: 15,
            validate: false,
            trees_everywhere: true,
        };
        let model = fit(&data, doc::Method::Blend, &options).unwrap().predictor;
        let problem = Problem::of_workload(&model, &small, objective, asked.limits.clone());
        let truth = brute::brute_force(&model, &problem).map(|(value, _)| value);
        let found = asked
            .by_model(&fit_so_far(&data).unwrap(), 1)
            .first()
            .map(|plan| problem.worth(&model, plan));
        let (Some(truth), Some(found)) = (truth, found) else {
            assert_eq!(truth.is_some(), found.is_some(), "{objective:?} {floor}");
            continue;
        };
        assert!(
            found >= truth * 0.999 && found <= truth * (1.0 + 1e-9),
            "{objective:?} {floor}: {found} of {truth}"
        );
    }
}

/// For 40 tasks with 5 batch sizes, few random draws fit into memory, and no scheme at the largest sizes does.
#[test]
fn many_tasks_that_hardly_fit_are_measured_together() {
    let task = |i: usize| {
        format!(
            r#"{{"id":"t{i}","model":"vgg16","batch_sizes":[8,16,32,64,128],
            "memory":{{"fixed_bytes":100,"bytes_per_sample":1}}}}"#
        )
    };
    let tasks: Vec<String> = (0..40).map(task).collect();
    // All at the second smallest size need 4,640.
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim","memory_bytes":4700}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    let tight = read(&text);
    let open = DesignSettings {
        budget: Some(10),
        rv_min: TotalShare::from_hundredths(0),
        rv_max: TotalShare::from_hundredths(400_000),
        subsets: 0.0,
        ..settings(Strategy::Random)
    };
    // The adaptive design fits a model between two co-runs: here its first co-runs are enough.
    let space = Space::new(&tight, &open, None).unwrap();
    let everyone: Vec<usize> = (0..40).collect();
    let (drawn, _) = all(Sequence::designed(&tight, &open, conditions(false)).unwrap());
    let drawn = drawn.into_iter().filter(|runs| runs.len() > 1);
    let largest: Vec<units::Batch> = tight
        .tasks
        .iter()
        .map(|t| *t.batch_sizes.last().unwrap())
        .collect();
    let schemes = adaptive::schemes(&space, &everyone, &largest);
    let mut sizes = BTreeSet::new();
    assert_eq!(schemes.len(), 5);
    for runs in schemes.into_iter().chain(drawn) {
        let need: u32 = runs.iter().map(|r| 100 + r.batch.get()).sum();
        assert!(runs.len() == 40 && need <= 4_700, "{need} {runs:?}");
        assert!(
            need > 4_700 - 64,
            "no more is given up than has to be: {need}"
        );
        sizes.extend(runs.iter().map(|r| r.batch));
    }
    assert!(sizes.len() > 2, "{sizes:?}");
}

/// On two GPUs, no co-run has more tasks than one GPU may get, the parts of the plan are among the co-runs, and
/// every pair of tasks runs together.
#[test]
fn on_several_gpus_the_parts_of_divisions_are_measured() {
    let task = |i: usize| format!(r#"{{"id":"t{i}","model":"vgg16","batch_sizes":[16,64]}}"#);
    let tasks: Vec<String> = (0..6).map(task).collect();
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"sim","gpus":2}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    let two = read(&text);
    let open = |tolerance| DesignSettings {
        budget: Some(24),
        step: Share::from_percent(25.0).unwrap(),
        rv_min: TotalShare::from_hundredths(0),
        rv_max: TotalShare::from_hundredths(60_000),
        tolerance,
        ..settings(Strategy::Adaptive)
    };
    let sequence = Sequence::designed(&two, &open(0.0), conditions(false)).unwrap();
    let (measured, stopped) = all(sequence);
    assert_eq!(stopped, StopReason::Budget);
    let together: Vec<&Configuration> = measured.iter().filter(|runs| runs.len() > 1).collect();
    assert_eq!(together.len(), 24);
    assert!(together.iter().all(|runs| runs.len() <= 4), "{together:?}");
    assert!(
        together[..10].iter().all(|runs| runs.len() == 3),
        "even, and schemes first"
    );
    let mut met = BTreeSet::new();
    for runs in &together {
        let tasks = || runs.iter().map(|r| r.task);
        met.extend(tasks().flat_map(|a| tasks().map(move |b| (a, b))));
    }
    assert_eq!(met.len(), 36, "every two tasks");
    // The solver's choice from all measurements was measured, or is close to a measured one.
    let mut data = nothing_known(&two);
    for runs in &measured {
        data.samples.push(lesson(runs, &rates(runs)));
    }
    let asked = Asked {
        workload: two.clone(),
        objective: ObjectiveKind::Raw,
        limits: Limits {
            step: open(0.0).step,
            ..Limits::default()
        },
    };
    let plan = asked.by_model(&fit_so_far(&data).unwrap(), 4);
    let mut tasks: Vec<usize> = plan.iter().flatten().map(|r| r.task).collect();
    tasks.sort_unstable();
    assert_eq!(tasks, [0, 1, 2, 3, 4, 5], "{plan:?}");
    let sequence = Sequence::designed(&two, &open(0.01), conditions(false)).unwrap();
    let (fewer, stopped) = all(sequence);
    assert_eq!(fewer[..], measured[..fewer.len()]);
    assert!(stopped != StopReason::Tolerance || fewer.len() < measured.len());
}

/// If larger batches need more rounds, a design for progress measures them less often.
#[test]
fn a_design_for_progress_asks_less_for_sizes_that_cost_rounds() {
    let of = |noise_scale: u32| {
        let task = |id: &str, model: &str| {
            format!(
                r#"{{"id":"{id}","model":"{model}","batch_sizes":[16,32,64,128],"batch":32,"samples":5000,
                "rounds_to_target":5,"efficiency":{{"noise_scale":{noise_scale}}}}}"#
            )
        };
        let two = [task("a", "vgg16"), task("b", "resnet18")].join(",");
        let tasks =
            format!(r#"{{"schema":"mt.workload/1","device":{{"kind":"sim"}},"tasks":[{two}]}}"#);
        let open = DesignSettings {
            budget: Some(40),
            rv_min: TotalShare::ZERO,
            subsets: 0.0,
            objective: None,
            ..settings(Strategy::Adaptive)
        };
        let workload = read(&tasks.replace('\n', " "));
        let (all, _) = all(Sequence::designed(&workload, &open, conditions(false)).unwrap());
        let together: Vec<Configuration> = all.into_iter().filter(|c| c.len() == 2).collect();
        let schemes = together.iter().take(4);
        assert!(
            schemes.flatten().all(|s| s.batch.get() == 32),
            "{together:?}"
        );
        let chosen = together.iter().skip(STARTS).flatten();
        let large = chosen.clone().filter(|s| s.batch.get() >= 64).count();
        large as f64 / chosen.count() as f64
    };
    // A sample at 128 is worth a quarter of one at 32, or the same. Even if it is worth little, half of the co-runs
    // are at large sizes: after few co-runs, the model is uncertain about them, so their expected improvement is
    // large.
    let (few, many) = (of(1), of(1_000_000));
    assert!(few < 0.65 && many > 0.9, "{few} {many}");
}
