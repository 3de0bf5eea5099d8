//! The whole pipeline in one command: each tool writes its document into a folder.

use std::fs;
use std::path::{Path, PathBuf};

use cli::{Console, Exit, Failure, Input, ObjectiveArg, Output};
use doc::{Any, DeviceKind, EventPayload, Plan, Profile};
use jobs::Signals;
use units::Seconds;

use super::RunArgs;
use super::choice::Scheme;
use super::evidence;
use super::stages::Stages;

/// Documents of a run, which `--force` removes; documents of launches also have numbered names.
const DOCUMENTS: [&str; 7] = [
    "profile.ndjson",
    "model.json",
    "plan.json",
    "timeline.json",
    "launched.json",
    "launched-timeline.json",
    "report.html",
];

/// Pattern of the variables that jobs get: all, as from a shell. The separate tools pass on only a fixed list, for
/// users who plan on one machine and launch on another; here both are the same machine.
const WHOLE_ENVIRONMENT: &str = "*";

/// Runs the tools one after another until one fails.
///
/// # Errors
/// The failure of the first tool that fails, with a message about the files that were kept; [`Failure::Negative`] if
/// too little could be measured for a verdict.
pub fn run(args: &RunArgs, console: &Console) -> Result<Exit, Failure> {
    if let Err(error) = fs::File::open(&args.workload) {
        return Err(match error.kind() {
            std::io::ErrorKind::NotFound => Failure::Input(format!(
                "{}: there is no such file; `mt init` writes a first workload, `mt try CMD...` one \
                 for your own commands",
                args.workload.display()
            )),
            _ => Failure::file(&args.workload, &error),
        });
    }
    let folder = folder(args)?;
    let learns = learns(args, &folder, console);
    let signals = Signals::install(&cli::ending_signals())
        .map_err(|error| Failure::Environment(error.to_string()))?;
    let mut chain = Chain {
        args,
        console,
        stages: Stages::new(
            &folder,
            signals,
            console,
            match (learns, args.no_launch) {
                (true, _) => 2,
                (false, true) => 5,
                (false, false) => 6,
            },
        ),
        folder: &folder,
    };
    let (mut shown, mut launched) = (Vec::new(), Ok(()));
    if learns {
        launched = chain.learn(&mut shown);
    } else {
        chain.plan()?;
        shown.extend([chain.at("plan.json"), chain.at("timeline.json")]);
        if !args.no_launch {
            launched = chain.launch(&mut shown);
        }
    }
    // A failed launch also gets a report, because its events contain the reason, unless it failed before the first.
    shown.retain(|file| Path::new(file).exists());
    let reported = match shown.is_empty() {
        true => Ok(()),
        false => chain.report(&shown),
    };
    launched.and(reported).map(|()| Exit::Done)
}

struct Chain<'a> {
    args: &'a RunArgs,
    console: &'a Console,
    stages: Stages<'a>,
    folder: &'a Path,
}

impl Chain<'_> {
    fn at(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn report(&mut self, shown: &[String]) -> Result<(), Failure> {
        let page = self.at("report.html");
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        let html = [&shown[..], &["--format", "html", "-o", &page]].concat();
        self.stages.begin("report");
        self.stages.run("report", &html)?;
        self.stages.run("report", &shown)?;
        self.console.say(&format!(
            "\n{page} has the pictures; the documents are beside it"
        ));
        Ok(())
    }

    /// Profiles, fits, plans and orders.
    fn plan(&mut self) -> Result<(), Failure> {
        let args = self.args;
        let objective = self.objective();
        let workload = args.workload.display().to_string();
        let samples = self.at("profile.ndjson");
        let mut profile = vec![workload, "--objective".to_owned(), word(objective)];
        let mut option = |name: &str, value: Option<String>| {
            profile.extend(value.into_iter().flat_map(|v| [format!("--{name}"), v]));
        };
        option("budget", args.budget.map(|n| n.to_string()));
        option("window", args.window.map(|s| s.to_string()));
        option("device", args.device.map(word));
        option("resume", args.resume.then(|| samples.clone()));
        option("output", Some(samples.clone()));
        option("keep-env", Some(WHOLE_ENVIRONMENT.to_owned()));
        self.stages.begin("measure");
        let profile: Vec<&str> = profile.iter().map(String::as_str).collect();
        self.stages.run("profile", &profile)?;
        let mut cost = None;
        if let Some(Any::Profile(found)) = self.read("profile.ndjson")? {
            self.judge(&found)?;
            cost = found.end.map(|end| end.cost);
        }
        let model = self.at("model.json");
        let plan = self.at("plan.json");
        let timeline = self.at("timeline.json");
        self.stages.begin("learn");
        self.stages.run("fit", &[&samples, "-o", &model])?;
        self.stages.begin("plan");
        // If the user gave no objective, mt-solve also chooses progress when only the measurement revealed the value of
        // samples.
        let wish = args.objective.map(word);
        let mut solve = vec![model.as_str(), "-o", &plan];
        solve.extend(wish.iter().flat_map(|wish| ["--objective", wish]));
        self.stages.run("solve", &solve)?;
        if let (Some(cost), Some(Any::Plan(plan))) = (cost, self.read("plan.json")?) {
            self.pay_off(&plan, cost);
        }
        self.stages.begin("order");
        self.stages.run("overlap", &[&plan, "-o", &timeline])
    }

    /// The objective of the profile. A workload that cannot be read, or only once, is left to mt-profile.
    fn objective(&self) -> ObjectiveArg {
        let known = || {
            let file = Some(&self.args.workload).filter(|file| file.is_file())?;
            match read(file, self.console) {
                Ok(Some(Any::Workload(workload))) => Some(workload.knows_efficiency()),
                _ => None,
            }
        };
        let usual = || match known() {
            Some(true) => ObjectiveArg::Progress,
            _ => ObjectiveArg::Round,
        };
        self.args.objective.unwrap_or_else(usual)
    }

    /// Refuses a verdict if the profile lacks the necessary measurements.
    fn judge(&self, profile: &Profile) -> Result<(), Failure> {
        if let Some(why) = evidence::missing(profile) {
            let file = self.args.workload.display();
            let folder = self.folder.display();
            return Err(Failure::Negative(format!(
                "cannot tell whether sharing is worth it: {why}\nthen continue with mt run {file} --resume; what was measured is in {folder}"
            )));
        }
        Ok(())
    }

    /// Reports the cost of measuring, and either what the plan saves on the way to its targets, or after how many
    /// rounds of the plan the cost is recovered.
    fn pay_off(&self, plan: &Plan, cost: Seconds) {
        let Some(found) = plan.feasible() else { return };
        let paid = match (&found.target, &found.verdict) {
            (Some(target), _) => match target.one_after_another.get() - target.together.get() {
                saved if saved > 0.0 => {
                    format!("the plan saves {saved:.1} s to target against one after another")
                }
                _ => "the plan saves nothing to target against one after another".to_owned(),
            },
            (None, Some(verdict)) => match verdict.pay_off(cost) {
                Some(paid) => format!("paid {paid}"),
                None => return,
            },
            (None, None) => return,
        };
        let simulated = plan.model.as_ref().is_some_and(|m| m.device.simulated);
        let time = if simulated { "simulated" } else { "device" };
        self.console.say(&format!(
            "measuring took {:.1} s of {time} time: {paid}",
            cost.get()
        ));
    }

    /// Launches the best scheme of the plan; adds its reports to `shown`.
    fn launch(&mut self, shown: &mut Vec<String>) -> Result<(), Failure> {
        self.stages.begin("launch");
        let plan = match self.read("plan.json")? {
            Some(Any::Plan(plan)) => *plan,
            _ => return self.one("timeline.json", &[], shown),
        };
        let scheme = Scheme::best(&plan);
        self.console.say(&scheme.reason(&plan));
        match &scheme {
            Scheme::Planned => self.one("timeline.json", &[], shown),
            Scheme::Static(_) => {
                let file = self.write("launched.json", &scheme.plan(&plan))?;
                let timeline = self.at("launched-timeline.json");
                self.stages.run("overlap", &[&file, "-o", &timeline])?;
                self.one("launched-timeline.json", &[], shown)
            }
            Scheme::OneByOne => {
                self.write("launched.json", &scheme.plan(&plan))?;
                let mut seconds = Vec::new();
                for task in &plan.tasks {
                    let id = task.id.to_string();
                    self.one("launched.json", &["--only", &id], shown)?;
                    seconds.extend(shown.last().and_then(|run| makespan(run, self.console)));
                }
                let parts: Vec<String> = seconds.iter().map(|s| format!("{s:.1}")).collect();
                self.console.say(&format!(
                    "one after another, measured: {:.1} s ({} s, start-up included)",
                    seconds.iter().sum::<f64>(),
                    parts.join(" + ")
                ));
                Ok(())
            }
        }
    }

    /// Launches a document of the folder once.
    fn one(&mut self, what: &str, more: &[&str], shown: &mut Vec<String>) -> Result<(), Failure> {
        self.launch_once(&self.at(what), more, shown)
    }

    /// Launches a file once, with its events in a file of its own.
    fn launch_once(
        &mut self,
        what: &str,
        more: &[&str],
        shown: &mut Vec<String>,
    ) -> Result<(), Failure> {
        let free = names().find(|name| !self.folder.join(name).exists());
        let events = self.at(&free.unwrap_or_default());
        let chosen = self.args.logs.clone();
        let logs = chosen
            .unwrap_or_else(|| self.folder.join("logs"))
            .display()
            .to_string();
        let mut words = vec![what, "-o", &events, "--logs", &logs];
        words.extend(["--keep-env", WHOLE_ENVIRONMENT]);
        let device = self.args.device.map(word);
        words.extend(device.iter().flat_map(|device| ["--device", device]));
        words.extend(more);
        let launched = self.stages.run("launch", &words);
        shown.push(events);
        launched
    }

    fn write(&self, name: &str, plan: &Plan) -> Result<String, Failure> {
        let path = self.folder.join(name);
        let mut text = Vec::new();
        doc::write_pretty(&mut text, plan).map_err(|e| Failure::write(&e))?;
        let mut output = Output::open(Some(&path), false)?;
        output.text(&String::from_utf8_lossy(&text))?;
        output.finish()?;
        Ok(path.display().to_string())
    }

    /// The first document of a file in the folder.
    fn read(&self, name: &str) -> Result<Option<Any>, Failure> {
        read(&self.folder.join(name), self.console)
    }

    /// Launches the remaining rounds after earlier launches in the folder, and learns from those.
    fn learn(&mut self, shown: &mut Vec<String>) -> Result<(), Failure> {
        self.stages.begin("launch");
        let earlier: Vec<PathBuf> = names()
            .map(|name| self.folder.join(name))
            .take_while(|path| path.exists())
            .collect();
        let mut done = 0;
        for path in &earlier {
            if let Some(Any::Run(events)) = read(path, self.console)? {
                let whole =
                    |e: &&doc::RunEvent| matches!(e.payload, EventPayload::Round { ok: true, .. });
                done += u32::try_from(events.iter().filter(whole).count()).unwrap_or(u32::MAX);
            }
        }
        let earlier: Vec<String> = earlier.iter().map(|p| p.display().to_string()).collect();
        shown.extend(earlier.iter().cloned());
        let left = self.args.rounds.saturating_sub(done);
        if left == 0 {
            self.console
                .say(&format!("all {} rounds are done", self.args.rounds));
            return Ok(());
        }
        let (left, first) = (left.to_string(), done.to_string());
        let mut more = vec!["--learn", "--rounds", &left];
        if done > 0 {
            more.extend(["--round", &first]);
        }
        more.extend(earlier.iter().flat_map(|run| ["--known", run]));
        let workload = self.args.workload.display().to_string();
        self.launch_once(&workload, &more, shown)
    }
}

/// Whether to learn shares from the rounds instead of measuring first. It measures first in four cases: options of
/// measuring are given; the device is simulated, where nothing is trained and the plan is the goal; there are several
/// GPUs, for which only a plan divides the tasks; or the folder contains an earlier run that has measured.
fn learns(args: &RunArgs, folder: &Path, console: &Console) -> bool {
    let measures = args.measure_first
        || args.no_launch
        || args.objective.is_some()
        || args.budget.is_some()
        || args.window.is_some();
    // A workload that can be read only once is left to mt-profile, which also reports its errors.
    if measures || !args.workload.is_file() || folder.join("profile.ndjson").exists() {
        return false;
    }
    let Ok(Some(Any::Workload(mut workload))) = read(&args.workload, console) else {
        return false;
    };
    workload.device.kind = args.device.map_or(workload.device.kind, DeviceKind::from);
    let (kind, _) = host::resolve(&workload);
    matches!(kind, DeviceKind::Cpu | DeviceKind::Cuda) && workload.device.gpus == 1
}

/// File names for the events of successive launches.
fn names() -> impl Iterator<Item = String> {
    let numbered = (2..).map(|n| format!("run-{n}.ndjson"));
    std::iter::once("run.ndjson".to_owned()).chain(numbered)
}

fn read(path: &Path, console: &Console) -> Result<Option<Any>, Failure> {
    let input = Input::open(&[path.to_owned()], "a document", console)?;
    input.any().next().transpose()
}

/// Makespan of a run in seconds, from its summary; `None` without a summary.
fn makespan(run: &str, console: &Console) -> Option<f64> {
    let Ok(Some(Any::Run(events))) = read(Path::new(run), console) else {
        return None;
    };
    events.iter().rev().find_map(|event| match event.payload {
        EventPayload::Summary { makespan, .. } => Some(makespan.get()),
        _ => None,
    })
}

/// The folder of the run: a new one, or the folder of an earlier run if requested.
fn folder(args: &RunArgs) -> Result<PathBuf, Failure> {
    let folder = args.output.clone().unwrap_or_else(|| {
        let stem = args.workload.file_stem().unwrap_or_default();
        args.workload
            .with_file_name(format!("{}-run", stem.to_string_lossy()))
    });
    let there = fs::symlink_metadata(&folder).is_ok();
    if there && args.force {
        for name in DOCUMENTS {
            fs::remove_file(folder.join(name)).ok();
        }
        let runs = fs::read_dir(&folder).map_err(|error| Failure::file(&folder, &error))?;
        for run in runs.flatten() {
            let file = run.file_name();
            let name = file.to_string_lossy();
            if name.starts_with("run") && name.ends_with(".ndjson") {
                // If a file remains, the tool that would write it reports the error.
                fs::remove_file(run.path()).ok();
            }
        }
        return Ok(folder);
    }
    if there && args.resume {
        return Ok(folder);
    }
    if there {
        let file = args.workload.display();
        let folder = folder.display();
        return Err(Failure::Usage(format!(
            "the folder {folder} exists already: mt run {file} --resume continues it, --force starts over, -o DIR \
             uses another folder"
        )));
    }
    cli::make_folder(&folder).map(|()| folder)
}

/// The name of a value on the command line.
fn word(value: impl clap::ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |v| v.get_name().to_owned())
}
