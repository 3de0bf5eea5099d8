//! Where jobs start on several devices, and what becomes of them when memory or a device fails.

use std::collections::BTreeMap;

use queue::book::{Book, Demand, Entry, Id, JobEnd, Record};
use queue::devices::{Device, Sight, Spot, Stranger};
use queue::learnt::Learnt;
use queue::policy::{Decision, Fault, Gone, Limits, Policy};

use crate::made::{group, job};

const GB: u64 = 1_000_000_000;

fn book(demands: &[Demand]) -> Book {
    let mut book = Book::default();
    for demand in demands {
        add(&mut book, demand.clone(), "t", 0.0);
    }
    book
}

fn add(book: &mut Book, demand: Demand, template: &str, at_s: f64) {
    let id = book.next_ids(1)[0];
    let (group, jobs) = (group(&id.to_string(), demand), vec![job(id, template)]);
    book.apply(&Record::Added { group, jobs, at_s })
        .expect("it contradicts nothing");
}

/// For a job that may use one card only.
fn on(card: &str) -> Demand {
    Demand {
        only: Some(vec![card.to_owned()]),
        ..Demand::default()
    }
}

/// A card of 24 GB and one of 80 GB.
fn policy() -> Policy {
    knowing(&BTreeMap::new())
}

fn knowing(known: &BTreeMap<String, BTreeMap<String, Learnt>>) -> Policy {
    let card = |id: &str, gb: u64| Device {
        id: id.to_owned(),
        kind: format!("card of {gb} GB"),
        total: gb * GB,
        clients: 48,
        cores: None,
    };
    let limits = Limits {
        most: 100,
        memory: None,
    };
    let devices = vec![card("GPU-a", 24), card("GPU-b", 80)];
    Policy::new(devices, limits, known)
}

/// A number of jobs at once that is no longer explored.
fn settled(level: usize) -> Learnt {
    Learnt {
        level,
        step: 0,
        ..Learnt::default()
    }
}

/// Carries out what is decided; returns where each job starts.
fn run(policy: &mut Policy, book: &mut Book, now: f64) -> Vec<(u64, Vec<usize>)> {
    let mut all = Vec::new();
    for decision in policy.decide(book, now) {
        let Decision::Start(id, spot) = decision else {
            panic!("{decision:?}");
        };
        book.apply(&Record::Started {
            id,
            at_s: now,
            placed: None,
        })
        .expect("it contradicts nothing");
        policy.started(&book.entries[&id], &spot, now);
        all.push((id.0, spot.devices));
    }
    all
}

fn sees(policy: &mut Policy, free: [u64; 2], used: &[(usize, u64, u64)], now: f64) {
    for (at, free) in free.into_iter().enumerate() {
        let own = used.iter().filter(|(card, ..)| *card == at);
        let sight = Sight {
            free: free * GB,
            used: own.map(|(_, id, gb)| (Id(*id), gb * GB)).collect(),
            ..Sight::default()
        };
        policy.sees(at, sight, now);
    }
}

fn exits(policy: &mut Policy, book: &mut Book, id: u64, gone: Gone) -> Entry {
    let entry = book.entries[&Id(id)].clone();
    let record = policy.exited(book, &entry, gone, 50.0);
    book.apply(&record).expect("it contradicts nothing");
    book.entries[&Id(id)].clone()
}

fn failed() -> Gone {
    Gone::from(JobEnd::Failed(1))
}

#[test]
fn whole_devices_are_given_to_those_that_ask_and_shared_with_nobody() {
    let whole = Demand {
        gpus: Some(2),
        ..Demand::default()
    };
    let (mut policy, mut book) = (policy(), book(&[whole, Demand::default()]));
    assert_eq!(run(&mut policy, &mut book, 0.0), [(1, vec![0, 1])]);
    exits(&mut policy, &mut book, 1, JobEnd::Done.into());
    assert_eq!(run(&mut policy, &mut book, 51.0).len(), 1);
}

#[test]
fn what_a_job_held_is_free_as_soon_as_it_has_gone() {
    let half = Demand {
        memory: Some(20 * GB),
        ..on("GPU-a")
    };
    let (mut policy, mut book) = (policy(), book(&[half.clone(), half]));
    assert_eq!(run(&mut policy, &mut book, 0.0), [(1, vec![0])]);
    sees(&mut policy, [4, 80], &[(0, 1, 20)], 10.0);
    assert_eq!(run(&mut policy, &mut book, 10.0), []);
    exits(&mut policy, &mut book, 1, JobEnd::Done.into());
    assert_eq!(run(&mut policy, &mut book, 50.0), [(2, vec![0])]);
}

#[test]
fn what_a_job_held_is_free_even_if_it_ran_out_of_memory() {
    let half = Demand {
        memory: Some(20 * GB),
        ..on("GPU-a")
    };
    let (mut policy, mut book) = (policy(), book(&[half.clone(), half]));
    assert_eq!(run(&mut policy, &mut book, 0.0), [(1, vec![0])]);
    let sight = Sight {
        free: 3 * GB,
        strangers: vec![Stranger::default()],
        used: BTreeMap::from([(Id(1), 20 * GB)]),
        lost: None,
    };
    policy.sees(0, sight, 10.0);
    assert_eq!(run(&mut policy, &mut book, 10.0), []);
    let short = Gone {
        out_of_memory: true,
        ..failed()
    };
    exits(&mut policy, &mut book, 1, short);
    let why = policy.why(&book, Id(2));
    assert!(why.contains("23.0 GB free"), "{why}");
}

/// As in a container: NVML names no process that is known there.
#[test]
fn jobs_of_whose_memory_nothing_is_seen_do_not_wait_for_each_other() {
    let only = on("GPU-b");
    let (mut policy, mut book) = (policy(), book(&[only.clone(), only]));
    sees(&mut policy, [24, 80], &[], 0.0);
    assert_eq!(run(&mut policy, &mut book, 0.0), [(1, vec![1])]);
    policy.progress(Id(1), 1.0, 1.0, None);
    sees(&mut policy, [24, 70], &[], 1.5);
    assert_eq!(run(&mut policy, &mut book, 2.0), []);
    sees(&mut policy, [24, 70], &[], 5.0);
    assert_eq!(run(&mut policy, &mut book, 5.0), [(2, vec![1])]);
}

/// It imports its framework for 20 s, and uses no memory until then.
#[test]
fn a_start_up_without_memory_is_not_what_a_job_needs() {
    let only = on("GPU-b");
    let (mut policy, mut book) = (policy(), book(&[only.clone(), only]));
    for now in 0..20 {
        let now = f64::from(now);
        sees(&mut policy, [24, 80], &[], now);
        let started = run(&mut policy, &mut book, now).len();
        assert_eq!(started, usize::from(now < 1.0), "at {now}");
    }
}

#[test]
fn a_job_keeps_to_the_devices_that_it_may_use_and_hears_that_they_are_lost() {
    let only = on("GPU-b");
    let (mut policy, mut book) = (policy(), book(&[only.clone(), only]));
    assert_eq!(run(&mut policy, &mut book, 0.0)[0], (1, vec![1]));
    let lost = Sight {
        lost: Some("it has fallen off the bus".to_owned()),
        ..Sight::default()
    };
    policy.sees(1, lost, 1.0);
    for id in [1, 2]
        .into_iter()
        .filter(|id| book.entries[&Id(*id)].is_running())
        .collect::<Vec<_>>()
    {
        let gone = Gone {
            fault: Fault::Foreign,
            ..failed()
        };
        let entry = exits(&mut policy, &mut book, id, gone);
        assert!(!entry.is_ended() && !entry.alone, "{entry:?}");
    }
    assert!(run(&mut policy, &mut book, 51.0).is_empty());
    assert_eq!(
        policy.why(&book, Id(1)),
        "gpu1 cannot be used: it has fallen off the bus"
    );
}

#[test]
fn a_new_template_runs_alone_until_its_memory_is_known_then_as_many_as_fit() {
    let (mut policy, mut book) = (policy(), book(&vec![Demand::default(); 12]));
    sees(&mut policy, [24, 80], &[], 0.0);
    assert_eq!(
        run(&mut policy, &mut book, 0.0),
        [(1, vec![0]), (2, vec![1])]
    );
    for second in 1..20 {
        let now = f64::from(second);
        policy.progress(Id(1), now, now, None);
        policy.progress(Id(2), now, now, None);
        sees(&mut policy, [14, 70], &[(0, 1, 10), (1, 2, 10)], now);
        if now < 4.0 {
            assert!(run(&mut policy, &mut book, now).is_empty());
        }
    }
    let started = run(&mut policy, &mut book, 20.0);
    let on = |card| started.iter().filter(|(_, cards)| *cards == [card]).count();
    // Of 11 GB each, one more fits on the first card; the number at once decides on the second.
    assert_eq!((on(0), on(1)), (1, 1), "{started:?}");
}

#[test]
fn a_stranger_is_named_to_a_job_that_waits_for_memory() {
    let (mut policy, mut book) = (
        policy(),
        book(&vec![
            Demand {
                memory: Some(11 * GB),
                ..on("GPU-a")
            };
            1
        ]),
    );
    let sight = Sight {
        free: 9_100_000_000,
        strangers: vec![Stranger {
            pid: 4242,
            name: "python".to_owned(),
            bytes: 14 * GB,
        }],
        ..Sight::default()
    };
    policy.sees(0, sight, 0.0);
    assert!(run(&mut policy, &mut book, 0.0).is_empty());
    assert_eq!(
        policy.why(&book, Id(1)),
        "gpu0 has 9.1 GB free, a stranger (pid 4242, python) holds 14.0 GB, this job needs about 11.0 GB"
    );
}

#[test]
fn a_job_of_a_command_whose_memory_is_unknown_is_told_so() {
    let first = on("GPU-a");
    let (mut policy, mut book) = (policy(), book(&[first.clone(), first]));
    sees(&mut policy, [24, 80], &[], 0.0);
    assert_eq!(run(&mut policy, &mut book, 0.0), [(1, vec![0])]);
    assert_eq!(
        policy.why(&book, Id(2)),
        "gpu0 has 24.0 GB free, the memory of this command is not known yet: its first job runs alone, the next when that has shown what it needs"
    );
}

#[test]
fn a_shortage_of_memory_is_not_a_jobs_fault_once_and_a_fault_makes_its_culprit_run_alone() {
    let only = on("GPU-b");
    let four = Learnt {
        level: 4,
        ..Learnt::default()
    };
    let counts = BTreeMap::from([("t".to_owned(), four)]);
    let known = BTreeMap::from([("card of 80 GB".to_owned(), counts)]);
    let (mut policy, mut book) = (knowing(&known), book(&vec![only; 4]));
    // Before its memory is observed, as many start as an earlier sweep found best.
    assert_eq!(run(&mut policy, &mut book, 0.0).len(), 4);
    sees(
        &mut policy,
        [24, 0],
        &[(1, 1, 20), (1, 2, 20), (1, 3, 20), (1, 4, 20)],
        1.0,
    );
    let short = Gone {
        out_of_memory: true,
        peak: Some(20 * GB),
        ..failed()
    };
    let entry = exits(&mut policy, &mut book, 1, short.clone());
    assert!(!entry.is_ended() && !entry.alone, "{entry:?}");
    let learnt: BTreeMap<_, _> = policy.learnt().collect();
    let kind = "card of 80 GB".to_owned();
    assert_eq!(learnt[&kind]["t"].peak, Some(25 * GB));
    let entry = exits(&mut policy, &mut book, 2, short.clone());
    assert!(!entry.is_ended() && entry.alone, "{entry:?}");
    let own = Gone {
        fault: Fault::Own,
        ..failed()
    };
    let entry = exits(&mut policy, &mut book, 3, own);
    assert!(!entry.is_ended() && entry.alone, "{entry:?}");
    exits(&mut policy, &mut book, 4, JobEnd::Done.into());
    sees(&mut policy, [24, 80], &[], 60.0);
    assert_eq!(run(&mut policy, &mut book, 60.0), [(1, vec![1])]);
    exits(&mut policy, &mut book, 1, JobEnd::Done.into());
    assert_eq!(run(&mut policy, &mut book, 61.0), [(2, vec![1])]);
    // Alone it has nobody else to blame.
    assert!(exits(&mut policy, &mut book, 2, short).is_ended());
}

#[test]
fn what_was_promised_keeps_others_away_until_it_is_measured() {
    let promise = Demand {
        at_most_slower: Some(15),
        ..on("GPU-b")
    };
    // The first shows what one alone does, two without a promise what two at once lose.
    let free = Demand {
        at_most_slower: None,
        ..promise.clone()
    };
    let demands = [&promise, &free, &free, &promise, &promise].map(Clone::clone);
    let (mut policy, mut book) = (policy(), book(&demands));
    assert_eq!(run(&mut policy, &mut book, 0.0).len(), 1);
    // Alone 10 a second; two do 5 each.
    let mut work = BTreeMap::new();
    let mut trains = |policy: &mut Policy, book: &mut Book, seconds: std::ops::Range<u32>| {
        let mut most = 0;
        for now in seconds.map(f64::from) {
            let running: Vec<Id> = book.running().map(|entry| entry.job.id).collect();
            most = most.max(running.len());
            for id in &running {
                let done = work.entry(*id).or_insert(0.0);
                *done += 10.0 / running.len() as f64;
                policy.progress(*id, now, *done, None);
            }
            run(policy, book, now);
        }
        most
    };
    assert_eq!(trains(&mut policy, &mut book, 1..60), 1);
    exits(&mut policy, &mut book, 1, JobEnd::Done.into());
    assert_eq!(trains(&mut policy, &mut book, 60..120), 2);
    assert!(policy.slower(Id(2)).is_some_and(|percent| percent > 50.0));
    exits(&mut policy, &mut book, 2, JobEnd::Done.into());
    exits(&mut policy, &mut book, 3, JobEnd::Done.into());
    assert_eq!(run(&mut policy, &mut book, 121.0).len(), 1);
    let why = policy.why(&book, Id(5));
    assert!(why.contains("2 at once were slower by"), "{why}");
    let share = policy.spot(Id(4)).map(|Spot { share, .. }| share.percent());
    assert_eq!(share, Some(100.0));
}

#[test]
fn a_job_overtakes_one_that_waits_for_memory_unless_it_would_delay_it() {
    let mixes = "large,larger,small,middle,large + small,large + middle + small,larger + small";
    let all = mixes.split(',').map(|mix| (mix.to_owned(), settled(10)));
    let card = "card of 24 GB".to_owned();
    let mut policy = knowing(&BTreeMap::from([(card, all.collect())]));
    let mut book = Book::default();
    let adds = |book: &mut Book, gb: u64, template: &str, now: f64| {
        let demand = Demand {
            memory: Some(gb * GB),
            ..on("GPU-a")
        };
        add(book, demand, template, now);
    };
    adds(&mut book, 14, "large", 0.0);
    adds(&mut book, 16, "larger", 0.0);
    adds(&mut book, 2, "small", 0.0);
    let started = run(&mut policy, &mut book, 0.0);
    assert_eq!(started, [(1, vec![0]), (3, vec![0])]);
    sees(&mut policy, [8, 80], &[(0, 1, 14), (0, 3, 2)], 10.0);
    assert_eq!(run(&mut policy, &mut book, 10.0), []);
    // More than a minute later, the place of job 2 is reserved. When job 1 has ended, 22 GB are free: 2 GB do not delay
    // job 2, and 5 GB more would.
    adds(&mut book, 2, "small", 11.0);
    adds(&mut book, 5, "middle", 11.0);
    assert_eq!(run(&mut policy, &mut book, 90.0), [(4, vec![0])]);
    exits(&mut policy, &mut book, 1, JobEnd::Done.into());
    sees(&mut policy, [20, 80], &[(0, 3, 2), (0, 4, 2)], 91.0);
    assert_eq!(run(&mut policy, &mut book, 91.0), [(2, vec![0])]);
}

/// The more jobs of a template have ended, the smaller is the margin on what the next one needs: two jobs of 11.7 GB on a
/// card of 24 GB.
#[test]
fn jobs_whose_memory_is_known_well_fill_a_card() {
    let (mut policy, mut book) = (policy(), book(&vec![on("GPU-a"); 12]));
    let mut together = Vec::new();
    while book.is_busy() {
        let now = 10.0 * together.len() as f64;
        let started = run(&mut policy, &mut book, now);
        let count = started.len() as u64;
        let each = 117 * GB / 10;
        let sight = Sight {
            free: 24 * GB - count * each,
            used: started.iter().map(|(id, _)| (Id(*id), each)).collect(),
            ..Sight::default()
        };
        policy.sees(0, sight, now);
        for (id, _) in started {
            exits(&mut policy, &mut book, id, JobEnd::Done.into());
        }
        together.push(count);
    }
    assert_eq!(together[..4], [1, 1, 2, 2], "{together:?}");
}

/// Ten jobs of the mix do well together, but what two of the new template cost each other is unknown.
#[test]
fn few_copies_of_a_new_template_start_beside_many_others() {
    let all = ["t", "t + u"].map(|mix| (mix.to_owned(), settled(10)));
    let card = "card of 80 GB".to_owned();
    let mut policy = knowing(&BTreeMap::from([(card, BTreeMap::from(all))]));
    let demand = Demand {
        memory: Some(GB),
        ..on("GPU-b")
    };
    let mut book = book(&vec![demand.clone(); 3]);
    for _ in 0..5 {
        add(&mut book, demand.clone(), "u", 0.0);
    }
    assert_eq!(run(&mut policy, &mut book, 0.0).len(), 3);
    assert_eq!(run(&mut policy, &mut book, 1.0).len(), 2);
}

#[test]
fn a_total_of_nothing_counts_as_none() {
    let work = |of: f64| {
        let (mut policy, mut book) = (policy(), book(&[on("GPU-a")]));
        run(&mut policy, &mut book, 0.0);
        for second in 1..20 {
            let now = f64::from(second);
            policy.progress(Id(1), now, now, Some(of));
            run(&mut policy, &mut book, now);
        }
        let (_, learnt) = policy.learnt().next().expect("a kind of card");
        learnt["t"]
            .sharing
            .as_ref()
            .and_then(|sharing| sharing.work)
    };
    assert_eq!(work(0.0), None);
    assert!(work(100.0).is_some_and(|seconds| (90.0..110.0).contains(&seconds)));
}
