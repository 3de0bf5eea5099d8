//! From documents to problems, and from schedules to documents.

use std::collections::BTreeMap;

use doc::{
    ScheduleBaseline, ScheduleBound, SchedulePolicy, ScheduledTask, Switching, SwitchingMode,
};
use units::Seconds;

use crate::switching::{Footprint, Mode, Switched};
use crate::{Assignment, Bound, Class, CoRates, Policy, Problem, Schedule, TrainingJob};

/// The problem that a cluster poses; jobs and GPUs keep their numbers.
pub fn problem(cluster: &doc::Cluster) -> Problem {
    let (classes, gpus, representatives) = fleet(cluster);
    let nodes = nodes(cluster);
    let jobs = cluster
        .jobs
        .iter()
        .map(|job| of_job(cluster, job, &representatives))
        .collect();
    let rates = co_rates(cluster, &representatives);
    Problem::on_nodes(classes, gpus, nodes, jobs).sharing(rates)
}

/// Which jobs may share GPUs of the classes that `representatives` stand for; the row of a job is its number.
pub fn co_rates(cluster: &doc::Cluster, representatives: &[usize]) -> CoRates {
    let pairs = cluster.sharing.iter().flat_map(|pair| {
        let fits = |r: &usize| cluster.fit_together(pair, &cluster.groups[*r]);
        let classes = representatives.iter().enumerate();
        let classes = classes
            .filter(move |(_, r)| fits(r))
            .map(|(class, _)| class);
        classes.map(|class| (class, pair.jobs, pair.rates))
    });
    CoRates::new(cluster.jobs.len(), pairs)
}

/// The node of every GPU, by a number; one whose node is not told is on a node of its own.
pub fn nodes(cluster: &doc::Cluster) -> Vec<usize> {
    let groups = cluster.gpu_groups();
    let mut numbers = BTreeMap::new();
    let of = |(m, &g): (usize, &usize)| match &cluster.groups[g].node {
        Some(node) => *numbers.entry(node).or_insert(m),
        None => m,
    };
    groups.iter().enumerate().map(of).collect()
}

/// Classes, the class of every GPU, and a group of each class.
pub fn fleet(cluster: &doc::Cluster) -> (Vec<Class>, Vec<usize>, Vec<usize>) {
    let mut representatives: Vec<usize> = Vec::new();
    let mut class_of = Vec::with_capacity(cluster.groups.len());
    for (i, group) in cluster.groups.iter().enumerate() {
        let like = |&r: &usize| {
            let other = &cluster.groups[r];
            (&other.kind, other.memory, other.bus) == (&group.kind, group.memory, group.bus)
        };
        let class = representatives.iter().position(like).unwrap_or_else(|| {
            representatives.push(i);
            representatives.len() - 1
        });
        class_of.push(class);
    }
    let classes = representatives.iter().map(|&r| Class {
        count: 0,
        memory: cluster.groups[r].memory.unwrap_or(f64::INFINITY),
        bus: cluster.groups[r].bus.unwrap_or(f64::INFINITY),
    });
    let gpus = cluster.gpu_groups().iter().map(|&g| class_of[g]).collect();
    (classes.collect(), gpus, representatives)
}

/// A job of the document on the classes that `representatives` stand for.
pub fn of_job(
    cluster: &doc::Cluster,
    job: &doc::ClusterJob,
    representatives: &[usize],
) -> TrainingJob {
    let times = |&r: &usize| job.times(&cluster.groups[r]);
    let times: Vec<(f64, f64)> = representatives
        .iter()
        .map(|r| times(r).unwrap_or((f64::INFINITY, 0.0)))
        .collect();
    TrainingJob {
        weight: job.weight.get(),
        arrival: job.arrival.get(),
        rounds: job.rounds as usize,
        tasks: job.tasks as usize,
        // One task is always alone at its time.
        gang: job.gang.filter(|_| job.tasks > 1),
        train: times.iter().map(|t| t.0).collect(),
        sync: times.iter().map(|t| t.1).collect(),
        shortest_round: 0.0,
        deadline: f64::INFINITY,
    }
}

/// Training times by GPU type as times by class; `None` where a class keeps its own, or cannot run the job.
///
/// # Errors
/// A type that no GPU of the cluster has.
pub fn times_by_class(
    cluster: &doc::Cluster,
    representatives: &[usize],
    train: &BTreeMap<String, Seconds>,
) -> Result<Vec<Option<f64>>, String> {
    let kind = |r: &usize| &cluster.groups[*r].kind;
    let known = |k: &&String| representatives.iter().any(|r| kind(r) == *k);
    if let Some(unknown) = train.keys().find(|k| !known(k)) {
        return Err(unknown.clone());
    }
    let of = |r| train.get(kind(r)).map(|s| s.get());
    Ok(representatives.iter().map(of).collect())
}

/// Properties of the jobs that switching depends on. A model without layers is one group that is
/// copied before anything is computed.
pub fn footprints(cluster: &doc::Cluster) -> Vec<Footprint> {
    let of = |job: &doc::ClusterJob| {
        let mut layers: Vec<(f64, f64)> =
            job.layers.iter().map(|l| (l.bytes, l.compute_s)).collect();
        if layers.is_empty() {
            layers.extend(job.model_bytes.map(|bytes| (bytes, 0.0)));
        }
        Footprint {
            layers,
            memory: job.memory.unwrap_or(0.0),
        }
    };
    cluster.jobs.iter().map(of).collect()
}

/// Fields of a schedule document besides the schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Certificate {
    /// Who scheduled.
    pub policy: SchedulePolicy,
    /// No schedule costs less.
    pub lower_bound: f64,
    /// Which relaxation says so.
    pub bound: Bound,
    /// Whether no schedule is better.
    pub proven: bool,
    /// Largest relative deviation of a duration; the bound allows for it.
    pub noise: f64,
    /// Other policies.
    pub baselines: Vec<(SchedulePolicy, Schedule)>,
    /// Switching, where it is counted.
    pub switching: Option<(Mode, Switched)>,
}

/// Times whose sum overflows.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the schedule is beyond what can be written: {0}")]
pub struct Beyond(#[from] pub units::UnitError);

/// The document of a schedule, which extends the provenance of its cluster.
///
/// # Errors
/// [`Beyond`] if a time is too large for a document.
pub fn document(
    cluster: doc::Cluster,
    problem: &Problem,
    schedule: &Schedule,
    certificate: Certificate,
) -> Result<doc::Schedule, Beyond> {
    let cost = schedule.cost(problem);
    let lower = certificate.lower_bound;
    let over = |cost: f64| if lower > 0.0 { cost / lower } else { 1.0 };
    let baselines = certificate
        .baselines
        .iter()
        .map(|(name, other)| ScheduleBaseline {
            name: *name,
            cost: other.cost(problem),
            flow_cost: other.flow_cost(problem),
            over_bound: over(other.cost(problem)),
        });
    let assignments = schedule.assignments.iter().map(scheduled_task);
    let deviates = certificate.noise > 0.0;
    let synced = schedule.assignments.iter().map(|a| a.synced - a.trained);
    let sync = deviates.then(|| Seconds::new(synced.sum::<f64>().max(0.0)));
    Ok(doc::Schedule {
        id: cluster.id.clone(),
        policy: certificate.policy,
        cost,
        flow_cost: schedule.flow_cost(problem),
        mean: Seconds::new(schedule.mean_flow(problem).max(0.0))?,
        p95: Seconds::new(schedule.p95_flow(problem).max(0.0))?,
        makespan: Seconds::new(schedule.makespan())?,
        utilisation: schedule.utilisation(problem),
        lower_bound: lower,
        bound: bound_name(certificate.bound),
        gap: over(cost) - 1.0,
        proven: certificate.proven,
        noise: certificate.noise,
        sync: sync.transpose()?,
        baselines: baselines.collect(),
        switching: certificate.switching.as_ref().map(switching),
        fingerprint: cluster.fingerprint(),
        assignments: assignments.collect::<Result<_, _>>()?,
        provenance: cluster.provenance.clone(),
        cluster,
    })
}

fn scheduled_task(a: &Assignment) -> Result<ScheduledTask, units::UnitError> {
    Ok(ScheduledTask {
        job: a.job,
        round: a.round as u32,
        task: a.task as u32,
        gpu: a.gpu,
        start: Seconds::new(a.start)?,
        switch: Seconds::new(a.switch)?,
        trained: Seconds::new(a.trained)?,
        synced: Seconds::new(a.synced)?,
        rounds: a.rounds as u32,
        period: a.period,
    })
}

/// The schedule of a document, without its figures.
pub fn schedule(document: &doc::Schedule) -> Schedule {
    let assignments = document.assignments.iter().map(|a| Assignment {
        job: a.job,
        round: a.round as usize,
        task: a.task as usize,
        gpu: a.gpu,
        switch: a.switch.get(),
        start: a.start.get(),
        trained: a.trained.get(),
        synced: a.synced.get(),
        rounds: a.rounds as usize,
        period: a.period,
    });
    Schedule::new(document.cluster.jobs.len(), assignments.collect())
}

fn switching((mode, switched): &(Mode, Switched)) -> Switching {
    let trained: f64 = switched
        .schedule
        .assignments
        .iter()
        .map(|a| a.trained - a.start)
        .sum();
    Switching {
        mode: match mode {
            Mode::Restart => SwitchingMode::Restart,
            Mode::Pipelined => SwitchingMode::Pipelined,
            Mode::Hare => SwitchingMode::Hare,
        },
        modelled: true,
        switches: switched.switches as u32,
        hits: switched.hits as u32,
        hits_newest: switched.hits_newest as u32,
        hits_belady: switched.hits_belady as u32,
        total_s: switched.total,
        share: if trained > 0.0 {
            switched.total / trained
        } else {
            0.0
        },
    }
}

fn bound_name(bound: Bound) -> ScheduleBound {
    match bound {
        Bound::Chain => ScheduleBound::Chain,
        Bound::Unrelated => ScheduleBound::Unrelated,
        Bound::Prices => ScheduleBound::Prices,
        Bound::Exact => ScheduleBound::Exact,
    }
}

impl From<Policy> for SchedulePolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Hare => Self::Hare,
            Policy::HareLiteral => Self::HareLiteral,
            Policy::Fifo => Self::Fifo,
            Policy::Srtf => Self::Srtf,
            Policy::Homo => Self::Homo,
            Policy::Allox => Self::Allox,
        }
    }
}
