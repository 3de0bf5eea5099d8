use doc::{Any, EventKind, Frames, RunEvent};
use host::{SimHost, SimulatedGpu};
use overlap::{TableRates, plan_instance, simulate};
use proptest::prelude::*;
use units::corun::Setting;

use super::*;
use runner::RunState;

/// Keeps every event.
#[derive(Default)]
struct Kept(Vec<RunEvent>);

impl Sink for Kept {
    fn event(&mut self, event: &RunEvent) {
        self.0.push(event.clone());
    }

    fn progress(&mut self, event: &RunEvent) -> bool {
        self.event(event);
        true
    }

    fn warn(&mut self, text: &str) {
        panic!("{text}");
    }

    fn note(&mut self, text: &str) {
        panic!("{text}");
    }

    fn is_closed(&self) -> bool {
        false
    }

    fn wants_state(&self, _: bool) -> bool {
        true
    }

    fn state(&mut self, state: &RunState) {
        let rows = &state.rows;
        assert!(!rows.is_empty());
    }
}

/// Three tasks with volumes: samples, megabytes down, megabytes up.
fn launch(duplex: &str, volumes: &[(u64, u64, u64); 3]) -> Launch {
    let task = |i: usize| {
        let (samples, down, up) = volumes[i];
        let model = ["resnet18", "vgg16", "mobilenet_v3_large"][i];
        let share = [40, 60, 30][i];
        let bytes = format!(
            r#""update_bytes":{{"down":{},"up":{}}}"#,
            down * 1_000_000,
            up * 1_000_000
        );
        (
            format!(
                r#"{{"id":"t{i}","batch":64,"share_percent":{share},"samples":{samples},{bytes}}}"#
            ),
            format!(r#"{{"id":"t{i}","model":"{model}","batch_sizes":[64]}}"#),
        )
    };
    let (planned, tasks): (Vec<String>, Vec<String>) = (0..3).map(task).unzip();
    let text = format!(
        r#"{{"schema":"mt.plan/1","link":{{"down_bps":4e8,"up_bps":2e8,"duplex":"{duplex}"}},
        "tasks":[{}],"workload":{{"schema":"mt.workload/1","device":{{"kind":"sim"}},
        "tasks":[{}]}}}}"#,
        planned.join(","),
        tasks.join(",")
    );
    let frames = Frames::new(std::io::Cursor::new(text.replace('\n', " ")), "test");
    let mut plans = doc::Documents::<_, doc::Plan>::new(frames);
    let plan = plans.next().unwrap().unwrap();
    Launch::new(Any::Plan(Box::new(plan)), None).unwrap()
}

fn settings() -> LaunchSettings {
    let supervision = jobs::Supervision {
        restarts: 0,
        backoff: std::time::Duration::ZERO,
        grace: std::time::Duration::ZERO,
        logs: None,
        log_limits: jobs::LogLimits::default(),
        follow: false,
        runs: PathBuf::new(),
        passing: jobs::Passing::default(),
    };
    LaunchSettings {
        supervision,
        ready: None,
        stall: None,
        total: None,
        cpus: jobs::Cpus::Any,
        attach_mps: false,
        no_progress: false,
        keep_shares: false,
        no_overlap: false,
        progress_every: std::time::Duration::ZERO,
        metrics: None,
        adapt: None,
    }
}

fn played(launch: &Launch, rounds: u32) -> (Played, Vec<RunEvent>) {
    let settings = settings();
    let session = Rounds {
        host: Box::new(SimHost::open(&launch.workload, launch.plan.link, 7).unwrap()),
        cpus: vec![Vec::new(); launch.plan.tasks.len()],
        launch: launch.clone(),
        settings: &settings,
        logs: PathBuf::new(),
        course: None,
    };
    let mut kept = Kept::default();
    let provenance = cli::Console::new("test").provenance(Some(7), None);
    let played = session.play(0..rounds, provenance, &mut kept);
    (played, kept.0)
}

/// Rates of every set of tasks in the simulator.
fn table(launch: &Launch) -> TableRates {
    let gpu = SimulatedGpu::open(&launch.workload).unwrap();
    let all: Vec<Setting> = launch
        .assignments()
        .enumerate()
        .map(|(task, a)| Setting {
            task,
            batch: a.batch,
            share: a.share,
        })
        .collect();
    let mut table = TableRates::new();
    for set in 1u64..8 {
        let active: Vec<Setting> = all
            .iter()
            .copied()
            .filter(|s| set >> s.task & 1 == 1)
            .collect();
        let mut rates = vec![0.0; 3];
        for (setting, rate) in active.iter().zip(gpu.steady(&active, 7).unwrap()) {
            rates[setting.task] = rate;
        }
        table.insert(set, rates);
    }
    table
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The round that the launcher runs in virtual time is the one that the planner computes.
    #[test]
    fn a_round_on_virtual_time_is_the_planned_one(
        duplex in prop::sample::select(vec!["full", "half", "shared"]),
        volumes in [
            (1u64..20_000, 0u64..200, 0u64..200),
            (1u64..20_000, 0u64..200, 0u64..200),
            (1u64..20_000, 0u64..200, 0u64..200),
        ],
    ) {
        let launch = launch(duplex, &volumes);
        let instance = plan_instance(&launch.plan, None).unwrap();
        let expected = simulate(&instance, &table(&launch), &[], &launch.order()).unwrap();
        let (ended, events) = played(&launch, 1);
        prop_assert!(ended.ok);
        let mut phases = 0;
        for event in &events {
            let EventPayload::Phase { task, phase, start, end, .. } = &event.payload else {
                continue;
            };
            phases += 1;
            let i = launch.plan.task_index(task).unwrap();
            let same = expected.phases.iter().find(|p| p.task == i && p.kind == *phase).unwrap();
            prop_assert!((start.get() - same.start_s).abs() < 1e-6, "{event:?} {same:?}");
            prop_assert!((end.get() - same.end_s).abs() < 1e-6, "{event:?} {same:?}");
        }
        prop_assert_eq!(phases, 9);
    }
}

#[test]
fn events_of_rounds_add_up_and_come_again() {
    let launch = launch("full", &[(3000, 10, 5), (5000, 20, 0), (4000, 0, 9)]);
    let (ended, events) = played(&launch, 3);
    assert!(ended.ok && ended.failed.is_empty() && ended.signal.is_none());
    let times: Vec<f64> = events.iter().map(|e| e.time.get()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let count = |kind| events.iter().filter(|e| e.kind() == kind).count();
    assert_eq!(count(EventKind::Start), 9);
    assert_eq!(count(EventKind::Round), 3);
    let Some(EventPayload::Summary { tasks, .. }) = events.last().map(|e| &e.payload) else {
        panic!("{:?}", events.last());
    };
    let samples: Vec<u64> = tasks.iter().map(|t| t.samples).collect();
    assert_eq!(samples, [9000, 15000, 12000]);
    assert_eq!(played(&launch, 3).1, events);
}
