use doc::{EventPayload, PhaseKind, TaskSummary};
use units::{Seconds, TaskId};

use super::*;

fn shares(percent: &[u32]) -> Vec<Share> {
    let each = percent.iter().map(|p| Share::from_hundredths(100 * p));
    each.collect()
}

/// Two tasks that share a device in proportion to their shares; the first has twice the work.
fn seconds(at: &[Share]) -> Vec<f64> {
    let (a, b) = (at[0].fraction(), at[1].fraction());
    vec![
        100.0 * (0.5 + 0.5 * (a + b) / a),
        50.0 * (0.5 + 0.5 * (a + b) / b),
    ]
}

fn observed(at: &[Share]) -> Observed {
    Observed {
        shares: at.to_vec(),
        seconds: seconds(at),
        transfers: vec![0.0; at.len()],
    }
}

#[test]
fn rounds_that_learn_are_shorter_and_a_single_one_has_the_prior() {
    let mut learner = Learner::new(prior(2), 20);
    let (mut learnt, mut last) = (0.0, 0.0);
    for k in 0..20 {
        let choice = learner.choose();
        assert_eq!(choice.why == Why::Prior, k == 0);
        let round = observed(&choice.shares);
        last = round.round_s();
        learnt += last;
        learner.observe(round);
    }
    let full = observed(&prior(2)).round_s();
    assert!(learnt < 0.9 * 20.0 * full, "{learnt} of {}", 20.0 * full);
    assert!(last < 0.85 * full, "{last} of {full}");
    assert!(learner.saved_s() > 0.0);
    assert_eq!(Learner::new(prior(2), 1).choose().shares, prior(2));
}

#[test]
fn shares_that_may_have_been_unlucky_are_tried_again() {
    let mut again = 0;
    for phase in 0..4u32 {
        let mut learner = Learner::new(prior(2), 60);
        let mut tried: Vec<Vec<Share>> = Vec::new();
        for k in 0..40 {
            let choice = learner.choose();
            let mut round = observed(&choice.shares);
            for (i, seconds) in (0..).zip(&mut round.seconds) {
                // Up to 15 % of noise, without a pattern.
                *seconds *= 1.0 + 0.15 * f64::from(7 * k + 5 * i + phase).sin();
            }
            again += usize::from(choice.why == Why::Trial && tried.contains(&choice.shares));
            tried.push(choice.shares);
            learner.observe(round);
        }
    }
    assert!(again > 0);
}

#[test]
fn shares_under_which_all_end_together_are_later_by_the_noise() {
    let mut belief = Belief::new(2);
    belief.learn(Observed {
        shares: prior(2),
        seconds: vec![100.0, 100.0],
        transfers: vec![0.0; 2],
    });
    let (noise, _) = belief.noise_and_drift();
    let both = belief.longest([(100.0, 0.0), (100.0, 0.0)].into_iter());
    // The mean of the larger of two standard normal variables is 1/sqrt(pi).
    let expected = 100.0 * (1.0 + noise / std::f64::consts::PI.sqrt());
    assert!((both - expected).abs() < 1e-4, "{both} {expected}");
    let one = belief.longest([(100.0, 0.0), (30.0, 0.0)].into_iter());
    assert!((one - 100.0).abs() < 1e-9, "{one}");
}

#[test]
fn in_the_last_round_nothing_is_tried_that_is_not_expected_to_be_shorter() {
    let mut learner = Learner::new(prior(2), 3);
    for _ in 0..2 {
        learner.observe(observed(&prior(2)));
    }
    let choice = learner.choose();
    assert!(choice.expected_s <= choice.best_s, "{choice:?}");
}

#[test]
fn waits_for_the_link_belong_to_the_shares_that_had_them() {
    let mut learner = Learner::new(prior(2), 20);
    let unlike = shares(&[100, 90]);
    for (at, wait) in [(&prior(2), 0.0), (&unlike, 30.0)] {
        learner.observe(Observed {
            transfers: vec![wait; 2],
            ..observed(at)
        });
    }
    // The loss is about the wait of 30 s; the shares themselves changed the rest.
    assert!(learner.saved_s() < -20.0, "{}", learner.saved_s());
}

#[test]
fn what_is_known_of_earlier_rounds_is_used_at_once() {
    let better = shares(&[100, 30]);
    let mut learner = Learner::new(prior(2), 1);
    for at in [&prior(2), &better] {
        learner.remember(observed(at));
    }
    let choice = learner.choose();
    assert!(
        choice.expected_s.unwrap() < seconds(&prior(2))[0],
        "{choice:?}"
    );
}

#[test]
fn a_round_teaches_only_if_every_task_finished_at_its_first_try() {
    let id = |name: &str| TaskId::new(name).unwrap();
    let phase = |name: &str, phase, start, end| EventPayload::Phase {
        round: 0,
        task: id(name),
        phase,
        start: Seconds::new(start).unwrap(),
        end: Seconds::new(end).unwrap(),
        reason: None,
    };
    let round = |restarts| EventPayload::Round {
        round: 0,
        ok: true,
        makespan: Seconds::new(9.0).unwrap(),
        planned_makespan: None,
        learning: None,
        tasks: ["a", "b"]
            .map(|name| TaskSummary {
                share: Some(Share::FULL),
                restarts,
                ..TaskSummary::new(id(name))
            })
            .into(),
    };
    let mut lessons = Lessons::new(vec![id("a"), id("b")]);
    for restarts in [1, 0] {
        let events = [
            phase("a", PhaseKind::Download, 0.0, 1.0),
            phase("a", PhaseKind::Compute, 1.0, 6.0),
            phase("b", PhaseKind::Compute, 0.0, 4.0),
            phase("a", PhaseKind::Upload, 7.0, 9.0),
        ];
        for event in &events {
            assert_eq!(lessons.hear(event), None);
        }
        let learnt = lessons.hear(&round(restarts));
        if restarts > 0 {
            assert_eq!(learnt, None);
            continue;
        }
        let learnt = learnt.unwrap();
        assert_eq!(learnt.seconds, [5.0, 4.0]);
        assert_eq!(learnt.transfers, [4.0, 0.0]);
    }
    // No phase of this round was heard.
    assert_eq!(lessons.hear(&round(0)), None);
}
