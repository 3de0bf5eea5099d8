//! `mt-cluster online`.

use cli::{Console, Exit, Failure};
use cluster::{Settings, answer_online};
use doc::Cluster;

use crate::args::OnlineArgs;
use crate::queue;

/// Plays every cluster and writes what happened as a schedule.
pub fn run(args: &OnlineArgs, console: &Console) -> Result<Exit, Failure> {
    let settings = Settings {
        effort: args.effort,
        aging: if args.aging == 0.0 {
            f64::INFINITY
        } else {
            args.aging
        },
        seed: args.seed.seed,
    };
    settings
        .check(args.noise)
        .map_err(|e| Failure::Usage(e.to_string()))?;
    if let Some(events) = &args.events {
        return queue::run(args, events, settings, console);
    }
    args.stream.each("clusters", console, |cluster: Cluster| {
        let (mut schedule, played) = answer_online(cluster, args.noise, settings)
            .map_err(|e| Failure::Input(e.to_string()))?;
        console.note(&format!(
            "an event was answered in {:.1} ms on average, {:.1} ms at most",
            1e3 * played.mean.as_secs_f64(),
            1e3 * played.slowest.as_secs_f64()
        ));
        schedule
            .provenance
            .push(console.provenance(Some(args.seed.seed), None));
        Ok(schedule)
    })?;
    Ok(Exit::Done)
}
