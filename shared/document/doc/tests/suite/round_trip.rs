//! What is written is read back exactly.

use doc::wire::{self, Wire};
use doc::*;
use proptest::prelude::*;

use crate::{generate, schema};

/// Writes, reads, validates and writes again; each step must preserve everything.
fn round_trip<D>(wire: &D::Wire) -> Result<(), TestCaseError>
where
    D: Document + std::fmt::Debug + PartialEq,
    D::Wire: PartialEq + std::fmt::Debug,
{
    let text = serde_json::to_string(wire).unwrap();
    prop_assert_eq!(&serde_json::from_str::<D::Wire>(&text).unwrap(), wire);
    let frames = Frames::new(text.as_bytes(), "t");
    let read: Vec<_> = Documents::<_, D>::new(frames).collect();
    prop_assert_eq!(read.len(), 1);
    let document = match &read[0] {
        Ok(document) => document,
        Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}"))),
    };
    prop_assert_eq!(&document.to_wire(), wire);
    let mut line = Vec::new();
    write_line(&mut line, document).unwrap();
    prop_assert_eq!(String::from_utf8(line).unwrap(), format!("{text}\n"));
    let mut pretty = Vec::new();
    write_pretty(&mut pretty, document).unwrap();
    let again: Vec<D> = Documents::<_, D>::new(Frames::new(&pretty[..], "t"))
        .map(|d| d.unwrap())
        .collect();
    prop_assert_eq!(&again[0], document);
    Ok(())
}

/// The generated JSON Schema agrees with what is read.
fn fits_schema<W: Wire>(wire: &W) -> Result<(), TestCaseError> {
    let record = W::RECORD.map_or(String::new(), |r| format!(".{r}"));
    let name = format!("{}{record}.schema.json", W::SCHEMA.replace('/', "."));
    let schemas = schemas();
    let (_, text) = schemas.iter().find(|(n, _)| *n == name).unwrap();
    let schema: serde_json::Value = serde_json::from_str(text).unwrap();
    let value = serde_json::to_value(wire).unwrap();
    prop_assert!(schema::fits(&schema, &schema, &value));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_number_survives_exactly(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        let text = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(serde_json::from_str::<f64>(&text).unwrap().to_bits(), bits);
    }

    #[test]
    fn workloads(wire in generate::workload()) {
        round_trip::<Workload>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn headers(wire in generate::header()) {
        round_trip::<Header>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn samples(wire in generate::sample()) {
        round_trip::<Sample>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn failures(wire in generate::failure()) {
        round_trip::<Failure>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn ends(wire in generate::end()) {
        round_trip::<ProfileEnd>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn models(wire in generate::model()) {
        round_trip::<Model>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn plans(wire in generate::plan()) {
        round_trip::<Plan>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn infeasible_plans(wire in generate::infeasible_plan()) {
        round_trip::<Plan>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn timelines(wire in generate::timeline()) {
        round_trip::<Timeline>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn events(wire in generate::event()) {
        round_trip::<RunEvent>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn clusters(wire in generate::cluster()) {
        round_trip::<Cluster>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn schedules(wire in generate::schedule()) {
        round_trip::<Schedule>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn queue_events(wire in generate::queue_event()) {
        round_trip::<QueueEvent>(&wire)?;
        fits_schema(&wire)?;
        // A live system may omit the schema: the line is written back unchanged.
        let mut bare = serde_json::to_value(&wire).unwrap();
        bare.as_object_mut().unwrap().remove("schema");
        let bytes = serde_json::to_vec(&bare).unwrap();
        let frame = Frame { bytes, source_name: "t".to_owned(), line: 1 };
        let read = QueueEvent::read(&frame).unwrap();
        prop_assert_eq!(serde_json::to_value(&read).unwrap(), bare);
    }

    #[test]
    fn statuses(wire in generate::status()) {
        round_trip::<ClusterStatus>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn queue_starts(wire in generate::queue_start()) {
        round_trip::<QueueStart>(&wire)?;
        fits_schema(&wire)?;
    }

    #[test]
    fn a_stream_keeps_number_and_order(wires in prop::collection::vec(generate::workload(), 1..5), gap in "[ \n\t]{0,3}") {
        let texts: Vec<String> = wires.iter().map(|w| serde_json::to_string(w).unwrap()).collect();
        let stream = texts.join(&gap);
        let read = Documents::<_, Workload>::new(Frames::new(stream.as_bytes(), "t"));
        let back: Vec<wire::Workload> = read.map(|d| d.unwrap().to_wire()).collect();
        prop_assert_eq!(back, wires);
    }
}

#[test]
fn numbers_that_json_cannot_hold_are_refused() {
    for text in ["NaN", "Infinity", "-Infinity", "null", "1e400", "\"1\""] {
        let line = format!(
            r#"{{"schema":"mt.profile/1","record":"end","measured":1,"failed":0,"cost_s":{text},"stopped":"complete"}}"#
        );
        let mut read = Documents::<_, ProfileEnd>::new(Frames::new(line.as_bytes(), "t"));
        assert!(read.next().unwrap().is_err(), "{text}");
        assert!(read.next().is_none(), "{text}");
    }
}

/// A job of many rounds, alone on its GPU or two GPUs in turns; every third round waits.
fn long_schedule(rounds: u32) -> Schedule {
    let cluster = r#"{"schema":"mt.cluster/1","gpus":[{"type":"t","count":2}],
        "jobs":[{"id":"a","rounds":ROUNDS,"tasks_per_round":1,"train_s":{"t":0.7},"sync_s":{"t":0.1}}]}"#;
    let cluster = cluster.replace("ROUNDS", &rounds.to_string());
    let frames = Frames::new(cluster.as_bytes(), "t");
    let cluster = Documents::<_, Cluster>::new(frames)
        .next()
        .unwrap()
        .unwrap();
    let second = |s: f64| units::Seconds::new(s).unwrap();
    let mut start = 0.0;
    let tasks = (0..rounds).map(|round| {
        // Sums, as a planner makes them.
        let own = start;
        start += 0.7 + 0.1 + if round % 1000 == 999 { 5.0 } else { 0.0 };
        ScheduledTask {
            job: 0,
            round,
            task: 0,
            gpu: (round as usize / 4000) % 2,
            start: second(own),
            switch: second(0.0),
            trained: second(own + 0.7),
            synced: second(own + 0.7 + 0.1),
            rounds: 1,
            period: 0.0,
        }
    });
    let assignments: Vec<ScheduledTask> = tasks.collect();
    Schedule {
        id: None,
        policy: SchedulePolicy::Hare,
        cost: 1.0,
        flow_cost: 1.0,
        mean: second(1.0),
        p95: second(1.0),
        makespan: second(1.0),
        utilisation: 1.0,
        lower_bound: 1.0,
        bound: ScheduleBound::Chain,
        gap: 0.0,
        proven: false,
        noise: 0.0,
        sync: None,
        baselines: Vec::new(),
        switching: None,
        fingerprint: cluster.fingerprint(),
        cluster,
        assignments,
        provenance: Vec::new(),
    }
}

#[test]
fn rounds_that_are_alike_are_one_entry_and_come_back_each_for_itself() {
    let schedule = long_schedule(40_000);
    let wire = schedule.to_wire();
    assert_eq!(wire.assignments.len(), 40);
    assert!(wire.assignments.iter().all(|a| a.rounds == 1000));
    let mut line = Vec::new();
    write_line(&mut line, &schedule).unwrap();
    let read = Documents::<_, Schedule>::new(Frames::new(&line[..], "t"))
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(read.assignments.len(), 40_000);
    for (own, back) in schedule.assignments.iter().zip(&read.assignments) {
        assert_eq!(
            (own.round, own.task, own.gpu),
            (back.round, back.task, back.gpu)
        );
        for (a, b) in [
            (own.start, back.start),
            (own.trained, back.trained),
            (own.synced, back.synced),
        ] {
            assert!(
                (a.get() - b.get()).abs() <= 1e-9 * a.get(),
                "{own:?} {back:?}"
            );
        }
    }
    // A few tasks each have their own entry.
    let few = long_schedule(10_000).to_wire();
    assert_eq!(few.assignments.len(), 10_000);
}

#[test]
fn rounds_of_more_tasks_than_a_reader_keeps_stay_one_entry() {
    let mut schedule = long_schedule(700_000);
    let wire = schedule.to_wire();
    // A thousand rounds each, and one where the GPU changes.
    assert_eq!(wire.assignments.len(), 700);
    let mut line = Vec::new();
    write_line(&mut line, &schedule).unwrap();
    let read = |line: &[u8]| {
        let mut documents = Documents::<_, Schedule>::new(Frames::new(line, "t"));
        documents.next().unwrap().unwrap()
    };
    let merged = read(&line);
    assert_eq!(merged.assignments.len(), 700);
    assert_eq!(merged.tasks(), 700_000);
    let last = merged.assignments.last().unwrap();
    let own = schedule.assignments.last().unwrap();
    assert!((last.last_synced() - own.synced.get()).abs() < 1e-9 * last.last_synced());
    // Written again it is the same.
    schedule = merged.clone();
    line.clear();
    write_line(&mut line, &schedule).unwrap();
    assert_eq!(read(&line), merged);
}

#[test]
fn all_tasks_of_a_job_have_entries_for_the_same_rounds_in_memory() {
    let mut wire = long_schedule(700_000).to_wire();
    wire.cluster.jobs[0].tasks_per_round = 2;
    // The second task has three entries, which end at other rounds than those of the first.
    let whole = wire.assignments[0].clone();
    for (round, rounds) in [(0, 1_500), (1_500, 698_000), (699_500, 500)] {
        wire.assignments.push(wire::ScheduledTask {
            task: 1,
            round,
            rounds,
            ..whole.clone()
        });
    }
    let bytes = serde_json::to_vec(&wire).unwrap();
    let mut documents = Documents::<_, Schedule>::new(Frames::new(&bytes[..], "t"));
    let read = documents.next().unwrap().unwrap();
    assert_eq!(read.tasks(), 1_400_000);
    let of = |task: u32| {
        let mut own: Vec<(u32, u32)> = read
            .assignments
            .iter()
            .filter(|a| a.task == task)
            .map(|a| (a.round, a.rounds))
            .collect();
        own.sort_unstable();
        own
    };
    assert_eq!(of(0), of(1));
    assert_eq!(of(0).len(), 702);
    assert_eq!(of(1)[1..3], [(1_000, 500), (1_500, 500)]);
}

#[test]
fn an_entry_of_many_rounds_cannot_ask_for_all_memory_nor_overlap_itself() {
    let mut wire = long_schedule(20_000).to_wire();
    let code = |wire: &wire::Schedule| {
        let bytes = serde_json::to_vec(wire).unwrap();
        let read = Documents::<_, Schedule>::new(Frames::new(&bytes[..], "t"))
            .next()
            .unwrap();
        match read.unwrap_err() {
            ReadError::Faults(faults) => faults.faults[0].code,
            error => panic!("{error}"),
        }
    };
    wire.assignments[0].rounds = u32::MAX;
    assert_eq!(code(&wire), Code::OutOfRange);
    // Half a million entries of one task cut each of the other tasks' as often.
    let single = wire.assignments[0].clone();
    let mut many = wire.clone();
    many.cluster.jobs[0].rounds = 1_000_000;
    many.cluster.jobs[0].tasks_per_round = 100;
    let entry = |task, round, rounds| wire::ScheduledTask {
        task,
        round,
        rounds,
        period_s: 0.8,
        ..single.clone()
    };
    many.assignments = (0..50_000).map(|k| entry(0, 20 * k, 20)).collect();
    many.assignments
        .extend((1..100).map(|task| entry(task, 0, 1_000_000)));
    assert_eq!(code(&many), Code::TooMany);
    wire.assignments[0].rounds = 1000;
    wire.assignments[0].period_s = 0.79;
    assert_eq!(code(&wire), Code::OutOfRange);
    wire.assignments[0].period_s = 0.8;
    wire.assignments[0].rounds = 0;
    assert_eq!(code(&wire), Code::OutOfRange);
}
