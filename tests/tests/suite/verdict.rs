//! Is sharing worth it: verdicts of plans compared with later measurements.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use doc::{Any, AnyDocuments, EventPayload, Frames, Plan, Profile, RunEvent};
use mt_tests::{Folder, example};
use units::Share;

fn document(folder: &Folder, name: &str) -> Any {
    let bytes = std::fs::read(folder.path().join(name)).unwrap();
    let mut all = AnyDocuments::new(Frames::new(bytes.as_slice(), name));
    all.next().expect("a document").expect("a valid document")
}

fn plan(folder: &Folder) -> Plan {
    match document(folder, "plan") {
        Any::Plan(plan) => *plan,
        other => panic!("{other:?}"),
    }
}

fn profile(folder: &Folder) -> Profile {
    match document(folder, "measured") {
        Any::Profile(profile) => *profile,
        other => panic!("{other:?}"),
    }
}

fn run(folder: &Folder) -> Vec<RunEvent> {
    match document(folder, "run") {
        Any::Run(events) => events,
        other => panic!("{other:?}"),
    }
}

/// Makespans of the rounds of a run, with the planned ones.
fn rounds(events: &[RunEvent]) -> Vec<(f64, f64)> {
    let of = |e: &RunEvent| match &e.payload {
        EventPayload::Round {
            makespan,
            planned_makespan,
            ..
        } => Some((makespan.get(), planned_makespan.unwrap().get())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// The numbers of the line of a report that begins with a label.
fn numbers(report: &str, label: &str) -> Vec<f64> {
    let line = report
        .lines()
        .find(|l| l.contains(label))
        .unwrap_or_else(|| panic!("no {label}: {report}"));
    let words = line.split(|c: char| !(c.is_ascii_digit() || ".+-".contains(c)));
    words.filter_map(|w| w.parse().ok()).collect()
}

fn close(a: f64, b: f64) -> bool {
    // Reports show four digits.
    (a / b - 1.0).abs() < 1e-3
}

/// One task after another at its best batch size, and all together with the rates measured for the remaining tasks,
/// computed from the samples of a profile.
fn by_hand(plan: &Plan, profile: &Profile) -> (f64, f64) {
    let rates = |active: &[usize]| -> Vec<f64> {
        let wanted: Vec<_> = active
            .iter()
            .map(|&i| {
                let given = plan.given(i);
                (
                    &plan.tasks[i].id,
                    given.batch.unwrap(),
                    given.share.unwrap(),
                )
            })
            .collect();
        let sample = profile.samples.iter().find(|s| {
            let has = |w: &&(_, _, _)| s.tasks.iter().any(|t| (&t.id, t.batch, t.share) == **w);
            s.tasks.len() == wanted.len() && wanted.iter().all(|w| has(&w))
        });
        let sample = sample.unwrap_or_else(|| panic!("{wanted:?} was not measured"));
        let rate = |w: &(_, _, _)| {
            let task = sample.tasks.iter().find(|t| &t.id == w.0).unwrap();
            task.throughput.get()
        };
        wanted.iter().map(rate).collect()
    };
    let verdict = plan.feasible().unwrap().verdict.as_ref().unwrap();
    let alone = verdict.tasks.iter().map(|task| {
        let solo = profile.samples.iter().find_map(|s| match &s.tasks[..] {
            [t] if t.id == task.id && t.batch == task.batch && t.share == Share::FULL => Some(t),
            _ => None,
        });
        task.samples / solo.unwrap().throughput.get()
    });
    let serial: f64 = alone.sum();
    let volume = |i: usize| plan.tasks[i].samples.unwrap().as_f64();
    let mut left: Vec<(usize, f64)> = (0..plan.tasks.len()).map(|i| (i, volume(i))).collect();
    let mut together = 0.0;
    while !left.is_empty() {
        let active: Vec<usize> = left.iter().map(|(i, _)| *i).collect();
        let rates = rates(&active);
        let ends: Vec<f64> = left.iter().zip(&rates).map(|((_, w), r)| w / r).collect();
        let first = (0..ends.len())
            .min_by(|&a, &b| ends[a].total_cmp(&ends[b]))
            .unwrap();
        together += ends[first];
        for (k, task) in left.iter_mut().enumerate() {
            task.1 -= rates[k] * ends[first];
        }
        left.remove(first);
    }
    (together, serial)
}

/// A report of a plan and a profile of it with its baselines gives the measured time of the same work together and
/// one after another.
#[test]
fn a_report_tells_the_verdict_of_what_was_measured() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    let ran = folder.run(&format!(
        "set -e; mt-profile --budget 16 {workload} | mt-fit -q | mt-solve -o plan
         mt-profile --configs plan --baselines -o measured; mt-report plan measured"
    ));
    ran.assert_code(0);
    let (plan, profile) = (plan(&folder), profile(&folder));
    let (together, serial) = by_hand(&plan, &profile);
    let told = numbers(&ran.stdout, "measured verdict");
    assert!(
        close(told[0], together) && close(told[1], serial),
        "{told:?}, by hand {together} and {serial}: {}",
        ran.stdout
    );
    let gain = 100.0 * (serial / together - 1.0);
    assert!(
        (told[2] - gain).abs() < 0.1 + 1e-3 * gain.abs(),
        "{told:?} {gain}"
    );
}

/// Ten rounds are compared with ten planned ones, not with one, and mt-check compares each with the verdict.
#[test]
fn ten_rounds_are_compared_with_ten_planned_ones() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    let ran = folder.run(&format!(
        "set -e; mt-profile --budget 12 {workload} | mt-fit -q | mt-solve | mt-overlap -o timeline
         mt-launch --rounds 10 timeline > run; mt-report run"
    ));
    ran.assert_code(0);
    let all = rounds(&run(&folder));
    assert_eq!(all.len(), 10);
    let mean = |of: fn(&(f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / 10.0;
    let (measured, planned) = (mean(|r| r.0), mean(|r| r.1));
    let told = numbers(&ran.stdout, "mean of the rounds");
    assert!(
        close(told[0], measured) && close(told[1], planned),
        "{told:?}, by hand {measured} and {planned}"
    );
    assert!((measured / planned - 1.0).abs() < 0.1, "{all:?}");
    let verdict = numbers(&ran.stdout, "measured verdict");
    assert!(close(verdict[0], measured), "{verdict:?} {measured}");
    folder.run("mt-check -v run").assert_code(0);
}

/// The verdict is a prediction: for processes, how far is it from measured rounds and from tasks measured alone?
/// Times are printed, not asserted, because they include other load of the machine.
#[test]
fn on_processes_the_verdict_is_compared_with_what_ran() {
    const WORKLOAD: &str = r#"{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
      {"id":"a","batch_sizes":[32],"samples":96000,
       "job":{"argv":["mt-worker","--threads","1","--width","256","--depth","2"],"pool":true}},
      {"id":"b","batch_sizes":[32],"samples":72000,
       "job":{"argv":["mt-worker","--threads","1","--width","128","--depth","3"],"pool":true}}]}"#;
    let folder = Folder::new();
    std::fs::write(folder.path().join("workload"), WORKLOAD).unwrap();
    let window = "--window 0.5 --max-window 1";
    let out = folder.run(&format!(
        "mt-profile workload --budget 12 --share-step 25 {window} -o profile"
    ));
    if out.code == Some(3) {
        testkit::skipped("cgroups", out.stderr);
        return;
    }
    out.assert_code(0);
    let ran = folder.run(&format!(
        "set -e; mt-fit -q profile | mt-solve --step 25 -o plan
         mt-profile --configs plan --baselines {window} -o measured
         mt-overlap plan | mt-launch > run; mt-report plan measured; mt-report run; mt-check run"
    ));
    ran.assert_code(0);
    let (plan, profile) = (plan(&folder), profile(&folder));
    let verdict = plan.feasible().unwrap().verdict.as_ref().unwrap();
    let told = numbers(&ran.stdout, "measured verdict");
    let solo = |task: &doc::WorkAlone| {
        let alone = profile.samples.iter().find_map(|s| match &s.tasks[..] {
            [t] if t.id == task.id && t.share == Share::FULL => Some(t.throughput.get()),
            _ => None,
        });
        task.samples / alone.unwrap()
    };
    let serial: f64 = verdict.tasks.iter().map(solo).sum();
    assert!(close(told[1], serial), "{told:?} {serial}");
    let launched = rounds(&run(&folder))[0].0;
    let off = |truth: f64, said: f64| 100.0 * (said / truth - 1.0);
    println!(
        "one after another {serial:.2} s, predicted {:+.1} %; together by measured rates {:.2} s, \
         predicted {:+.1} %; a round that was run {launched:.2} s, predicted {:+.1} %",
        off(serial, verdict.one_after_another.get()),
        told[0],
        off(told[0], verdict.together.get()),
        off(launched, verdict.together.get()),
    );
}
