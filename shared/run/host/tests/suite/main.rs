//! Jobs that fail and devices that fail, on every host of processes through the trait [`Host`].

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cards;
mod faults;
mod scenarios;
mod several;
mod stage;

/// One table of scenarios, run on control groups and on MPS with its fakes. A scenario contains what is the same for
/// both, and asks the stage where they are meant to differ.
macro_rules! table {
    ($($scenario:ident),* $(,)?) => {
        mod control_groups {
            $(#[test]
            fn $scenario() {
                if let Some(mut stage) = crate::stage::Stage::control_groups() {
                    crate::scenarios::$scenario(&mut stage);
                    stage.nothing_is_left();
                }
            })*
        }

        mod mps {
            $(#[test]
            fn $scenario() {
                let mut stage = crate::stage::Stage::mps();
                crate::scenarios::$scenario(&mut stage);
                stage.nothing_is_left();
            })*
        }
    };
}

table![
    all_goes_well,
    a_program_that_does_not_exist,
    a_grant_that_the_host_does_not_have,
    a_job_that_dies_at_its_start,
    a_job_that_dies_in_the_middle,
    a_job_that_never_gets_ready,
    a_job_that_hangs,
    a_job_that_floods_its_log,
    a_job_that_heeds_sigterm,
    a_job_that_ignores_sigterm,
    a_job_that_leaves_daemons,
    a_job_outside_its_share,
    a_share_changes_now_or_at_the_next_start,
    a_fault_of_the_device,
    a_fault_that_stays,
    a_host_that_goes_takes_its_jobs_along,
];
