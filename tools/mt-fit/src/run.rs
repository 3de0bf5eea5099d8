use std::path::Path;

use cli::{Console, Exit, Failure, Input, Output};
use doc::{Measurement, Model, Profile, RunEvent};
use efficiency::Evidence;
use predict::runs::{self, RunError};
use predict::{Dataset, FitOptions, Fitted, Method, fit, fit_by_merit, summary};

use crate::args::Args;
use crate::judge;

/// Writes a model for every profile, fitted to the profile and the runs that follow it.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let input = Input::open(&args.stream.files, "profiles", console)?;
    let test = args
        .test
        .as_deref()
        .map(|path| read(path, console))
        .transpose()?;
    let mut output = Output::open(args.stream.output.as_deref(), args.stream.pretty)?;
    // A profile is fitted when the next one begins, because runs may follow it.
    let mut open: Option<Profile> = None;
    let mut evidence = Evidence::default();
    for measurement in input.measurements() {
        match measurement? {
            Measurement::Profile(next) => {
                let shown = std::mem::take(&mut evidence);
                evidence.add_profile(&next);
                if let Some(profile) = open.replace(*next) {
                    one(profile, &shown, &args, test.as_ref(), &mut output, console)?;
                }
            }
            Measurement::Run(events) => {
                open = Some(joined(open, &events, console)?);
                evidence.add_run(&events);
            }
        }
    }
    if let Some(profile) = open {
        one(
            profile,
            &evidence,
            &args,
            test.as_ref(),
            &mut output,
            console,
        )?;
    }
    output.finish()?;
    Ok(Exit::Done)
}

/// Writes the model of a profile.
fn one(
    mut profile: Profile,
    shown: &Evidence,
    args: &Args,
    test: Option<&Profile>,
    output: &mut Output,
    console: &Console,
) -> Result<(), Failure> {
    let data = Dataset::from_profile(&profile);
    let fitted = learn(&data, args.method.family()).map_err(|error| {
        let name = profile.header.workload.id.as_deref();
        Failure::Input(format!("{}: {error}", name.unwrap_or("profile")))
    })?;
    warn(&profile, &data, &fitted, console);
    if !args.quiet {
        console.say(&summary::text(&profile, &data, &fitted, console.width()));
    }
    if let Some(test) = test {
        console.say(&judge::text(&fitted.predictor, &profile, test)?);
    }
    for task in &mut profile.header.workload.tasks {
        let finding = shown.of_task(task);
        if let Some(reason) = finding.reason.filter(|_| !args.quiet) {
            console.note(&format!("{}: {reason}", task.id));
        }
        task.efficiency = finding.efficiency.or(task.efficiency.take());
    }
    output.document(&model(profile, &fitted, console))
}

/// Adds the measurements of a run to a profile; without a profile, the run becomes one. A run without steady
/// stretches adds nothing.
fn joined(
    profile: Option<Profile>,
    events: &[RunEvent],
    console: &Console,
) -> Result<Profile, Failure> {
    let failed = |error: RunError| Failure::Input(error.to_string());
    let Some(mut profile) = profile else {
        return runs::profile(events).map_err(failed);
    };
    match runs::join(&mut profile, events) {
        Ok(found) => console.note(&format!(
            "{found} configurations of a run are learnt from in addition to its profile"
        )),
        Err(nothing @ RunError::Nothing) => console.warn(&nothing.to_string()),
        Err(other) => return Err(failed(other)),
    }
    Ok(profile)
}

/// Reads a file that has exactly one profile.
fn read(path: &Path, console: &Console) -> Result<Profile, Failure> {
    let input = Input::open(&[path.to_owned()], "a profile", console)?;
    let mut profiles = input.profiles();
    match (profiles.next().transpose()?, profiles.next()) {
        (Some(profile), None) => Ok(profile),
        _ => Err(Failure::Usage(
            "--test: give a file with one profile".to_owned(),
        )),
    }
}

fn learn(data: &Dataset, method: Option<Method>) -> Result<Fitted, predict::PredictError> {
    let options = FitOptions::default();
    match method {
        Some(method) => fit(data, method, &options),
        None => fit_by_merit(data, &options),
    }
}

fn model(profile: Profile, fitted: &Fitted, console: &Console) -> Model {
    let measured = predict::candidates(&profile);
    let header = profile.header;
    let mut provenance_list = header.provenance;
    provenance_list.push(console.provenance(None, None));
    Model {
        predictor: fitted.params(&header.workload),
        aim: header.aim,
        measured,
        workload: header.workload,
        device: header.device,
        provenance: provenance_list,
    }
}

/// Number of contradictions that are reported individually.
const MOST_TOLD: usize = 5;

fn warn(profile: &Profile, data: &Dataset, fitted: &Fitted, console: &Console) {
    let contradictions = data.contradictions();
    let name = |task: usize| profile.header.workload.tasks[task].id.to_string();
    for contradiction in contradictions.iter().take(MOST_TOLD) {
        console.warn(&contradiction.reason(name));
    }
    if let Some(more @ 1..) = contradictions.len().checked_sub(MOST_TOLD) {
        console.warn(&format!("{more} more measurements contradict each other"));
    }
    // A spread below 2 % does not change any decision of a plan.
    if let Some(spread) = predict::between(profile).filter(|spread| *spread > 0.02) {
        console.note(&format!(
            "repeats of the same runs differ by {:.1} % (standard deviation) beyond their own standard errors; measured \
             co-runs count with it, and longer windows or --repeats help",
            100.0 * spread
        ));
    }
    let report = &fitted.report;
    if !profile.failures.is_empty() {
        let n = profile.failures.len();
        console.warn(&format!(
            "{n} configurations of the profile failed and are not used"
        ));
    }
    if report.zeros > 0 {
        let n = report.zeros;
        console.warn(&format!("{n} throughputs are zero and are not used"));
    }
    for (task, spec) in report.tasks.iter().zip(&profile.header.workload.tasks) {
        if task.rows == 0 {
            console.warn(&format!(
                "task {} was never measured; it is predicted from its FLOPs and bytes",
                spec.id
            ));
        }
    }
}
