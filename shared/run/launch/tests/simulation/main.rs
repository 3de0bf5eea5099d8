//! Deterministic simulation: whole launches on a host that misbehaves, depending on a seed.
//!
//! `MT_SIM_SEEDS=N` runs the seeds 0 to N-1 (`make test-sim`: a million), `MT_SIM_SEED=S` runs only the seed S and
//! prints its events.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod chaos;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use check::Inspector;
use doc::{Any, AnyDocuments, EventKind, EventPayload, Frames, RunEvent};
use launch::{Launch, LaunchSettings, Played, Rounds};
use runner::{RunState, Sink};

use chaos::{Chaos, Dice, PATIENCE, Seen};

/// Seeds of every `cargo test`.
const SEEDS: u64 = 10_000;

/// A launch that is not over after this time on the host's clock never will be: all rounds, retries and deadlines
/// together take less.
const ENDLESS: Duration = Duration::from_secs(3600);

/// Keeps every event; its reader may leave.
struct Kept {
    events: Vec<RunEvent>,
    /// Events after which the reader has gone.
    leaves: Option<usize>,
    /// Random numbers that decide for which progress there is no room, if the reader stalls now and then.
    stalls: Option<Dice>,
}

impl Sink for Kept {
    fn event(&mut self, event: &RunEvent) {
        self.events.push(event.clone());
    }

    fn progress(&mut self, event: &RunEvent) -> bool {
        let room = !self.stalls.as_mut().is_some_and(|dice| dice.happens(60));
        if room {
            self.event(event);
        }
        room
    }

    fn warn(&mut self, _: &str) {}

    fn note(&mut self, _: &str) {}

    fn is_closed(&self) -> bool {
        self.leaves.is_some_and(|after| self.events.len() > after)
    }

    fn wants_state(&self, _: bool) -> bool {
        true
    }

    fn state(&mut self, _: &RunState) {}
}

/// A plan of one to four tasks.
fn launch(dice: &mut Dice) -> Launch {
    let duplex = ["full", "half", "shared"][dice.below(3) as usize];
    let tasks = 1 + dice.below(4);
    let (mut planned, mut known) = (Vec::new(), Vec::new());
    for i in 0..tasks {
        let (share, samples) = (10 + dice.below(91), 1 + dice.below(50));
        // Some volumes are only in the plan, and some are unknown.
        let volume = match dice.below(4) {
            0 => String::new(),
            _ => format!(r#","samples":{samples}"#),
        };
        planned.push(format!(
            r#"{{"id":"t{i}","batch":8,"share_percent":{share}{volume}}}"#
        ));
        let resume = if dice.happens(30) {
            r#","resume":["again"]"#
        } else {
            ""
        };
        known.push(format!(
            r#"{{"id":"t{i}","model":"vgg16","batch_sizes":[8],"job":{{"argv":["train"],
            "download":["get"],"upload":["put"]{resume}}}}}"#
        ));
    }
    let text = format!(
        r#"{{"schema":"mt.plan/1","link":{{"down_bps":4e8,"up_bps":2e8,"duplex":"{duplex}"}},
        "tasks":[{}],"workload":{{"schema":"mt.workload/1","device":{{"kind":"cpu"}},
        "link":{{"down_bps":4e8,"up_bps":2e8}},"tasks":[{}]}}}}"#,
        planned.join(","),
        known.join(",")
    );
    let text = text.replace('\n', " ");
    let mut plans = AnyDocuments::new(Frames::new(text.as_bytes(), "test"));
    Launch::new(plans.next().unwrap().unwrap(), None).unwrap()
}

fn settings(dice: &mut Dice) -> LaunchSettings {
    let mut deadline = |longest| {
        dice.happens(80)
            .then(|| dice.time(longest) + Duration::from_secs(1))
    };
    let (ready, stall) = (deadline(6_000), deadline(6_000));
    let total = Some(Duration::from_secs(5) + dice.time(60_000));
    let supervision = jobs::Supervision {
        restarts: dice.below(4) as u32,
        backoff: dice.time(3_000),
        grace: dice.time(5_000),
        logs: None,
        log_limits: jobs::LogLimits::default(),
        follow: false,
        runs: PathBuf::new(),
        passing: jobs::Passing::default(),
    };
    LaunchSettings {
        supervision,
        ready,
        stall,
        total,
        cpus: jobs::Cpus::Any,
        attach_mps: false,
        no_progress: false,
        keep_shares: dice.happens(20),
        no_overlap: dice.happens(20),
        progress_every: dice.time(2_000),
        metrics: None,
        adapt: None,
    }
}

/// What must hold after a launch; returns nothing if all does.
fn wrong(
    launch: &Launch,
    settings: &LaunchSettings,
    (played, rounds): (&Played, u32),
    seen: &Seen,
    kept: &Kept,
) -> Vec<String> {
    let mut wrong = seen.wrong.clone();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            wrong.push(what.to_owned());
        }
    };
    must(seen.left == 0, "a job runs afterwards");
    must(seen.now < ENDLESS, "it does not end");
    let counts = |kind| kept.events.iter().filter(|e| e.kind() == kind).count();
    // Everything that begins also ends, and both are reported.
    let transfers_and_jobs = counts(EventKind::Exit);
    must(transfers_and_jobs == seen.admitted, "an exit is not told");
    must(
        kept.events.last().map(RunEvent::kind) == Some(EventKind::Summary),
        "there is no summary",
    );
    let told = counts(EventKind::Round);
    // By a signal, the end of the reader, or a lost device.
    let stops = |e: &RunEvent| matches!(e.payload, EventPayload::Stop { task: None, .. });
    let cut = seen.signalled.is_some() || kept.events.iter().any(stops);
    must(
        told == rounds as usize || (cut && told < rounds as usize),
        "a round is not told",
    );
    must(
        played.signal.is_some() == seen.signalled.is_some(),
        "the signal is not told",
    );
    let finished = kept.events.iter().all(|e| match &e.payload {
        EventPayload::Round { ok, tasks, .. } => *ok && tasks.iter().all(|t| t.finished),
        _ => true,
    });
    let all = finished && told == rounds as usize && seen.signalled.is_none();
    must(played.ok == all, "the exit status is not true");
    if let Some(at) = seen.signalled {
        let longest = settings.supervision.grace + PATIENCE + host::LOOK * 2;
        must(
            seen.now <= at + longest,
            "SIGTERM is not obeyed within the grace",
        );
    }
    must(
        kept.events.iter().map(|e| e.time.get()).is_sorted(),
        "events are not in order",
    );
    let verdict = Inspector::default().judge(Any::Run(kept.events.clone()));
    if !verdict.ok {
        wrong.push(verdict.lines(false));
    }
    let _ = launch;
    wrong
}

/// Missing progress, according to an event.
fn missing(event: &RunEvent) -> u64 {
    match &event.payload {
        EventPayload::Progress { progress, .. } => progress.dropped,
        _ => 0,
    }
}

fn play(seed: u64) -> (Vec<RunEvent>, Vec<String>) {
    let mut dice = Dice::new(seed ^ 0x5eed);
    let launch = launch(&mut dice);
    let settings = settings(&mut dice);
    let rounds = 1 + dice.below(3) as u32;
    let leaves = dice.happens(15).then(|| dice.below(30) as usize);
    let capacity = launch
        .assignments()
        .map(|a| u64::from(a.share.hundredths()));
    let seen = Rc::new(RefCell::new(Seen::default()));
    let host = Chaos::new(seed, capacity.sum(), Rc::clone(&seen));
    let session = Rounds {
        host: Box::new(host),
        cpus: vec![Vec::new(); launch.plan.tasks.len()],
        launch: launch.clone(),
        settings: &settings,
        logs: PathBuf::new(),
        course: None,
    };
    let mut kept = Kept {
        events: Vec::new(),
        leaves,
        stalls: dice.happens(30).then(|| Dice::new(seed ^ 0x57a11)),
    };
    let provenance = cli::Console::new("mt-launch").provenance(None, None);
    let played = session.play(0..rounds, provenance, &mut kept);
    let wrong = wrong(&launch, &settings, (&played, rounds), &seen.borrow(), &kept);
    (kept.events, wrong)
}

#[test]
fn launches_on_a_host_that_misbehaves() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    if let Some(seed) = number("MT_SIM_SEED") {
        let (events, wrong) = play(seed);
        let mut out = std::io::stdout().lock();
        for event in &events {
            doc::write_line(&mut out, event).unwrap();
        }
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        return;
    }
    let seeds = number("MT_SIM_SEEDS").unwrap_or(SEEDS);
    let (mut events, mut dropped) = (0, 0);
    let mut failed = Vec::new();
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..seeds {
        let played = std::panic::catch_unwind(|| play(seed));
        let Ok((told, wrong)) = played else {
            panic!("seed {seed} panics; MT_SIM_SEED={seed} plays it alone");
        };
        events += told.len();
        dropped += told.iter().map(missing).sum::<u64>();
        kinds.extend(told.iter().map(RunEvent::kind));
        if !wrong.is_empty() {
            failed.push(format!(
                "seed {seed}: {wrong:#?}; MT_SIM_SEED={seed} plays it alone"
            ));
        }
        // One bug of the launcher fails many seeds; the first few are sufficient.
        if failed.len() == 5 {
            break;
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    println!("{seeds} launches, {events} events, {dropped} that were not read");
    assert!(seeds < SEEDS || dropped > 0, "no reader stalls");
    // If a kind of event never occurs, the simulation tests less than it seems to.
    let all = EventKind::ALL
        .into_iter()
        .filter(|k| *k != EventKind::Replan);
    for kind in all.filter(|_| seeds >= SEEDS) {
        assert!(kinds.contains(&kind), "no {kind:?} in {seeds} launches");
    }
}

#[test]
fn a_seed_gives_the_same_events() {
    for seed in 0..20 {
        assert_eq!(play(seed).0, play(seed).0, "seed {seed}");
    }
}
