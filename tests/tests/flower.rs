//! Flower simulations on Ray, with clients that misbehave and on stand-ins for GPUs. A program of its own: nothing else
//! runs while Ray starts.

use mt_tests::{Folder, example};

/// The quickest tests that meet each part: one app on processors, one on GPUs, several at once.
const TESTS: [&str; 3] = [
    "Flower.test_a_client_whose_process_dies_fails_alone",
    "Flower.test_clients_on_gpus_fit_into_their_memory",
    "Flower.test_clients_that_fail_do_not_disturb_another_federation",
];

#[test]
fn apps_train_at_once_and_fail_alone() {
    let folder = Folder::new();
    let run = folder.run(&format!(
        "sh {} --check {}",
        example("flower/sized/run.sh"),
        TESTS.join(" ")
    ));
    let said = format!("{}{}", run.stdout, run.stderr);
    if let Some(reason) = said.lines().find(|line| line.contains("run.sh: skipped")) {
        testkit::skipped("flower", reason);
        return;
    }
    assert_eq!(run.code, Some(0), "{said}");
    assert!(said.contains("Ran 3 tests"), "{said}");
}
