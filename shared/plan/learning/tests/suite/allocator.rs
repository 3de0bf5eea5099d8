//! Decisions from events.

use doc::{Allocation, TrainingEvent, TrainingNews};
use learning::{Policy, Refused};
use proptest::prelude::*;

use crate::played::{Length, Machine, PAUSE, allocator, arrival, arrive, at, id, progress, step_s};

/// On four or more GPUs that speed up well.
fn play(
    policy: Policy,
    gpus: u32,
    lengths: &[Length],
    declared: bool,
) -> (Vec<f64>, Vec<Allocation>) {
    Machine::quiet(gpus, &|_, g, _| step_s(g)).play(policy, lengths, declared)
}

const TWO: [(&str, f64, u64); 2] = [("old", 0.0, 2000), ("young", 300.0, 2000)];

#[test]
fn ours_gives_the_older_more_and_beats_equal_shares() {
    let sum = |policy| play(policy, 4, &TWO, true).0.iter().sum::<f64>();
    let (ours, equal, paper) = (sum(Policy::Ours), sum(Policy::Equal), sum(Policy::Paper));
    println!("sum of completions: ours {ours:.0}, paper {paper:.0}, equal {equal:.0}");
    assert!(
        ours < equal && ours <= paper + PAUSE,
        "{ours} {equal} {paper}"
    );
    let (_, decisions) = play(Policy::Ours, 4, &TWO, true);
    assert!(
        decisions
            .iter()
            .any(|d| d.trainings.get(&id("old")).is_some_and(|a| a.gpus > 2))
    );
}

#[test]
fn the_paper_s_policy_gives_three_of_four_to_the_older() {
    let (_, decisions) = play(Policy::Paper, 4, &TWO, false);
    let split = |d: &Allocation| {
        (
            d.trainings.get(&id("old")).map(|a| a.gpus),
            d.trainings.get(&id("young")).map(|a| a.gpus),
        )
    };
    let splits: Vec<_> = decisions.iter().map(split).collect();
    assert_eq!(
        splits,
        [
            (Some(4), None),
            (Some(2), Some(2)),
            (Some(3), Some(1)),
            (None, Some(4))
        ]
    );
    let batches = &decisions[2].trainings[&id("old")].batches;
    assert_eq!(
        batches.iter().map(|b| b.get()).collect::<Vec<_>>(),
        [171, 171, 170]
    );
}

/// If a training's processes do not start, the launcher returns it to the previous number of GPUs.
#[test]
fn a_number_of_gpus_with_which_a_training_could_not_go_on_is_not_tried_again() {
    let mut allocator = allocator(Policy::Ours, 4);
    let mut take = |event| allocator.take(&event).unwrap();
    let known = |name| {
        let mut news = arrival(name);
        news.total_steps = Some(2000);
        news.steps_per_s = (1..=4).map(|g| (g, 1.0 / step_s(g))).collect();
        news
    };
    let gpus = |d: &Allocation, name| d.trainings[&id(name)].gpus;
    take(arrive(0.0, known("old"))).unwrap();
    take(at(0.1, TrainingNews::Ack { seq: 1 }));
    take(progress(250.0, "old", 500, 2, Some(1.0)));
    let decision = take(arrive(300.0, known("young"))).unwrap();
    assert_eq!((gpus(&decision, "old"), gpus(&decision, "young")), (3, 1));
    take(at(300.1, TrainingNews::Ack { seq: 2 }));
    let (task, step) = (id("old"), Some(520));
    take(at(301.0, TrainingNews::Parked { task, step }));
    // With 4 and none both would pause, for less than the idle GPU gains beside the other.
    let decision = take(progress(303.0, "old", 521, 2, Some(1.0))).unwrap();
    assert_eq!((gpus(&decision, "old"), gpus(&decision, "young")), (2, 2));
}

#[test]
fn decisions_are_numbered_and_the_survivor_gets_all() {
    for policy in [
        Policy::Ours,
        Policy::Paper,
        Policy::Equal,
        Policy::Srpt,
        Policy::Optimus,
        Policy::Hesrpt,
    ] {
        let (_, decisions) = play(policy, 4, &TWO, true);
        for (n, d) in decisions.iter().enumerate() {
            assert_eq!(d.seq, n as u64 + 1);
            assert!(d.trainings.values().map(|a| a.gpus).sum::<u32>() <= 4);
        }
        let runs = |d: &&Allocation| d.trainings.values().any(|a| a.gpus > 0);
        let last = decisions.iter().rev().find(runs).unwrap();
        let given: Vec<u32> = last.trainings.values().map(|a| a.gpus).collect();
        assert_eq!(given.iter().sum::<u32>(), 4, "{policy:?}: {given:?}");
        assert!(given.contains(&4), "{policy:?}: {given:?}");
    }
}

#[test]
fn few_reconfigurations_and_never_much_worse_than_equal_shares() {
    for lengths in [
        [("a", 0.0, 1000), ("b", 10.0, 1010)],
        [("a", 0.0, 4000), ("b", 50.0, 300)],
    ] {
        let (ours, decisions) = play(Policy::Ours, 4, &lengths, true);
        let (equal, _) = play(Policy::Equal, 4, &lengths, true);
        let (ours, equal): (f64, f64) = (ours.iter().sum(), equal.iter().sum());
        assert!(ours <= equal + 2.0 * PAUSE, "{ours} against {equal}");
        assert!(decisions.len() <= 8, "{} decisions", decisions.len());
    }
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let mut a = allocator(Policy::Ours, 4);
    let _ = a.take(&arrive(0.0, arrival("a"))).unwrap();
    assert!(matches!(
        a.take(&arrive(0.0, arrival("a"))),
        Err(Refused::Twice(_))
    ));
    assert!(matches!(
        a.take(&progress(1.0, "b", 1, 1, None)),
        Err(Refused::Unknown(_))
    ));
    assert!(matches!(
        a.take(&at(1.0, TrainingNews::Ack { seq: 9 })),
        Err(Refused::NeverMade(9, 1))
    ));
    assert!(matches!(
        a.take(&progress(1.0, "a", 1, u32::MAX, None)),
        Err(Refused::MoreThanThereAre { .. })
    ));
    let mut large = arrival("c");
    large.min_gpus = Some(5);
    assert!(matches!(
        a.take(&arrive(1.0, large)),
        Err(Refused::TooLarge { .. })
    ));
    for i in 0..63 {
        a.take(&arrive(1.0, arrival(&format!("t{i}")))).unwrap();
    }
    assert!(matches!(
        a.take(&arrive(1.0, arrival("more"))),
        Err(Refused::TooMany(_))
    ));
    a.take(&at(2.0, TrainingNews::Ack { seq: 1 })).unwrap();
    assert_eq!(a.acknowledged(), 1);
}

#[test]
fn a_reached_target_frees_the_gpus() {
    let mut a = allocator(Policy::Ours, 4);
    let mut first = arrival("a");
    first.target_loss = Some(0.5);
    a.take(&arrive(0.0, first)).unwrap();
    a.take(&arrive(0.0, arrival("b"))).unwrap();
    let mut last = None;
    for k in 1..=30 {
        let loss = if k < 15 { 1.0 } else { 0.4 };
        last = a
            .take(&progress(f64::from(k), "a", k as u64, 2, Some(loss)))
            .unwrap()
            .or(last);
    }
    let decision = last.unwrap();
    assert!(decision.trainings[&id("a")].reached);
    assert_eq!(
        (
            decision.trainings[&id("a")].gpus,
            decision.trainings[&id("b")].gpus
        ),
        (0, 4)
    );
}

fn any_event() -> impl Strategy<Value = TrainingEvent> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    let loss = prop::option::of(prop_oneof![
        Just(0.0),
        Just(-1.0),
        Just(1e300),
        0.1..10.0f64
    ]);
    let what = prop_oneof![
        (
            name.clone(),
            1u32..6,
            prop::option::of(0.0..2.0f64),
            prop::option::of(1u64..500)
        )
            .prop_map(|(n, g, target_loss, total_steps)| {
                let mut a = arrival(n);
                (a.min_gpus, a.target_loss, a.total_steps) = (Some(g), target_loss, total_steps);
                TrainingNews::Arrive(Box::new(a))
            }),
        (name.clone(), any::<u64>(), 1u32..9, loss.clone()).prop_map(|(n, step, gpus, loss)| {
            TrainingNews::Progress {
                task: id(n),
                step,
                gpus,
                loss,
                batch: None,
                gradient: None,
            }
        }),
        (name.clone(), 0u64..400, 1u32..5, loss).prop_map(|(n, step, gpus, loss)| {
            TrainingNews::Progress {
                task: id(n),
                step,
                gpus,
                loss,
                batch: None,
                gradient: None,
            }
        }),
        name.clone().prop_map(|n| TrainingNews::Parked {
            task: id(n),
            step: None
        }),
        name.clone()
            .prop_map(|n| TrainingNews::Done { task: id(n) }),
        name.prop_map(|n| TrainingNews::Failed {
            task: id(n),
            reason: None
        }),
        any::<u64>().prop_map(|seq| TrainingNews::Ack { seq }),
        (0u32..7).prop_map(|gpu| TrainingNews::Lost { gpu }),
        (0u32..7).prop_map(|gpu| TrainingNews::Found { gpu }),
    ];
    (0.0..1e6f64, what).prop_map(|(time, what)| at(time, what))
}

#[test]
fn a_lost_gpu_is_taken_from_somebody_and_a_found_one_is_given_out() {
    for policy in [Policy::Ours, Policy::Paper, Policy::Equal] {
        let mut a = allocator(policy, 4);
        let gpus = |d: &Option<Allocation>| -> (u32, u32) {
            let d = d.as_ref().expect("a decision");
            (d.total_gpus, d.trainings.values().map(|a| a.gpus).sum())
        };
        a.take(&arrive(0.0, arrival("a"))).unwrap();
        a.take(&arrive(0.0, arrival("b"))).unwrap();
        let lost = |gpu| TrainingNews::Lost { gpu };
        assert_eq!(gpus(&a.take(&at(1.0, lost(2))).unwrap()), (3, 3));
        // Reporting it twice loses it once.
        assert_eq!(a.take(&at(2.0, lost(2))).unwrap(), None);
        for (gpu, left) in [(0, 2), (1, 1), (3, 0)] {
            assert_eq!(gpus(&a.take(&at(3.0, lost(gpu))).unwrap()), (left, left));
        }
        let found = |gpu| TrainingNews::Found { gpu };
        assert_eq!(gpus(&a.take(&at(4.0, found(2))).unwrap()), (1, 1));
        assert_eq!(gpus(&a.take(&at(5.0, found(0))).unwrap()), (2, 2));
        let refused = a.take(&at(6.0, lost(4))).unwrap_err();
        assert_eq!(refused, Refused::UnknownGpu { gpu: 4, has: 4 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_sequence_of_events_gives_a_decision_that_cannot_be(
        events in prop::collection::vec(any_event(), 1..200),
        policy in prop::sample::select(vec![Policy::Ours, Policy::Paper, Policy::Srpt, Policy::Optimus]),
    ) {
        let mut allocator = allocator(policy, 5);
        let mut seq = 0;
        for event in &events {
            if let Ok(Some(decision)) = allocator.take(event) {
                seq += 1;
                prop_assert_eq!(decision.seq, seq);
                let given: u32 = decision.trainings.values().map(|a| a.gpus).sum();
                prop_assert!(given <= decision.total_gpus);
                let mut line = Vec::new();
                doc::write_line(&mut line, &decision).unwrap();
                let frames = doc::Frames::new(&line[..], "decision");
                let read: Vec<_> = doc::Documents::<_, Allocation>::new(frames).collect();
                prop_assert!(matches!(&read[..], [Ok(back)] if *back == decision), "{read:?}");
            }
        }
    }
}
