//! What happens to jobs, and is done to them and to what runs them.

use nix::sys::signal::Signal::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use crate::column::Column::{
    Cluster, Elastic, Exec, Measuring, Queue, Rounds, Schedules, Trial, Under,
};
use crate::column::{BECOME, Column, FOLLOW, LAUNCH, RUNNERS};
use crate::judge::Expect::{Acts, Ends, Meaningless};
use crate::row::Group::{Death, Limit, Origin, Pause, Report, Signal};
use crate::row::{Act, Group, Paused, Row};

const STREAMS: &str = "the program keeps its streams: nobody reads its reports";
const PLAIN: &str = "plain commands: only their progress is read from what they print";
const CALLER: &str = "it becomes the program: limits are its caller's";
const UNLIMITED: &str = "a job of a queue may take as long as it wants";
const BY_LIMIT: &str = "--limit bounds a run, and --seconds what is measured of it";
const OWN_LIMITS: &str = "its own limits are longer than a cell may take";
const ITSELF: &str = "a signal to it is one to the program itself";

/// Those without the options of a launch.
const REST: &[Column] = &[Queue, Trial, Measuring, Exec, Under];

/// Columns in which there is nothing to see.
const fn none(
    group: Group,
    name: &'static str,
    columns: &'static [Column],
    why: &'static str,
) -> Row {
    Row {
        group,
        name,
        columns,
        given: "",
        act: Act::Wait,
        job: "",
        most: Meaningless(why),
        but: &[],
    }
}

/// The rows.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    // Reports of a job.
    Row { group: Report, name: "loaded", columns: &RUNNERS, given: "", act: Act::Wait,
        job: r#"echo '{"mt":"loaded"}'; train"#,
        most: Ends(0, &[]), but: &[] },
    Row { group: Report, name: "ready", columns: &RUNNERS, given: "", act: Act::Wait,
        job: "train",
        most: Ends(0, &[r#""event":"ready""#]),
        but: &[(Queue, Meaningless(PLAIN)), (Trial, Ends(0, &["start-up"])), (Measuring, Ends(0, &["startup_s"])),
            (Exec, Meaningless(STREAMS)), (Under, Meaningless(STREAMS))] },
    Row { group: Report, name: "steps", columns: &RUNNERS, given: "", act: Act::Wait,
        job: "train",
        most: Ends(0, &[r#""samples":100,"#]),
        but: &[(Queue, Ends(0, &["100"])), (Trial, Ends(0, &["samples/s"])), (Measuring, Ends(0, &[r#""samples_per_s":"#])),
            (Exec, Meaningless(STREAMS)), (Under, Meaningless(STREAMS))] },
    // A job that parks without having been told to, and then waits for orders that never come.
    Row { group: Report, name: "parked", columns: LAUNCH, given: "--stall-timeout 1 --restarts 0", act: Act::Wait,
        job: r#"ready; steps 50; echo '{"mt":"parked"}'; sleep 60"#,
        most: Ends(1, &["no step for|parked"]),
        // Here it is a training that has saved, and is started again from there.
        but: &[(Elastic, Ends(0, &[]))] },
    Row { group: Report, name: "parked", columns: REST, given: "", act: Act::Wait,
        job: r#"ready; steps 100; echo '{"mt":"parked"}'"#,
        most: Ends(0, &[]), but: &[] },
    // It is done before it has trained on its samples.
    Row { group: Report, name: "done", columns: LAUNCH, given: "--restarts 0", act: Act::Wait,
        job: r#"ready; steps 50; echo '{"mt":"done","samples":50}'"#,
        most: Ends(1, &["50 of 100"]),
        but: &[(Elastic, Meaningless("the loss decides when a training is done")),
            (Schedules, Meaningless("a task of a schedule is done by its exit code")),
            (Cluster, Meaningless("a task of a schedule is done by its exit code"))] },
    Row { group: Report, name: "done", columns: REST, given: "", act: Act::Wait,
        job: r#"ready; steps 100; echo '{"mt":"done","samples":100}'"#,
        most: Ends(0, &[]), but: &[] },
    // It is done, but does not end.
    Row { group: Report, name: "done and stays", columns: LAUNCH, given: "--grace 1 --stall-timeout 1 --restarts 0",
        act: Act::Wait, job: "train; trap '' TERM; sleep 60",
        most: Ends(0, &["took<8", "no step for|did not end|does not end"]),
        but: &[(Elastic, Ends(0, &["took<8"]))] },
    none(Report, "done and stays", REST, "its end is that of its process"),
    Row { group: Report, name: "log failed", columns: FOLLOW, given: "", act: Act::Wait,
        job: "train",
        most: Ends(0, &["the log of|its log cannot|log ends here", "No space left|os error 28"]),
        but: &[] },
    Row { group: Report, name: "log failed", columns: BECOME, given: "", act: Act::Wait,
        job: "train",
        most: Meaningless(STREAMS), but: &[] },
    // Of reports that may mean something else: a job has left the control group that limits its share.
    none(Report, "doubt", &[Trial, Exec, Under], "there is no share, or nobody follows it"),
    Row { group: Report, name: "doubt", columns: &[Rounds, Elastic, Schedules, Cluster, Queue], given: "", act: Act::Wait,
        job: "cat /proc/self/cgroup > told; for f in /sys/fs/cgroup/cpu/cgroup.procs /sys/fs/cgroup/unified/cgroup.procs /sys/fs/cgroup/cgroup.procs; do [ -w $f ] && echo $$ > $f; done; up; ready; sleep 1.5; steps 700; exit 0",
        most: Ends(0, &["has left|left the control group|left its"]),
        but: &[] },
    Row { group: Report, name: "doubt", columns: &[Measuring], given: "--window 3 --max-window 3", act: Act::Wait,
        job: "cat /proc/self/cgroup > told; for f in /sys/fs/cgroup/cpu/cgroup.procs /sys/fs/cgroup/unified/cgroup.procs /sys/fs/cgroup/cgroup.procs; do [ -w $f ] && echo $$ > $f; done; up; ready; steps 700; exit 0",
        most: Ends(3, &["has left|left the control group|left its"]),
        but: &[] },
    Row { group: Report, name: "norms left out", columns: &RUNNERS, given: "", act: Act::Wait,
        job: r#"up; ready; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; echo '{"mt":"step","samples":10,"norms":{"small":8,"small_sq":-1,"large":64,"large_sq":2}}'; done; echo '{"mt":"done","samples":100}'"#,
        most: Ends(0, &["norms of gradients"]),
        but: &[(Exec, Meaningless(STREAMS)), (Under, Meaningless(STREAMS))] },
    Row { group: Report, name: "overlong", columns: &RUNNERS, given: "", act: Act::Wait,
        job: "up; ready; head -c 3000000 /dev/zero | tr '\\0' x; echo; steps 100; exit 0",
        most: Ends(0, &["too long|overlong|longer than"]),
        but: &[(Exec, Meaningless(STREAMS)), (Under, Meaningless(STREAMS))] },
    Row { group: Report, name: "unkillable", columns: FOLLOW, given: "", act: Act::Freeze,
        job: "mkdir -p /sys/fs/cgroup/freezer/@GROUP@; echo $$ > /sys/fs/cgroup/freezer/@GROUP@/cgroup.procs; up; ready; steps 10000",
        most: Ends(143, &["does not end"]),
        but: &[(Queue, Ends(1, &["does not end"]))] },
    Row { group: Report, name: "unkillable", columns: BECOME, given: "", act: Act::Freeze,
        job: "mkdir -p /sys/fs/cgroup/freezer/@GROUP@; echo $$ > /sys/fs/cgroup/freezer/@GROUP@/cgroup.procs; up; ready; steps 10000",
        most: Meaningless("nobody follows it"), but: &[] },
    Row { group: Report, name: "exited", columns: LAUNCH, given: "--restarts 0", act: Act::Wait,
        job: "ready; steps 20; echo last-words >&2; exit 17",
        most: Ends(1, &["last-words"]), but: &[] },
    Row { group: Report, name: "exited", columns: REST, given: "", act: Act::Wait,
        job: "ready; steps 20; echo last-words >&2; exit 17",
        most: Ends(1, &["last-words"]),
        but: &[(Exec, Ends(17, &["last-words"])), (Under, Ends(17, &["last-words"]))] },
    Row { group: Report, name: "exited at once", columns: &RUNNERS, given: "", act: Act::Wait,
        job: "echo last-words >&2; exit 17",
        most: Ends(1, &["last-words"]),
        but: &[(Exec, Ends(17, &["last-words"])), (Under, Ends(17, &["last-words"]))] },
    // It ends by itself only if it is measured for longer than it trains.
    Row { group: Report, name: "exited with strays", columns: &[Measuring], given: "--window 2 --max-window 2", act: Act::Wait,
        job: "sleep 77 > /dev/null 2>&1 & train",
        most: Ends(0, &["left were killed"]), but: &[] },
    // It ends by itself: one that has reached its target is ended with all that it started, which is not left behind.
    Row { group: Report, name: "exited with strays", columns: &[Elastic], given: "--restarts 0", act: Act::Wait,
        job: "sleep 77 > /dev/null 2>&1 & up; ready; steps 30; exit 3",
        most: Ends(1, &["left were killed"]), but: &[] },
    Row { group: Report, name: "exited with strays",
        columns: &[Rounds, Schedules, Cluster, Queue, Trial, Exec, Under], given: "", act: Act::Wait,
        job: "sleep 77 > /dev/null 2>&1 & train",
        most: Ends(0, &["left behind|were killed|was killed"]),
        but: &[(Exec, Meaningless("what a program leaves is not the queue's")), (Under, Ends(0, &[]))] },

    // Limits on time.
    Row { group: Limit, name: "ready", columns: LAUNCH, given: "--ready-timeout 1 --restarts 0", act: Act::Wait,
        job: "sleep 60", most: Ends(1, &["not ready after"]), but: &[] },
    Row { group: Limit, name: "ready", columns: REST, given: "", act: Act::Wait,
        job: "sleep 60", most: Meaningless(CALLER),
        but: &[(Queue, Meaningless(UNLIMITED)), (Trial, Ends(1, &["no progress|did not|5 s"])), (Measuring, Meaningless(OWN_LIMITS))] },
    Row { group: Limit, name: "stall", columns: LAUNCH, given: "--stall-timeout 1 --restarts 0", act: Act::Wait,
        job: "ready; step; sleep 60", most: Ends(1, &["no step for"]), but: &[] },
    Row { group: Limit, name: "stall", columns: REST, given: "", act: Act::Wait,
        job: "ready; step; sleep 60", most: Meaningless(CALLER),
        but: &[(Queue, Meaningless(UNLIMITED)), (Trial, Meaningless(BY_LIMIT)), (Measuring, Meaningless(OWN_LIMITS))] },
    Row { group: Limit, name: "task", columns: LAUNCH, given: "--task-timeout 1 --restarts 0", act: Act::Wait,
        job: "ready; steps 10000", most: Ends(1, &["not done after"]),
        but: &[(Elastic, Acts(1, &["not done after"]))] },
    Row { group: Limit, name: "task", columns: REST, given: "", act: Act::Wait,
        job: "ready; steps 10000", most: Meaningless(CALLER),
        but: &[(Queue, Meaningless(UNLIMITED)), (Trial, Ends(0, &["samples/s"])), (Measuring, Ends(0, &["samples_per_s"]))] },
    // Longer than the grace: killed after it, and not before.
    Row { group: Limit, name: "grace ends", columns: &[Rounds, Elastic, Schedules, Cluster, Queue], given: "--grace 1", act: Act::Stop,
        job: "trap '' TERM; up; ready; steps 10000", most: Ends(143, &["took>1", "took<7"]),
        but: &[(Queue, Ends(1, &["took>1", "took<7"]))] },
    Row { group: Limit, name: "grace ends", columns: &[Trial, Measuring, Exec, Under], given: "", act: Act::Stop,
        job: "trap '' TERM; up; ready; steps 10000", most: Ends(143, &["took<19"]),
        but: &[(Exec, Ends(137, &["took<19"])), (Under, Meaningless("it becomes the program, which ignores the signal"))] },

    // Pauses.
    Row { group: Pause, name: "machine", columns: LAUNCH, given: "--stall-timeout 2 --restarts 0", act: Act::Pause(Paused::All),
        job: "up; ready; steps 400; exit 0", most: Ends(0, &["!no step for", r#"!"event":"restart""#]), but: &[] },
    Row { group: Pause, name: "machine", columns: &[Queue, Trial, Exec, Under], given: "", act: Act::Pause(Paused::All),
        job: "train", most: Ends(0, &[]), but: &[] },
    // 50 samples a second, less what it takes to start a program; with the pause it would be 10 to 20.
    Row { group: Pause, name: "machine", columns: &[Measuring], given: "--window 2 --max-window 3", act: Act::Pause(Paused::All),
        job: "up; ready; n=0; while [ $n -lt 60 ]; do n=$((n+1)); sleep 0.2; step; done",
        most: Ends(0, &[r#""samples_per_s":49|"samples_per_s":48|"samples_per_s":47|"samples_per_s":46|"samples_per_s":45|"samples_per_s":44|"samples_per_s":43|"samples_per_s":42"#]),
        but: &[] },
    Row { group: Pause, name: "runner", columns: LAUNCH, given: "--stall-timeout 2 --restarts 0", act: Act::Pause(Paused::Runner),
        job: "up; ready; steps 700; exit 0", most: Ends(0, &["!no step for", r#"!"event":"restart""#]), but: &[] },
    Row { group: Pause, name: "runner", columns: &[Queue, Trial, Measuring], given: "", act: Act::Pause(Paused::Runner),
        job: "up; ready; steps 100; exit 0", most: Ends(0, &[]), but: &[] },
    Row { group: Pause, name: "runner", columns: BECOME, given: "", act: Act::Wait, job: "train", most: Meaningless(ITSELF), but: &[] },
    Row { group: Pause, name: "clock forward", columns: LAUNCH,
        given: "--stall-timeout 60 --ready-timeout 60 --restarts 0", act: Act::Jump("3600"),
        job: "train", most: Ends(0, &["!no step for", "!not done after", r#"!"event":"restart""#]), but: &[] },
    Row { group: Pause, name: "clock forward", columns: &[Queue, Trial, Measuring], given: "", act: Act::Jump("3600"),
        job: "train", most: Ends(0, &[]), but: &[] },
    Row { group: Pause, name: "clock forward", columns: BECOME, given: "", act: Act::Wait, job: "train", most: Meaningless(CALLER), but: &[] },
    Row { group: Pause, name: "clock back", columns: LAUNCH,
        given: "--stall-timeout 60 --ready-timeout 60 --restarts 0", act: Act::Jump("-3600"),
        job: "train", most: Ends(0, &["!no step for", "!not done after", r#"!"event":"restart""#]), but: &[] },
    Row { group: Pause, name: "clock back", columns: &[Queue, Trial, Measuring], given: "", act: Act::Jump("-3600"),
        job: "train", most: Ends(0, &[]), but: &[] },
    Row { group: Pause, name: "clock back", columns: BECOME, given: "", act: Act::Wait, job: "train", most: Meaningless(CALLER), but: &[] },

    // Signals to what runs the jobs. A queue's server starts its jobs again when it is next needed.
    Row { group: Signal, name: "TERM", columns: &RUNNERS, given: "", act: Act::Send(&[SIGTERM]),
        job: "if [ -e saved ]; then train; else exec python3 save.py; fi",
        most: Ends(143, &["file: saved"]),
        but: &[(Queue, Ends(0, &["file: saved"])), (Exec, Meaningless(ITSELF)), (Under, Meaningless(ITSELF))] },
    Row { group: Signal, name: "INT", columns: &RUNNERS, given: "", act: Act::Send(&[SIGINT]),
        job: "if [ -e saved ]; then train; else exec python3 save.py; fi",
        most: Ends(130, &["file: saved"]),
        but: &[(Queue, Ends(0, &["file: saved"])), (Exec, Meaningless(ITSELF)), (Under, Meaningless(ITSELF))] },
    Row { group: Signal, name: "HUP", columns: &RUNNERS, given: "", act: Act::Send(&[SIGHUP]),
        job: "if [ -e saved ]; then train; else exec python3 save.py; fi",
        most: Ends(129, &["file: saved"]),
        but: &[(Queue, Meaningless("a server outlives its terminal")), (Exec, Meaningless(ITSELF)), (Under, Meaningless(ITSELF))] },
    none(Signal, "HUP to a server", &[Rounds, Elastic, Schedules, Cluster, Trial, Measuring, Exec, Under], "it has a terminal"),
    Row { group: Signal, name: "HUP to a server", columns: &[Queue], given: "", act: Act::Send(&[SIGHUP]),
        job: "up; ready; steps 200; exit 0", most: Ends(0, &[r#""starts":1"#]), but: &[] },
    // At once, without grace and with a core dump, is what this signal is for; still nothing is left.
    Row { group: Signal, name: "QUIT", columns: &RUNNERS, given: "", act: Act::Send(&[SIGQUIT]),
        job: "if [ -e up ]; then train; else exec python3 save.py; fi",
        most: Ends(131, &[]),
        but: &[(Queue, Ends(0, &[r#""starts":2"#])), (Exec, Meaningless(ITSELF)), (Under, Meaningless(ITSELF))] },
    Row { group: Signal, name: "TERM twice", columns: LAUNCH, given: "--grace 60", act: Act::Send(&[SIGTERM, SIGTERM]),
        job: "trap '' TERM; up; ready; steps 10000", most: Ends(143, &["took<8"]), but: &[] },
    Row { group: Signal, name: "TERM twice", columns: &[Trial, Measuring], given: "", act: Act::Send(&[SIGTERM, SIGTERM]),
        job: "trap '' TERM; up; ready; steps 10000", most: Ends(143, &["took<8"]), but: &[] },
    Row { group: Signal, name: "TERM twice", columns: &[Queue, Exec, Under], given: "", act: Act::Wait, job: "train",
        most: Meaningless(ITSELF), but: &[(Queue, Meaningless("the server would start it again"))] },
    Row { group: Signal, name: "TSTP and CONT", columns: LAUNCH, given: "--stall-timeout 2 --restarts 0",
        act: Act::Send(&[SIGTSTP, SIGTSTP, SIGTSTP, SIGTSTP, SIGTSTP, SIGTSTP, SIGCONT]),
        job: "up; ready; steps 800; exit 0", most: Ends(0, &["!no step for", r#"!"event":"restart""#]), but: &[] },
    Row { group: Signal, name: "TSTP and CONT", columns: REST, given: "",
        act: Act::Send(&[SIGTSTP, SIGTSTP, SIGCONT]),
        job: "up; ready; steps 200; exit 0", most: Ends(0, &[]), but: &[] },

    // What stands between a training and the signal that stops it: every process has the grace.
    Row { group: Death, name: "alone", columns: &RUNNERS, given: "", act: Act::Stop,
        job: "exec python3 save.py", most: Ends(143, &["file: saved"]),
        but: &[(Queue, Ends(1, &["file: saved"])), (Exec, Ends(0, &["file: saved"])), (Under, Ends(0, &["file: saved"]))] },
    Row { group: Death, name: "behind a shell", columns: &RUNNERS, given: "", act: Act::Stop,
        job: "python3 save.py; echo over", most: Ends(143, &["file: saved"]),
        but: &[(Queue, Ends(1, &["file: saved"])), (Exec, Ends(143, &["file: saved"]))] },
    Row { group: Death, name: "in a pipeline", columns: &RUNNERS, given: "", act: Act::Stop,
        job: "python3 save.py | cat", most: Ends(143, &["file: saved"]),
        but: &[(Queue, Ends(1, &["file: saved"])), (Exec, Ends(143, &["file: saved"]))] },
    Row { group: Death, name: "behind a wrapper", columns: &RUNNERS, given: "", act: Act::Stop,
        job: "exec timeout 100 sh -c 'python3 save.py; echo over'", most: Ends(143, &["file: saved"]),
        but: &[(Queue, Ends(1, &["file: saved"])), (Exec, Ends(143, &["file: saved"]))] },
    Row { group: Death, name: "in a session of its own", columns: &RUNNERS, given: "", act: Act::Stop,
        job: "setsid -w python3 save.py; echo over", most: Ends(143, &["file: saved"]),
        but: &[(Queue, Ends(1, &["file: saved"])), (Exec, Ends(143, &["file: saved"]))] },
    Row { group: Death, name: "forked twice", columns: &RUNNERS, given: "", act: Act::Stop,
        job: "(setsid python3 save.py &) ; until [ -e saved ]; do sleep 0.1; done", most: Ends(143, &["file: saved"]),
        but: &[(Queue, Ends(1, &["file: saved"])), (Exec, Ends(143, &["file: saved"]))] },

    // What a process inherits, from whoever added the job: a queue's server was started by somebody else.
    Row { group: Origin, name: "umask", columns: &RUNNERS, given: "", act: Act::Wait,
        job: "echo umask=$(umask) > told; train", most: Ends(0, &["umask=0027"]), but: &[] },
    Row { group: Origin, name: "niceness", columns: &RUNNERS, given: "", act: Act::Wait,
        job: "echo nice=$(nice) > told; train", most: Ends(0, &["nice=3"]), but: &[] },
    Row { group: Origin, name: "open files", columns: &RUNNERS, given: "", act: Act::Wait,
        job: "echo files=$(ulimit -n) > told; train", most: Ends(0, &["files=333"]), but: &[] },
    Row { group: Origin, name: "processors", columns: &RUNNERS, given: "", act: Act::Wait,
        job: "grep Cpus_allowed_list /proc/self/status > told; train", most: Ends(0, &["Cpus_allowed_list:\t0\n"]), but: &[] },
    Row { group: Origin, name: "descriptors", columns: &RUNNERS, given: "", act: Act::Wait,
        job: "ls -l /proc/$$/fd | grep -c held > told; train", most: Ends(0, &["file: told\n0\n"]),
        but: &[(Exec, Ends(0, &["file: told\n1\n"])), (Under, Ends(0, &["file: told\n1\n"]))] },

    // Out of memory.
    Row { group: Death, name: "out of memory after its neighbour", columns: &[Queue], given: "", act: Act::Wait,
        job: "if [ -e up ]; then exit 0; fi; up; mt add --queue q -- sleep 1 > /dev/null; sleep 0.7; echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >&2; sleep 1.5; exit 1",
        most: Ends(0, &[r#""starts":2"#]), but: &[] },
    none(Death, "out of memory after its neighbour", &[Rounds, Elastic, Schedules, Cluster, Trial, Measuring, Exec, Under],
        "only a queue starts it again alone"),
    none(Death, "out of memory by its last line", BECOME, "its end is the caller's"),
    Row { group: Death, name: "out of memory by its last line", columns: LAUNCH, given: "--restarts 0", act: Act::Wait,
        job: "up; ready; steps 20; echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >&2; exit 1",
        most: Ends(1, &["out of memory|memory was insufficient|lack of memory"]), but: &[] },
    // In a queue it ran beside another, and is started again alone.
    Row { group: Death, name: "out of memory by its last line", columns: &[Queue], given: "", act: Act::Wait,
        job: "if [ -e up ]; then exit 0; fi; up; mt add --queue q -- sleep 4 > /dev/null; sleep 1; echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >&2; exit 1",
        most: Ends(0, &[r#""starts":2"#]), but: &[] },
    Row { group: Death, name: "out of memory by its last line", columns: &[Trial, Measuring], given: "", act: Act::Wait,
        job: "up; ready; steps 20; echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >&2; exit 1",
        most: Ends(1, &["out of memory|memory was insufficient|lack of memory"]), but: &[] },
    none(Death, "out of memory before its last line", BECOME, "its end is the caller's"),
    Row { group: Death, name: "out of memory before its last line", columns: LAUNCH, given: "--restarts 0", act: Act::Wait,
        job: "up; ready; steps 20; echo 'jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes.
--------------------
For simplicity, JAX has removed its internal frames.' >&2; exit 1",
        most: Ends(1, &["out of memory|Out of memory|memory was insufficient|lack of memory"]), but: &[] },
    // In a queue it ran beside another, and is started again alone.
    Row { group: Death, name: "out of memory before its last line", columns: &[Queue], given: "", act: Act::Wait,
        job: "if [ -e up ]; then exit 0; fi; up; mt add --queue q -- sleep 4 > /dev/null; sleep 1; echo 'jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes.' >&2; echo 'For simplicity, JAX has removed its internal frames.' >&2; exit 1",
        most: Ends(0, &[r#""starts":2"#]), but: &[] },
    Row { group: Death, name: "out of memory before its last line", columns: &[Trial, Measuring], given: "", act: Act::Wait,
        job: "up; ready; steps 20; echo 'jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes.
--------------------
For simplicity, JAX has removed its internal frames.' >&2; exit 1",
        most: Ends(1, &["out of memory|Out of memory|memory was insufficient|lack of memory"]), but: &[] },
    none(Death, "out of memory by its control group", BECOME, "its end is the caller's"),
    Row { group: Death, name: "out of memory by its control group", columns: LAUNCH, given: "--restarts 0", act: Act::Wait,
        job: "for g in /sys/fs/cgroup/memory /sys/fs/cgroup; do [ -w $g/cgroup.procs ] && break; done; g=$g/@GROUP@; mkdir -p $g
[ -e $g/memory.limit_in_bytes ] || [ -e $g/memory.max ] || kill -9 $$; for f in memory.limit_in_bytes memory.max; do [ -e $g/$f ] && echo 40000000 > $g/$f; done
up; ready; steps 20; sh -c \"echo \\$\\$ > $g/cgroup.procs; exec python3 -c 'x = bytearray(400000000)'\"; exit $?",
        most: Ends(1, &["137|signal 9|SIGKILL"]), but: &[] },
    Row { group: Death, name: "out of memory by its control group", columns: &[Queue, Trial, Measuring], given: "", act: Act::Wait,
        job: "for g in /sys/fs/cgroup/memory /sys/fs/cgroup; do [ -w $g/cgroup.procs ] && break; done; g=$g/@GROUP@; mkdir -p $g
[ -e $g/memory.limit_in_bytes ] || [ -e $g/memory.max ] || kill -9 $$; for f in memory.limit_in_bytes memory.max; do [ -e $g/$f ] && echo 40000000 > $g/$f; done
up; ready; steps 20; sh -c \"echo \\$\\$ > $g/cgroup.procs; exec python3 -c 'x = bytearray(400000000)'\"; exit $?",
        most: Ends(1, &["137|signal 9|SIGKILL"]), but: &[] },
    // From outside, as the kernel does when the machine runs out of memory.
    Row { group: Death, name: "killed by signal 9", columns: LAUNCH, given: "--restarts 0", act: Act::KillJob,
        job: "up; ready; step; exec sleep 60", most: Ends(1, &["signal 9|SIGKILL"]), but: &[] },
    Row { group: Death, name: "killed by signal 9", columns: REST, given: "", act: Act::KillJob,
        job: "up; ready; step; exec sleep 60", most: Ends(1, &["signal 9|SIGKILL"]),
        but: &[(Exec, Ends(137, &[])), (Under, Ends(137, &[]))] },
    none(Death, "no such program", BECOME, "its end is the caller's"),
    Row { group: Death, name: "no such program", columns: LAUNCH, given: "--restarts 0", act: Act::Wait,
        job: "exec mt-no-such-program", most: Ends(1, &["mt-no-such-program"]), but: &[] },
    Row { group: Death, name: "no such program", columns: &[Queue, Trial, Measuring], given: "", act: Act::Wait,
        job: "exec mt-no-such-program", most: Ends(1, &["mt-no-such-program"]), but: &[] },
];
