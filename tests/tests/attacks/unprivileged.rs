//! A user without privileges. With a delegated part of the control groups, its jobs have their shares and are cleaned
//! up like root's; without, it is told what to do.

use std::fs;

use mt_tests::{Folder, Ran, tools};

/// Two jobs, one of which leaves a process that clears its session and environment.
const PLAN: &str = r#"{"schema":"mt.plan/1","tasks":[
    {"id":"a","batch":10,"share_percent":50,"samples":40},{"id":"b","batch":10,"share_percent":25,"samples":20}],
    "workload":{"schema":"mt.workload/1","device":{"kind":"cpu"},"tasks":[
    {"id":"a","batch_sizes":[10],"job":{"argv":["sh","-c",
      "env -i setsid sleep 4217 & echo '{\"mt\":\"ready\"}'; for i in 1 2 3 4; do sleep 0.1; echo '{\"mt\":\"step\",\"samples\":10}'; done; LAST"]}},
    {"id":"b","batch_sizes":[10],"job":{"argv":["sh","-c",
      "echo '{\"mt\":\"ready\"}'; for i in 1 2; do sleep 0.1; echo '{\"mt\":\"step\",\"samples\":10}'; done"]}}]}}"#;

/// Runs a script as the user `nobody` in a control group that is made for it, and that belongs to that user if
/// `delegated`. `$GROUP` names the group; `None` if there can be none.
fn as_nobody(script: &str, last: &str, delegated: bool) -> Option<Ran> {
    let folder = Folder::new();
    fs::write(folder.path().join("plan"), PLAN.replace("LAST", last)).unwrap();
    fs::write(folder.path().join("script"), script).unwrap();
    // Other users may have no access to the build folder.
    for tool in ["mt-launch", "mt-check"] {
        fs::copy(tools().join(tool), folder.path().join(tool)).unwrap();
    }
    let give = if delegated {
        "chown -R 65534:65534 $GROUP"
    } else {
        "true"
    };
    let ran = folder.run(&format!(
        "test $(id -u) = 0 && command -v setpriv >/dev/null || exit 77
         for base in /sys/fs/cgroup/cpu /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup; do
             test -w $base/cgroup.procs || continue
             GROUP=$base/mt-delegated-$$; mkdir $GROUP 2>/dev/null || continue
             test -e $GROUP/cpu.cfs_quota_us || test -e $GROUP/cpu.max && break
             rmdir $GROUP; GROUP=
         done
         test -n \"$GROUP\" || exit 77
         {give}; chown -R 65534:65534 .; chmod 755 .
         export GROUP HOME=$PWD TMPDIR=$PWD PATH=$PWD:/usr/bin:/bin
         (echo $BASHPID >$GROUP/cgroup.procs
          exec setpriv --reuid=65534 --regid=65534 --clear-groups sh script) </dev/null
         code=$?
         for i in $(seq 60); do pgrep -f 'sleep 421[7]' >/dev/null || break; sleep 0.1; done
         pgrep -f 'sleep 421[7]' && echo a process is left
         find $GROUP -mindepth 1 -type d | sed 's/^/left: /'
         find $GROUP -depth -type d -exec rmdir {{}} \\;
         exit $code"
    ));
    if ran.code == Some(77) {
        testkit::skipped("cgroups", "no control group can be made for another user");
        return None;
    }
    Some(ran)
}

#[test]
fn jobs_of_a_delegated_group_have_shares_and_leave_nothing() {
    let script = "mt-launch --runs runs --keep-shares plan -o run && mt-check run && ls -A runs";
    let Some(ran) = as_nobody(script, "true", true) else {
        return;
    };
    ran.assert_code(0);
    assert!(ran.stdout.starts_with("OK run"), "{ran:#?}");
    assert!(!ran.stdout.contains("left"), "{ran:#?}");
    assert!(!ran.stdout.contains("run-"), "{ran:#?}");
}

#[test]
fn a_killed_launcher_of_a_delegated_group_leaves_nothing() {
    let script = "mt-launch --runs runs plan -o run & pid=$!
        for i in $(seq 100); do grep -q '\"progress\"' run 2>/dev/null && break; sleep 0.1; done
        pgrep -f 'sleep 421[7]' >/dev/null && echo it runs
        kill -9 $pid; wait $pid; echo ended by $?
        for i in $(seq 60); do ls -A runs | grep -q run- || break; sleep 0.1; done; ls -A runs";
    let Some(ran) = as_nobody(script, "sleep 60", true) else {
        return;
    };
    assert!(ran.stdout.contains("it runs\nended by 137"), "{ran:#?}");
    assert!(!ran.stdout.contains("left"), "{ran:#?}");
    assert!(!ran.stdout.contains("run-"), "{ran:#?}");
}

#[test]
fn without_a_delegated_group_a_user_is_told_how_to_get_one() {
    let script = "mt-launch --runs runs plan -o run; code=$?; test -e run && echo there is a run; exit $code";
    let Some(ran) = as_nobody(script, "true", false) else {
        return;
    };
    ran.assert_code(3);
    assert!(ran.stderr.contains("Delegate=yes"), "{ran:#?}");
    assert!(!ran.stdout.contains("left"), "{ran:#?}");
    assert!(!ran.stdout.contains("there is a run"), "{ran:#?}");
}
