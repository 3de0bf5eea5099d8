//! System calls interrupted by signals, slow disks, and a lack of descriptors, for the verbs that run commands.

use std::fs;
use std::process::Command;

use mt_tests::Folder;

/// A folder with the library that interrupts and delays (`faulty.c`).
fn faulty() -> Folder {
    let folder = Folder::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/attacks/faulty.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.path().join("faulty.so"))
        .args([source, "-ldl"])
        .status();
    let built = built.is_ok_and(|status| status.success());
    assert!(built, "a C compiler is needed, as for building: {source}");
    fs::write(folder.path().join("job.sh"), JOB).unwrap();
    folder
}

const JOB: &str = "i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo step $i/20; sleep 0.05; done\n";

/// Commands of the queue do not inherit the library from the process that adds them.
const RUN: &str = "env -u LD_PRELOAD sh job.sh";

#[test]
fn a_queue_whose_calls_are_interrupted_does_what_it_confirms() {
    let folder = faulty();
    let line = format!(
        "export LD_PRELOAD=$PWD/faulty.so FAULTY_EINTR=3 MT_QUEUE=$PWD/q
         mt queue --device cpu && mt add -- {RUN} && mt sweep -- {RUN} {{x}} ::: x=1,2,3 && mt wait
         code=$?; mt status --all --json; mt exec -- env -u LD_PRELOAD sh -c 'exit 5'; inner=$?
         mt queue --stop; echo ends $code $inner"
    );
    let out = folder.run(&line);
    assert!(out.stdout.contains("ends 0 5"), "{out:#?}");
    assert_eq!(
        out.stdout.matches(r#""state":"done""#).count(),
        4,
        "{out:#?}"
    );
}

#[test]
fn a_queue_on_a_slow_disk_confirms_late_and_loses_nothing() {
    let folder = faulty();
    let line = format!(
        "export LD_PRELOAD=$PWD/faulty.so FAULTY_SLOW_MS=700 MT_QUEUE=$PWD/q
         mt queue --device cpu; mt add -- {RUN} & mt add -- {RUN} & wait
         mt wait; code=$?; mt status --all --json; mt queue --stop; echo ends $code"
    );
    let out = folder.run(&line);
    assert!(out.stdout.contains("ends 0"), "{out:#?}");
    assert_eq!(
        out.stdout.matches(r#""state":"done""#).count(),
        2,
        "{out:#?}"
    );
}

#[test]
fn a_trial_whose_calls_are_interrupted_answers() {
    let folder = faulty();
    let line = "LD_PRELOAD=$PWD/faulty.so FAULTY_EINTR=3 mt try --seconds 1 'sh job.sh' -o tried
         && mt-check tried/workload.json";
    let out = folder.run(&line.replace('\n', " "));
    assert_eq!(out.code, Some(0), "{out:#?}");
    assert!(out.stdout.contains("one after another"), "{out:#?}");
}

/// At some limit the server starts and has no descriptor left for a job: the job waits until there is one.
#[test]
fn a_job_for_which_no_descriptor_is_left_waits() {
    let folder = faulty();
    let mut waited = 0;
    for limit in (14..=26).step_by(2) {
        let line = format!(
            "export MT_QUEUE=$PWD/q{limit}; (ulimit -n {limit}; mt queue --device cpu) || exit 9
             (ulimit -n {limit}; mt add -- sh job.sh); sleep 1; mt status --all; mt queue --stop
             mt wait; code=$?; mt queue --stop; exit $code"
        );
        let out = folder.run(&line);
        // With fewer no server starts, and this is reported.
        let refused = out.code == Some(9) && out.stderr.contains("mt: ");
        assert!(out.code == Some(0) || refused, "{limit}: {out:#?}");
        waited += usize::from(out.stdout.contains("ulimit -n"));
    }
    assert!(waited > 0, "no limit was met by a job");
}

/// What it cannot clean up for lack of a descriptor, the next one does.
#[test]
fn a_trial_without_descriptors_says_so_and_leaves_nothing_to_the_next() {
    let folder = faulty();
    fs::create_dir(folder.path().join("tmp")).unwrap();
    for limit in (4..=22).step_by(2) {
        let line = format!(
            "export TMPDIR=$PWD/tmp; ulimit -n {limit}
             exec mt try --seconds 1 'sh job.sh' -o tried{limit}"
        );
        let out = folder.run(&line);
        // The loader of the C library, and bash, need some, too.
        let refused = [0, 1, 3, 126, 127].contains(&out.code.unwrap_or(-1));
        assert!(refused && !out.stderr.contains("panicked"), "{out:#?}");
    }
    let next = folder.run("TMPDIR=$PWD/tmp mt try --seconds 1 'sh job.sh' -o last");
    next.assert_code(0);
    let left = folder.run("ls -d tmp/mt-tools-*/run-* 2>/dev/null");
    assert_eq!(left.stdout, "", "{next:#?}");
}
