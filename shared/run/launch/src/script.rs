//! Shows the commands that a launch would start, as shell lines.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

use cli::{one_line, shell_word};
use doc::{DeviceKind, PhaseKind};

use crate::launch::{Assignment, Launch};
use crate::settings::LaunchSettings;

/// The commands of every round with their environment, in the order in which they would start.
///
/// A line that ends in `&` runs beside the following ones. A launch executes nothing through a shell; the lines only
/// show argv and environment in a familiar form.
#[must_use]
pub fn shell_lines(launch: &Launch, rounds: Range<u32>, settings: &LaunchSettings) -> String {
    let mut text = String::new();
    // A comment has no quoting, and a line end would terminate it.
    let name = one_line(launch.plan.id.as_deref().unwrap_or("plan"));
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "# {name}: {} tasks on {}",
        launch.plan.tasks.len(),
        host::word(launch.workload.device.kind)
    );
    let assignments: Vec<Assignment<'_>> = launch.assignments().collect();
    let set = settings.supervision.passing.set();
    for round in rounds {
        let _ = writeln!(text, "# round {round}");
        let mut phases = launch.phases();
        phases.sort_by(|a, b| a.start.get().total_cmp(&b.start.get()));
        for phase in phases {
            let planned = match &launch.timeline {
                Some(_) => format!("at {:.3} s", phase.start.get()),
                None => "in its turn".to_owned(),
            };
            let task = &assignments[phase.task];
            let line = phase_line(launch, task, phase.kind, round, set);
            let _ = writeln!(text, "{line} # {planned}");
        }
        let _ = writeln!(text, "wait");
    }
    text
}

fn phase_line(
    launch: &Launch,
    task: &Assignment<'_>,
    kind: PhaseKind,
    round: u32,
    set: &BTreeMap<String, String>,
) -> String {
    let id = task.planned.id.as_str();
    let job = task.job();
    let argv = match kind {
        PhaseKind::Download => job.map(|j| j.download.as_slice()),
        PhaseKind::Compute => job.map(|j| j.argv.as_slice()),
        PhaseKind::Upload => job.map(|j| j.upload.as_slice()),
    };
    let verb = match kind {
        PhaseKind::Download => "download",
        PhaseKind::Compute => "compute",
        PhaseKind::Upload => "upload",
    };
    let Some(argv) = argv.filter(|a| !a.is_empty()) else {
        return format!(
            ": {verb} {id} batch={} share={}%",
            task.batch,
            task.share.percent()
        );
    };
    let mut words = vec!["env".to_owned()];
    if let Some(cwd) = job.and_then(|j| j.cwd.as_deref()) {
        words.push(format!("-C {}", shell_word(cwd)));
    }
    let variables = environment(launch, task, kind, round, set);
    // A variable whose name begins with a dash must not become an option.
    if variables.iter().any(|(name, _)| name.starts_with('-')) {
        words.push("--".to_owned());
    }
    words.extend(variables.iter().map(|(name, value)| variable(name, value)));
    let told = assignment(launch, task, kind, round);
    words.extend(told.arguments(argv).map(|a| shell_word(&a).into_owned()));
    words.push("&".to_owned());
    words.join(" ")
}

/// `NAME=VALUE` as a word. A name that is invalid in a shell is quoted with its value: `env` accepts it, and nothing
/// in it is executed.
fn variable(name: &str, value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.bytes().all(plain) {
        format!("{name}={}", shell_word(value))
    } else {
        shell_word(&format!("{name}={value}")).into_owned()
    }
}

/// The variables that a job gets in addition to the inherited ones.
#[must_use]
pub fn environment(
    launch: &Launch,
    task: &Assignment<'_>,
    kind: PhaseKind,
    round: u32,
    set: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let device = launch.workload.device.kind;
    let assignment = assignment(launch, task, kind, round);
    let mut own: BTreeMap<String, String> =
        task.job().map(|job| job.env.clone()).unwrap_or_default();
    own.extend(set.clone());
    let mut variables: Vec<(String, String)> = own.into_iter().collect();
    let protocol = assignment.variables(task.planned.id.as_str());
    variables.extend(protocol.into_iter().map(|(k, v)| (k.to_owned(), v)));
    if device == DeviceKind::Cuda && kind == PhaseKind::Compute {
        variables.push((
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE".to_owned(),
            task.share.percent().to_string(),
        ));
    }
    variables
}

/// The work of a job, as its environment describes it.
fn assignment(
    launch: &Launch,
    task: &Assignment<'_>,
    kind: PhaseKind,
    round: u32,
) -> jobs::Assignment {
    jobs::Assignment {
        batch: Some(task.batch),
        share: Some(task.share),
        device: host::word(launch.workload.device.kind),
        round,
        samples: task.samples().filter(|_| kind == PhaseKind::Compute),
        orders: false,
    }
}
