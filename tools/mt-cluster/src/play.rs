//! `mt-cluster online`.

use std::path::Path;

use cli::{Console, Existing, Exit, Failure, Input, Output};
use cluster::{OnlineSettings, answer_online};
use doc::Cluster;

use crate::args::OnlineArgs;

/// Plays every cluster and writes what happened as a schedule.
pub fn run(args: &OnlineArgs, console: &Console) -> Result<Exit, Failure> {
    let never = args.aging == 0.0;
    let settings = OnlineSettings {
        effort: args.effort,
        aging: if never { f64::INFINITY } else { args.aging },
        seed: args.seed.seed,
    };
    let checked = settings.check(args.noise);
    checked.map_err(|e| Failure::Usage(e.to_string()))?;
    if let Some(events) = &args.events {
        return live(args, events, settings, console);
    }
    args.stream.each("clusters", console, |cluster: Cluster| {
        let (mut schedule, played) = answer_online(cluster, args.noise, settings)
            .map_err(|e| Failure::Input(e.to_string()))?;
        console.note(&format!(
            "an event was answered in {:.1} ms on average, {:.1} ms at most",
            1e3 * played.mean.as_secs_f64(),
            1e3 * played.slowest.as_secs_f64()
        ));
        let own = console.provenance(Some(args.seed.seed), None);
        schedule.provenance.push(own);
        Ok(schedule)
    })?;
    Ok(Exit::Done)
}

/// Drives a live system of the one cluster that is given.
fn live(
    args: &OnlineArgs,
    events: &Path,
    settings: OnlineSettings,
    console: &Console,
) -> Result<Exit, Failure> {
    let [file] = &args.stream.files[..] else {
        let text = "--events: give the one FILE with the cluster, beside the events";
        return Err(Failure::Usage(text.to_owned()));
    };
    let mut clusters = Input::open(std::slice::from_ref(file), "a cluster", console)?.documents();
    let nothing = || Failure::Input(format!("{}: there is no cluster", file.display()));
    let cluster: Cluster = clusters.next().ok_or_else(nothing)??;
    let mut output = Output::progressive(args.stream.output.as_deref(), Existing::default())?;
    let events = (events, args.strict);
    ::drive::live(cluster, settings, events, &mut output, console)?;
    output.finish()?;
    Ok(Exit::Done)
}
