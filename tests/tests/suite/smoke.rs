//! The whole pipe once, small: what `make smoke` runs.

use mt_tests::{Folder, example};

#[test]
fn smoke() {
    let folder = Folder::new();
    let workload = example("quickstart/workload.json");
    let pipe = format!(
        "set -o pipefail; mt-profile --budget 6 {workload} | tee profile | mt-fit -q | tee model |
         mt-solve | tee plan | mt-overlap | tee timeline | mt-launch > run"
    );
    folder.run(&pipe).assert_code(0);
    let shown = folder.run("mt-report plan timeline run");
    shown.assert_code(0);
    assert!(shown.stdout.contains("makespan"), "{}", shown.stdout);
    folder
        .run("mt-check profile model plan timeline run")
        .assert_code(0);
}

#[test]
fn smoke_in_one_command() {
    let folder = Folder::new();
    let ran = folder.run("mt init --gpu rtx-3090 && mt run --budget 6");
    ran.assert_code(0);
    // The verdict, and every document.
    assert!(ran.stdout.contains("one after another"), "{}", ran.stdout);
    folder
        .run("cd workload-run && test -s report.html && mt check *.ndjson *.json")
        .assert_code(0);
}
