//! Which jobs of a cluster may share a GPU.

use std::collections::{HashMap, HashSet};

use units::shown;

use super::parts::{ClusterJob, GpuGroup, Sharing};
use crate::wire;
use crate::{Checker, Code};

pub(super) fn to_wire(sharing: &[Sharing], jobs: &[ClusterJob]) -> Vec<wire::ClusterSharing> {
    let name = |n: usize| jobs[n].id.as_str().to_owned();
    let one = |s: &Sharing| wire::ClusterSharing {
        jobs: s.jobs.map(name),
        kind: s.kind.clone(),
        rates: s.rates,
    };
    sharing.iter().map(one).collect()
}

/// Reads the pairs of jobs that may share a GPU; `groups` and `jobs` are already validated.
pub(super) fn read(
    wire: &[wire::ClusterSharing],
    groups: &[GpuGroup],
    jobs: &[ClusterJob],
    c: &mut Checker,
) -> Option<Vec<Sharing>> {
    let numbers: HashMap<&str, usize> = jobs.iter().map(|j| j.id.as_str()).zip(0..).collect();
    let mut seen = HashSet::new();
    c.list("sharing", wire, |pair, c| {
        let pair = pair_of(pair, &numbers, jobs, c)?;
        can_run(&pair, groups, jobs, c)?;
        let [a, b] = pair.jobs;
        if !seen.insert((a.min(b), a.max(b), pair.kind.clone())) {
            let (a, b) = (&jobs[a].id, &jobs[b].id);
            let problem = format_args!("there are other rates of {a} and {b} on {}", pair.kind);
            c.fault(
                Code::Duplicate,
                problem,
                "give one entry for each pair and type",
            );
            return None;
        }
        Some(pair)
    })
}

fn pair_of(
    wire: &wire::ClusterSharing,
    numbers: &HashMap<&str, usize>,
    jobs: &[ClusterJob],
    c: &mut Checker,
) -> Option<Sharing> {
    let pair = c.field("jobs", |c| {
        let mut number = |i: usize| {
            let name = wire.jobs[i].as_str();
            let found = numbers.get(name).copied();
            if found.is_none() {
                let problem = format_args!("the cluster has no job called {name:?}");
                c.index(i, |c| {
                    c.fault(Code::UnknownName, problem, "name a job of the cluster")
                });
            }
            found
        };
        let (a, b) = (number(0), number(1));
        let (a, b) = (a?, b?);
        if a == b {
            let problem = format_args!("{} with itself", jobs[a].id);
            c.fault(
                Code::Conflict,
                problem,
                "name two jobs: tasks of one job do not share a GPU",
            );
            return None;
        }
        Some([a, b])
    });
    let rates = c.field("rates", |c| {
        let mut sound = true;
        for (i, rate) in wire.rates.into_iter().enumerate() {
            if !(rate > 0.0 && rate <= 1.0) {
                sound = false;
                let problem = format_args!("{} is no part of the rate alone", shown(rate));
                let advice =
                    "give a number above 0, at most 1; leave out pairs that cannot run together";
                c.index(i, |c| c.fault(Code::OutOfRange, problem, advice));
            }
        }
        sound.then_some(wire.rates)
    });
    Some(Sharing {
        jobs: pair?,
        kind: wire.kind.clone(),
        rates: rates?,
    })
}

/// Checks that both jobs can run on the GPU type, and that neither is a gang.
fn can_run(
    pair: &Sharing,
    groups: &[GpuGroup],
    jobs: &[ClusterJob],
    c: &mut Checker,
) -> Option<()> {
    let kind = &pair.kind;
    if !groups.iter().any(|g| g.kind == *kind) {
        c.field("type", |c| {
            let problem = format_args!("no GPU of the cluster is of type {kind:?}");
            c.fault(
                Code::UnknownName,
                problem,
                "name the type of a GPU of the cluster",
            );
        });
        return None;
    }
    for n in pair.jobs {
        let job = &jobs[n];
        let (problem, advice) = if job.gang.is_some() && job.tasks > 1 {
            let advice = "leave the pair out, or the job's `gang`: a gang has its GPUs to itself";
            (format!("{} is a gang", job.id), advice)
        } else if !job.train.contains_key(kind) {
            let problem = format!("{} has no training time on {kind}", job.id);
            (
                problem,
                "give its `train_s` on this type, or leave the pair out",
            )
        } else {
            continue;
        };
        c.field("jobs", |c| {
            c.fault(Code::Conflict, format_args!("{problem}"), advice)
        });
        return None;
    }
    Some(())
}
