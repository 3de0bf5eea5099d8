//! A fatal fault of one MPS client hits all: on a fake GPU with a fake MPS control.

use doc::EventKind;
use testkit::fakes::FakeMps;

use crate::support::{Corner, job, ran};

#[test]
fn a_fault_of_one_client_stops_all_and_all_are_started_again() {
    let fake = FakeMps::install();
    if !fake.build_driver() {
        return;
    }
    let corner = Corner::new();
    let worker = fake.worker().display().to_string();
    let good = format!(
        r#""{worker}" & w=$!; sleep 3; kill $w; echo '{{"mt":"done","samples":30}}'; exit 0"#
    );
    // The others are clients by then: a server without clients recovers before anyone looks.
    let faulty = format!(
        r#"if [ ! -e faulted ]; then touch faulted; FAKE_CLIENTS=3 FAKE_MODE=faults exec "{worker}"; fi; {good}"#
    );
    let mut a = job("a", &faulty);
    a.resume = good.clone();
    corner.plan(&[a, job("b", &good), job("c", &good)]);
    let path = format!(
        "{}:{}",
        fake.folder().display(),
        std::env::var("PATH").unwrap()
    );
    let output = corner
        .command(&["--device", "cuda", "--progress-every", "1"])
        .env("PATH", path)
        .env("LD_LIBRARY_PATH", fake.folder())
        .env("TMPDIR", corner.dir.path())
        .output()
        .unwrap();
    let ran = ran(output);
    let said = format!("{} {}", ran.stderr, ran.reasons(EventKind::Restart));
    assert_eq!(ran.code, Some(0), "{said}");
    let faults = ran.reasons(EventKind::Fault);
    assert!(faults.starts_with("the MPS server faulted"), "{said}");
    assert!(faults.ends_with("the MPS server has recovered"), "{said}");
    let restarted: Vec<_> = ran
        .summary()
        .tasks
        .iter()
        .map(|t| t.restarts >= 1)
        .collect();
    assert!(restarted[0], "{said}");
    assert!(ran.of(EventKind::Restart).len() <= 6, "{said}");
    corner.nothing_is_left();
    let left = FakeMps::processes_below(corner.dir.path());
    assert!(left.is_empty(), "daemon or clients are left: {left:?}");
}
