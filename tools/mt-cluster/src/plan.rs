//! `mt-cluster plan`.

use std::path::Path;
use std::time::{Duration, Instant};

use cli::{Console, Exit, Failure, Input};
use cluster::switching::Mode;
use cluster::{Options, Policy, Request, SoloRates, answer, explained};
use doc::Cluster;

use crate::args::PlanArgs;

/// Writes a schedule for every cluster.
pub fn run(args: &PlanArgs, console: &Console) -> Result<Exit, Failure> {
    let limit = match args.time_limit.map(Duration::try_from_secs_f64) {
        Some(Ok(limit)) if !limit.is_zero() => Some(limit),
        None => None,
        Some(_) => {
            let text = "--time-limit: give a number of seconds above 0";
            return Err(Failure::Usage(text.to_owned()));
        }
    };
    let rates = profiles(&args.profile, console)?;
    args.stream
        .each("clusters", console, |mut cluster: Cluster| {
            rates.apply(&mut cluster).map_err(Failure::Input)?;
            let request = request(args, limit.map(|l| Instant::now() + l));
            let mut schedule =
                answer(cluster, &request).map_err(|e| Failure::Input(e.to_string()))?;
            if args.explain {
                console.note(&explained(&schedule));
            }
            schedule
                .provenance
                .push(console.provenance(Some(args.seed.seed), None));
            Ok(schedule)
        })?;
    Ok(Exit::Done)
}

fn request(args: &PlanArgs, deadline: Option<Instant>) -> Request {
    Request {
        // `all` is no policy: the portfolio is compared.
        policy: Policy::named(&args.policy).unwrap_or(Policy::Hare),
        compare: args.policy == "all",
        switching: args.switching.as_deref().and_then(Mode::named),
        options: Options {
            seed: args.seed.seed,
            starts: args.effort,
            deadline,
            ..Options::default()
        },
    }
}

fn profiles(arguments: &[String], console: &Console) -> Result<SoloRates, Failure> {
    let mut rates = SoloRates::default();
    for argument in arguments {
        let Some((kind, path)) = argument.split_once('=') else {
            let text = format!("--profile {argument}: give TYPE=FILE");
            return Err(Failure::Usage(text));
        };
        let input = Input::open(&[Path::new(path).to_owned()], "profiles", console)?;
        for profile in input.profiles() {
            rates.add(kind, &profile?);
        }
    }
    Ok(rates)
}
