//! Columns of the table: what runs jobs, and how each is started with the job of a cell.

/// Something that runs jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// `mt-launch` of a plan.
    Rounds,
    /// `mt-launch --controller`.
    Elastic,
    /// `mt-launch` of a schedule.
    Schedules,
    /// `mt-cluster run`.
    Cluster,
    /// `mt add`, and the server behind it.
    Queue,
    /// `mt sweep`; only for its options, since its jobs are the queue's.
    Sweep,
    /// `mt queue`; only for its options.
    Server,
    /// `mt cancel`; only for its options.
    Cancel,
    /// `mt try`.
    Trial,
    /// `mt-profile --device cpu`.
    Measuring,
    /// `mt exec`.
    Exec,
    /// `mt-launch exec`.
    Under,
}

use Column::{
    Cancel, Cluster, Elastic, Exec, Measuring, Queue, Rounds, Schedules, Server, Sweep, Trial,
    Under,
};

/// All columns.
pub const COLUMNS: [Column; 12] = [
    Rounds, Elastic, Schedules, Cluster, Queue, Sweep, Server, Cancel, Trial, Measuring, Exec,
    Under,
];

/// Those that differ in how they run a job.
pub const RUNNERS: [Column; 9] = [
    Rounds, Elastic, Schedules, Cluster, Queue, Trial, Measuring, Exec, Under,
];

/// Those that start jobs and follow them; the others become the program.
pub const FOLLOW: &[Column] = &[Rounds, Elastic, Schedules, Cluster, Queue, Trial, Measuring];

/// Those that run a document to its end.
pub const LAUNCH: &[Column] = &[Rounds, Elastic, Schedules, Cluster];

/// Those of `mt-launch` itself.
pub const PIPE: &[Column] = &[Rounds, Elastic, Schedules];

/// Those that become the program.
pub const BECOME: &[Column] = &[Exec, Under];

/// Those with a server.
const QUEUES: [Column; 5] = [Queue, Sweep, Server, Cancel, Exec];

/// Starts a server on the processors.
const SERVE: &str = "mt queue --queue q --device cpu > /dev/null || exit 3";

/// Waits for the jobs, and tells all about them.
const TELL: &str = "mt wait --queue q 1; rc=$?; mt status --queue q --all
mt status --queue q --all --json; mt logs --queue q 1; exit $rc";

/// Changes what processes inherit, once the server of a queue runs.
const CHANGED: &str = "umask 027; renice -n 3 $$ > /dev/null; ulimit -n 333; exec 9> held; taskset -pc 0 $$ > /dev/null;";

impl Column {
    /// The program and its verb.
    pub const fn program(self) -> &'static str {
        match self {
            Rounds | Elastic | Schedules => "mt-launch",
            Cluster => "mt-cluster run",
            Queue => "mt add",
            Sweep => "mt sweep",
            Server => "mt queue",
            Cancel => "mt cancel",
            Trial => "mt try",
            Measuring => "mt-profile",
            Exec => "mt exec",
            Under => "mt-launch exec",
        }
    }

    /// Whether a server remains when the command has ended.
    pub fn has_server(self) -> bool {
        QUEUES.contains(&self)
    }

    /// Options that keep a cell short, unless the row gives them.
    const fn short(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Rounds => &[
                ("--backoff", "0.05"),
                ("--grace", "2"),
                ("--runs", "runs"),
                ("--progress-every", "0"),
            ],
            Elastic | Schedules | Cluster => {
                &[("--backoff", "0.05"), ("--grace", "2"), ("--runs", "runs")]
            }
            Trial => &[("--seconds", "1"), ("--limit", "5")],
            Measuring => &[
                ("--window", "0.2"),
                ("--max-window", "0.4"),
                ("--budget", "1"),
            ],
            Under => &[("--share", "50"), ("--device", "cpu"), ("--runs", "runs")],
            Queue | Sweep | Server | Cancel | Exec => &[],
        }
    }

    /// The line of bash that runs the job under this runner with further words, by whom an origin has been changed.
    pub fn line(self, given: &str, is_changed: bool) -> String {
        let changed = if is_changed { CHANGED } else { "" };
        let held = if is_changed { "exec 9> held; " } else { "" };
        // A task of a plan has its own share.
        let has = |name: &str| {
            let same = |word| word == name || (name, word) == ("--share", "--task");
            given.split(' ').any(same)
        };
        let short = self.short().iter().filter(|(name, _)| !has(name));
        let mut words: Vec<String> = short
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        words.push(given.to_owned());
        let words = words.join(" ");
        match self {
            Rounds => format!("{changed} exec mt-launch {words} plan.json"),
            Elastic => {
                format!("{changed} exec mt-launch {words} workload.json --controller mt-elastic --gpus 1")
            }
            Schedules => format!("{changed} exec mt-launch {words} schedule.json"),
            Cluster => format!("{changed} exec mt-cluster run {words} schedule.json"),
            // The grace may be an option of the job or of the server.
            Queue => format!(
                "{held}{SERVE}; {changed} mt add --queue q {words} -- sh job.sh || {{ rc=$?; case '{words}' in *grace*) ;; *) exit $rc;; esac
                mt queue --queue q {words} && mt add --queue q -- sh job.sh || exit $rc; }}; {TELL}"
            ),
            Sweep => format!("{SERVE}; mt sweep --queue q {words} -- sh job.sh || exit; {TELL}"),
            Server => format!(
                "{SERVE}; mt queue --queue q {words} || exit; mt add --queue q -- sh job.sh; {TELL}"
            ),
            Cancel => format!(
                "{SERVE}; mt add --queue q -- sh job.sh; until [ -e up ]; do sleep 0.05; done
                mt cancel --queue q {words} || exit; {TELL}"
            ),
            Trial => format!("{changed} exec mt try 'sh job.sh' {words}"),
            Measuring => format!("{changed} exec mt-profile {words} workload.json"),
            Exec => format!("{SERVE}; {changed} exec mt exec --queue q {words} -- sh job.sh"),
            Under => format!("{changed} exec mt-launch exec {words} -- sh job.sh"),
        }
    }
}
