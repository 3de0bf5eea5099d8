//! `mt-cluster online`.

use cli::{Console, Exit, Failure};
use cluster::{Settings, answer_online};
use doc::Cluster;

use crate::args::OnlineArgs;
use crate::plan::{beyond, sign};

/// Plays every cluster and writes what happened as a schedule.
pub fn run(args: &OnlineArgs, console: &Console) -> Result<Exit, Failure> {
    let usage = |text: &str| Err(Failure::Usage(text.to_owned()));
    if !(0.0..1.0).contains(&args.noise) {
        return usage("--noise: give a part from 0 to below 1");
    }
    if !args.aging.is_finite() || args.aging < 0.0 {
        return usage("--aging: give a number, 0 or more");
    }
    let settings = Settings {
        effort: args.effort,
        aging: if args.aging > 0.0 {
            args.aging
        } else {
            f64::INFINITY
        },
        seed: args.seed.seed,
    };
    args.stream.each("clusters", console, |cluster: Cluster| {
        let (mut schedule, played) =
            answer_online(cluster, args.noise, settings).map_err(beyond)?;
        console.note(&format!(
            "an event was answered in {:.1} ms on average, {:.1} ms at most",
            1e3 * played.mean.as_secs_f64(),
            1e3 * played.slowest.as_secs_f64()
        ));
        sign(&mut schedule, args.seed.seed, console);
        Ok(schedule)
    })?;
    Ok(Exit::Done)
}
