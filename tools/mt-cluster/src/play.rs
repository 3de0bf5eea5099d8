//! `mt-cluster online`.

use cli::{Console, Exit, Failure};
use cluster::{OnlineSettings, answer_online};
use doc::Cluster;

use crate::args::OnlineArgs;

/// Plays every cluster's arrivals online, and writes what happened as a schedule.
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
        let files = &args.stream.files;
        let output = args.stream.output.as_deref();
        ::drive::live(files, settings, events, args.strict, output, console)?;
        return Ok(Exit::Done);
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
