use std::path::PathBuf;

use cli::{Console, Exit, Failure, Input, Output};
use doc::{Model, Profile};
use predict::{Dataset, FitOptions, Fitted, Method, fit, fit_by_merit, summary};

use crate::args::Args;
use crate::judge;

/// Writes a model for every profile.
pub fn run(args: Args, console: &Console) -> Result<Exit, Failure> {
    let input = Input::open(&args.stream.files, "profiles", console)?;
    let test = args.test.map(|path| read(path, console)).transpose()?;
    let mut output = Output::open(args.stream.output.as_deref(), args.stream.pretty)?;
    for profile in input.profiles() {
        let profile = profile?;
        let data = Dataset::from_profile(&profile);
        let fitted = learn(&data, args.method.family()).map_err(|error| {
            let name = profile.header.workload.id.as_deref();
            Failure::Input(format!("{}: {error}", name.unwrap_or("profile")))
        })?;
        warn(&profile, &fitted, console);
        if !args.quiet {
            console.say(&summary::text(&profile, &data, &fitted));
        }
        if let Some(test) = &test {
            console.say(&judge::text(&fitted.predictor, &profile, test)?);
        }
        output.document(&model(profile, &fitted, console))?;
    }
    output.finish()?;
    Ok(Exit::Done)
}

/// The one profile of a file.
fn read(path: PathBuf, console: &Console) -> Result<Profile, Failure> {
    let input = Input::open(&[path], "a profile", console)?;
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

fn warn(profile: &Profile, fitted: &Fitted, console: &Console) {
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
