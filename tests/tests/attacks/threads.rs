//! If the system has no room for another thread, no tool panics.

use crate::{READS, documents, keeps_runs};

/// Runs a tool in a group with room for one process and no further thread; `None` if there can be no such group.
/// (`ulimit -u` does not limit root.)
fn alone(folder: &mt_tests::Folder, tool: &str) -> Option<mt_tests::Ran> {
    let out = folder.run(&format!(
        "for base in /sys/fs/cgroup/pids /sys/fs/cgroup; do
             g=$base/mt-alone-$$; mkdir $g 2>/dev/null || continue
             test -w $g/pids.max && break
             rmdir $g; g=
         done
         test -d \"$g\" || exit 77
         (echo $BASHPID >$g/cgroup.procs; echo 1 >$g/pids.max; exec {tool})
         code=$?; rmdir $g; exit $code"
    ));
    (out.code != Some(77)).then_some(out)
}

#[test]
fn without_threads_a_tool_does_its_work_or_says_why_not() {
    let folder = documents();
    for (tool, name) in READS {
        for output in ["", "-o fresh", "-o fresh --force"] {
            std::fs::remove_file(folder.path().join("fresh")).ok();
            if output.contains("force") && !keeps_runs(tool) {
                continue;
            }
            let line = format!("{tool} {name} {output}");
            let Some(out) = alone(&folder, &line) else {
                testkit::skipped("pids", "no group of processes can be limited");
                return;
            };
            assert!(matches!(out.code, Some(0 | 3)), "{line}: {out:#?}");
            assert!(!out.stderr.contains("panicked"), "{line}: {out:#?}");
            if out.code != Some(0) {
                // Which thread, or that there is no room.
                assert_eq!(out.stderr.lines().count(), 1, "{line}: {out:#?}");
            }
        }
    }
    // Instead of all processors, one searches.
    let out = alone(&folder, "mt-solve m --step 5 --rv free").unwrap();
    out.assert_code(0);
    let free = folder.run("mt-solve m --step 5 --rv free");
    assert_eq!(out.stdout, free.stdout);
}
