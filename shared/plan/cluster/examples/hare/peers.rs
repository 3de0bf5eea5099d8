//! Others' schedulers on recorded traces, as rows of a benchmark: what their own simulator gave, and
//! the policies here.

use std::path::Path;

use cluster::Policy;
use cluster::import::Pairs;
use testkit::bench::Row;

use crate::Outcome;
use crate::compare::{Means, compare};
use crate::page::name;
use crate::traces::{self, Cut};

/// Mean completion in seconds that Gavel's simulator gives for the trace
/// (`simulate_scheduler_with_trace.py -p POLICY -c 6:6:6 --seed 0 --solver ECOS`), at rounds of 360 s.
pub const GAVEL: [(&str, f64); 3] = [
    ("allox", 26_250.0),
    ("max_min_fairness_packed", 29_173.0),
    ("fifo_perf", 35_913.0),
];

/// How a job of the trace is cut into tasks, between which it may be preempted.
pub const CUTS: [(&str, &str, Cut); 3] = [
    ("whole", "no preemption: a job is one task", Cut::Whole),
    ("360s", "preemption at tasks of 360 s", Cut::Seconds(360.0)),
    ("60s", "preemption at tasks of 60 s", Cut::Seconds(60.0)),
];

/// Instances from Philly.
pub const PHILLY: u64 = 3;

/// Mean completion on Gavel's trace against each of its policies, and flow over the bound on Philly's
/// jobs against each policy here.
pub fn rows(data: &Path, starts: u64) -> Outcome<Vec<Row>> {
    let rates = traces::gavel_rates(data)?;
    let mut rows = Vec::new();
    for (short, cut, how) in CUTS {
        let c = compare(&traces::gavel(data, &rates, &Pairs::new(), how)?, starts)?;
        let over = c.ours.flow / c.flow_bound;
        for (policy, seconds) in GAVEL {
            rows.push(Row::new(
                format!("peer_gavel_{short}_{policy}"),
                (c.ours.mean, "s"),
                (&format!("Gavel's {policy}"), seconds),
                format!("mean completion of 71 jobs on 18 GPUs, {cut}; {over:.3} times the bound"),
            ));
        }
    }
    let jobs = traces::philly_jobs(data)?;
    let all = (0..PHILLY)
        .map(|seed| compare(&traces::philly(&jobs, &rates, &Pairs::new(), seed)?, starts));
    let philly = Means::of(all.collect::<Outcome<_>>()?);
    rows.extend(Policy::BASELINES.map(|policy| {
        Row::new(
            format!("peer_philly_{}", name(policy)),
            (philly.over_bound(), "x"),
            (name(policy), philly.other_over_bound(policy)),
            format!("weighted flow over its bound, {PHILLY} instances of 40 jobs on 15 GPUs"),
        )
    }));
    Ok(rows)
}
