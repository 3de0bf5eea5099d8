//! The pipe in one command: each tool writes its document into a folder.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use cli::{Console, Exit, Failure};
use jobs::Signals;

use crate::RunArgs;
use crate::tools::{missing, program};

/// Runs the tools one after another; the first that does not succeed ends it.
///
/// # Errors
/// The failure of the first tool that fails, with what was kept.
pub fn run(args: &RunArgs, console: &Console) -> Result<Exit, Failure> {
    if let Err(error) = fs::File::open(&args.workload) {
        return Err(match error.kind() {
            std::io::ErrorKind::NotFound => Failure::Input(format!(
                "{}: there is no such file; `mt init` writes a workload to begin with",
                args.workload.display()
            )),
            _ => Failure::file(&args.workload, &error),
        });
    }
    let folder = folder(args)?;
    let mut stages = Stages {
        folder: &folder,
        signals: Signals::install(&cli::ending_signals())
            .map_err(|error| Failure::Environment(error.to_string()))?,
        console,
    };
    let objective = word(args.objective);
    let workload = args.workload.display().to_string();
    let mut profile = vec![workload.as_str(), "--objective", &objective];
    let budget = args.budget.map(|n| n.to_string());
    if let Some(budget) = &budget {
        profile.extend(["--budget", budget]);
    }
    let device = args.device.map(word);
    if let Some(device) = &device {
        profile.extend(["--device", device]);
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let (samples, model, plan) = (at("profile.ndjson"), at("model.json"), at("plan.json"));
    let (timeline, events) = (at("timeline.json"), at("run.ndjson"));
    stages.run("profile", &[&profile[..], &["-o", &samples]].concat())?;
    stages.run("fit", &[&samples, "-o", &model])?;
    stages.run("solve", &[&model, "--objective", &objective, "-o", &plan])?;
    stages.run("overlap", &[&plan, "-o", &timeline])?;
    let mut shown = vec![plan.as_str(), &timeline];
    let mut launched = Ok(());
    if !args.no_launch {
        let mut launch = vec![timeline.as_str(), "-o", &events];
        if let Some(device) = &device {
            launch.extend(["--device", device]);
        }
        launched = stages.run("launch", &launch);
        shown.push(&events);
    }
    // A launch that failed is reported as well: the events say why.
    let page = at("report.html");
    stages.run(
        "report",
        &[&shown[..], &["--format", "html", "-o", &page]].concat(),
    )?;
    stages.run("report", &shown)?;
    console.say(&format!(
        "\n{page} has the pictures; the documents are beside it"
    ));
    launched.map(|()| Exit::Done)
}

/// Makes the folder, which must not be there: documents of another run may be in it.
fn folder(args: &RunArgs) -> Result<PathBuf, Failure> {
    let folder = args.output.clone().unwrap_or_else(|| {
        let stem = args
            .workload
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy();
        format!("{stem}-run").into()
    });
    if fs::symlink_metadata(&folder).is_ok() {
        return Err(Failure::Usage(format!(
            "the folder {} is there already; give another with -o DIR, or remove it",
            folder.display()
        )));
    }
    cli::make_folder(&folder).map(|()| folder)
}

/// The name of an argument's value.
fn word(value: impl clap::ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |v| v.get_name().to_owned())
}

struct Stages<'a> {
    folder: &'a Path,
    signals: Signals,
    console: &'a Console,
}

impl Stages<'_> {
    /// Runs one tool to its end, with our standard streams.
    fn run(&mut self, name: &str, arguments: &[&str]) -> Result<(), Failure> {
        let shown: Vec<_> = arguments.iter().map(|a| cli::shell_word(a)).collect();
        self.console
            .say(&format!("$ mt-{name} {}", shown.join(" ")));
        let child = Command::new(program(name)).args(arguments).spawn();
        let child = child.map_err(|error| missing(name, &error))?;
        let status = self.wait(child)?;
        // The tool has said why. A folder in which nothing is would be in the way of the next try.
        let stopped = |what: String| {
            let folder = self.folder.display();
            match fs::remove_dir(self.folder) {
                Ok(()) => format!("mt-{name} {what}"),
                Err(_) => format!(
                    "mt-{name} {what}; what there is until then is in {folder}, which is to be \
                     removed before the next try (or give another with -o DIR)"
                ),
            }
        };
        if let Some(signal) = self.signals.arrived().first.or(status.signal()) {
            if fs::remove_dir(self.folder).is_err() {
                let folder = self.folder.display();
                let text = format!("what there is until then is in {folder}");
                self.console.note(&text);
            }
            return Err(Failure::Signal(u8::try_from(signal).unwrap_or(u8::MAX)));
        }
        match status.code() {
            Some(0) => Ok(()),
            Some(1) => Err(Failure::Negative(stopped("answered no".to_owned()))),
            Some(2) => Err(Failure::Input(stopped("refused its input".to_owned()))),
            code => Err(Failure::Environment(stopped(format!(
                "ended with {}",
                code.unwrap_or_default()
            )))),
        }
    }

    /// Waits for a tool, and passes on what ends us: Ctrl-C reaches the tool by itself.
    fn wait(&mut self, mut child: Child) -> Result<ExitStatus, Failure> {
        const LOOK: Duration = Duration::from_millis(20);
        let failed = |error: std::io::Error| Failure::Environment(error.to_string());
        let pid = child.id().cast_signed();
        let mut passed = self.signals.arrived().count;
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok(status);
            }
            let arrived = self.signals.arrived();
            if arrived.count > passed {
                passed = arrived.count;
                if let Some(signal) = arrived.first {
                    jobs::pass_on(pid, signal);
                }
            }
            std::thread::sleep(LOOK);
        }
    }
}
