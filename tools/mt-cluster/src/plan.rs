//! `mt-cluster plan`.

use std::time::{Duration, Instant};

use cli::{Console, Exit, Failure};
use cluster::switching::Mode;
use cluster::{PlanOptions, Policy, Request, answer, explained};
use doc::Cluster;

use crate::args::PlanArgs;

/// Writes a schedule for every cluster.
pub fn run(args: &PlanArgs, console: &Console) -> Result<Exit, Failure> {
    if !args.time_limit.iter().all(|&limit| limit > 0.0) {
        let text = "--time-limit: give a number of seconds above 0";
        return Err(Failure::Usage(text.to_owned()));
    }
    // A limit that exceeds the range of `Duration` is no limit.
    let limit = (args.time_limit).and_then(|limit| Duration::try_from_secs_f64(limit).ok());
    let rates = ::drive::solo_rates(&args.profile, console)?;
    args.stream
        .each("clusters", console, |mut cluster: Cluster| {
            rates.apply(&mut cluster).map_err(Failure::Input)?;
            let request = request(args, limit.and_then(|l| Instant::now().checked_add(l)));
            let mut schedule =
                answer(cluster, &request).map_err(|e| Failure::Input(e.to_string()))?;
            if args.explain {
                console.note(&explained(&schedule));
            }
            let own = console.provenance(Some(args.seed.seed), None);
            schedule.provenance.push(own);
            Ok(schedule)
        })?;
    Ok(Exit::Done)
}

fn request(args: &PlanArgs, deadline: Option<Instant>) -> Request {
    let usual = PlanOptions::default();
    Request {
        // `all` is not a policy: it compares all policies.
        policy: Policy::named(&args.policy).unwrap_or(Policy::Hare),
        compare: args.policy == "all",
        switching: args.switching.as_deref().and_then(Mode::named),
        options: PlanOptions {
            seed: args.seed.seed,
            starts: args.effort.unwrap_or(usual.starts),
            deadline,
            patient: args.effort.is_none(),
            ..usual
        },
    }
}
