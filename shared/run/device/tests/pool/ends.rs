//! Jobs as people write them: shell scripts that start, train, and end by themselves.

use std::path::Path;
use std::time::Duration;

use device::{Device as _, Failed, MeasureError, OpenError, Options, Patience, Real, Window};
use doc::FailureCause;
use units::Seconds;

use super::{run, throughputs, window};

/// A task: its script, and its `samples`, if given.
struct Script {
    text: &'static str,
    samples: Option<u64>,
}

const REGEX: &str = "step ([0-9]+ of )?(?P<steps>[0-9]+)";

/// Opens the processors; `None` if control groups cannot be written.
fn open(runs: &Path, scripts: &[Script], warm_up_ms: u64) -> Option<Real> {
    let task = |(i, script): (usize, &Script)| {
        let samples = script.samples.map(|n| format!(r#""samples":{n},"#));
        // None of the scripts holds a quotation mark or a backslash.
        let text = format!("\"{}\"", script.text);
        format!(
            r#"{{"id":"t{i}","batch_sizes":[8],{}"job":{{"argv":["sh","-c",{text}],
               "progress":{{"regex":"{REGEX}"}}}}}}"#,
            samples.unwrap_or_default()
        )
    };
    let tasks: Vec<String> = scripts.iter().enumerate().map(task).collect();
    let workload = super::read(&tasks.join(","));
    let patience = Patience {
        stall: Duration::from_secs(2),
        warm_up: Duration::from_millis(warm_up_ms),
        ..Patience::default()
    };
    match Real::cpu_with(&workload, &runs.join("runs"), patience, &Options::default()) {
        Ok(real) => Some(real),
        Err(OpenError::Environment { reason, .. }) => {
            testkit::skipped("cgroups", reason);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn failed(result: Result<device::Measurement, MeasureError>) -> Failed {
    match result {
        Err(MeasureError::Failed(failed)) => *failed,
        other => panic!("expected a failed configuration, got {other:?}"),
    }
}

/// Twelve steps of 50 ms after a start of 300 ms.
const FIXED: &str =
    "sleep 0.3; i=0; while [ $i -lt 12 ]; do sleep 0.05; i=$((i+1)); echo step $i; done";
const ENDLESS: &str = "sleep 0.6; i=0; while :; do sleep 0.05; i=$((i+1)); echo step $i; done";

#[test]
fn a_job_that_ends_by_itself_is_a_sample_without_its_start_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let fixed = Script {
        text: FIXED,
        samples: None,
    };
    let Some(mut device) = open(folder.path(), &[fixed], 0) else {
        return;
    };
    // The window is longer than a run trains, so the job is started again.
    let longer = Window {
        most: Seconds::new(5.0).expect("seconds"),
        ..window(1.0)
    };
    let m = device
        .measure(&[run(0, 8, 100.0)], &longer)
        .expect("a sample");
    let rate = throughputs(&m)[0];
    // 8 samples in 50 ms are 160 per second; with the start-up they would be at most 107.
    assert!((80.0..=165.0).contains(&rate), "{rate}");
    let launch = m.rates[0].launch;
    let startup = launch.startup.expect("a start-up").get();
    assert!((0.2..2.0).contains(&startup), "{startup}");
    let whole = launch.run.expect("a whole run");
    assert_eq!(whole.samples.get(), 96);
    assert!(
        whole.time.get() >= 0.9 && whole.time.get() >= startup,
        "{whole:?}"
    );
    assert!(m.rates[0].stderr.is_some());
}

#[test]
fn of_a_co_run_only_what_all_train_in_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = |text| Script {
        text,
        samples: None,
    };
    // The first trains for 0.6 s and has ended, or is about to, when the other begins.
    let Some(mut device) = open(folder.path(), &[script(FIXED), script(ENDLESS)], 0) else {
        return;
    };
    let both = [run(0, 8, 50.0), run(1, 8, 50.0)];
    let m = device.measure(&both, &window(1.2)).expect("a sample");
    assert!(
        throughputs(&m).iter().all(|r| (60.0..=165.0).contains(r)),
        "{m:?}"
    );
    assert!(m.rates[0].launch.run.is_some() && m.rates[1].launch.run.is_none());
}

#[test]
fn a_program_that_tells_nothing_is_counted_by_whole_runs_of_its_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let silent = |samples| Script {
        text: "sleep 0.5",
        samples,
    };
    let Some(mut device) = open(folder.path(), &[silent(Some(100)), silent(None)], 0) else {
        return;
    };
    let m = device
        .measure(&[run(0, 8, 100.0)], &window(0.1))
        .expect("a sample");
    let (rate, launch) = (throughputs(&m)[0], m.rates[0].launch);
    let whole = launch.run.expect("a whole run");
    assert!(
        (rate - 100.0 / whole.time.get()).abs() < 1.0,
        "{rate} {whole:?}"
    );
    assert!((10.0..=200.0).contains(&rate), "{rate}");
    assert_eq!((launch.startup, m.rates[0].stderr), (None, None));
    let failed = failed(device.measure(&[run(1, 8, 100.0)], &window(0.1)));
    assert_eq!(failed.cause, Some(FailureCause::Silent));
    assert!(
        failed
            .reason
            .contains("exit code 0) and reported no progress"),
        "{failed}"
    );
}

#[test]
fn how_a_job_failed_is_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        (
            "echo step 1; sleep 0.1; echo step 2; echo 'KeyError: x' >&2; exit 1",
            FailureCause::Crash,
        ),
        (
            "echo 'ModuleNotFoundError: No module named torch' >&2; exit 1",
            FailureCause::Module,
        ),
        (
            "echo 'usage: a [-h] --data DATA' >&2; exit 2",
            FailureCause::Arguments,
        ),
        (
            "while :; do echo step 40 of 40; sleep 0.05; done",
            FailureCause::Silent,
        ),
        ("no-such-program-here", FailureCause::Program),
        ("echo 'CUDA out of memory'; exit 1", FailureCause::Memory),
        ("echo step 1; sleep 0.02; echo step 2", FailureCause::Short),
        (
            "echo step 1; sleep 0.1; echo step 2; sleep 60",
            FailureCause::Stall,
        ),
    ];
    let scripts = cases.map(|(text, _)| Script {
        text,
        samples: None,
    });
    let Some(mut device) = open(folder.path(), &scripts, 400) else {
        return;
    };
    for (task, (text, cause)) in cases.into_iter().enumerate() {
        let failed = failed(device.measure(&[run(task, 8, 100.0)], &window(0.5)));
        assert_eq!(failed.cause, Some(cause), "{text}: {failed}");
        assert_eq!(failed.task, Some(task));
        assert!(!failed.output.is_empty(), "{text}");
    }
}

#[test]
fn nothing_is_started_where_a_program_or_a_script_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    for (argv, path) in [
        (r#"["pyhton3","train.py"]"#, "$.tasks[0].job.argv[0]"),
        (r#"["sh","/nowhere/train.sh"]"#, "$.tasks[0].job.argv[1]"),
    ] {
        let workload = super::read(&format!(
            r#"{{"id":"a","batch_sizes":[8],"job":{{"argv":{argv}}}}}"#
        ));
        let error = Real::cpu_with(
            &workload,
            folder.path(),
            Patience::default(),
            &Options::default(),
        );
        let error = error.err();
        let Some(OpenError::Workload(fault)) = error else {
            panic!("{error:?}");
        };
        assert_eq!(fault.path, path);
        assert!(fault.problem.starts_with("task a: there is no "), "{fault}");
    }
}

/// Its step and its end may be read together.
#[test]
fn a_job_that_ends_at_its_first_step_is_told_by_its_last_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let sudden = Script {
        text: "echo step 1; echo last-words; exit 17",
        samples: None,
    };
    let Some(mut device) = open(folder.path(), &[sudden], 0) else {
        return;
    };
    for _ in 0..5 {
        let failure = failed(device.measure(&[run(0, 8, 100.0)], &window(0.2)));
        assert!(failure.reason.contains("exit code 17"), "{failure:?}");
        assert!(failure.reason.contains("last-words"), "{failure:?}");
    }
}

#[test]
fn what_a_job_leaves_behind_is_told_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let careless = Script {
        text: "sleep 77 & i=0; while [ $i -lt 12 ]; do sleep 0.05; i=$((i+1)); echo step $i; done",
        samples: None,
    };
    let Some(mut device) = open(folder.path(), &[careless], 0) else {
        return;
    };
    let longer = Window {
        most: Seconds::new(5.0).expect("seconds"),
        ..window(1.0)
    };
    device
        .measure(&[run(0, 8, 100.0)], &longer)
        .expect("a sample");
    let told = device.untold();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("t0: 1 processes that it left were killed: sleep"),
        "{told:?}"
    );
    assert_eq!(device.untold(), [""; 0]);
}
