//! Converts documents to problems, and schedules to documents.

use std::collections::BTreeMap;

use doc::{
    ScheduleBaseline, ScheduleBound, SchedulePolicy, ScheduledTask, Switching, SwitchingMode,
};
use units::Seconds;

use crate::switching::{Footprint, Mode, Switched};
use crate::{Assignment, Bound, Class, CoRates, Policy, Problem, Schedule, TrainingJob};

/// The scheduling problem of a cluster; jobs and GPUs keep their numbers.
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

/// Rates of the jobs that may share a GPU. `representatives` has a group of each class; the row of
/// a job is its number.
pub fn co_rates(cluster: &doc::Cluster, representatives: &[usize]) -> CoRates {
    let pairs = cluster.sharing.iter().flat_map(|pair| {
        let fits = |r: &usize| cluster.fit_together(pair, &cluster.groups[*r]);
        let classes = representatives
            .iter()
            .enumerate()
            .filter(move |(_, r)| fits(r))
            .map(|(class, _)| class);
        classes.map(|class| (class, pair.jobs, pair.rates))
    });
    CoRates::new(cluster.jobs.len(), pairs)
}

/// The node number of every GPU; a GPU without a given node is on a node of its own.
pub fn nodes(cluster: &doc::Cluster) -> Vec<usize> {
    let groups = cluster.gpu_groups();
    let mut numbers = BTreeMap::new();
    let of = |(m, &g): (usize, &usize)| match &cluster.groups[g].node {
        Some(node) => *numbers.entry(node).or_insert(m),
        None => m,
    };
    groups.iter().enumerate().map(of).collect()
}

/// The classes (without counts), the class of every GPU, and the index of one group of each class.
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

/// A job of the document with its times by class; `representatives` has a group of each class.
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
        // A gang of one task needs no special treatment.
        gang: job.gang.filter(|_| job.tasks > 1),
        train: times.iter().map(|t| t.0).collect(),
        sync: times.iter().map(|t| t.1).collect(),
        shortest_round: 0.0,
        deadline: f64::INFINITY,
    }
}

/// Converts training times by GPU type to times by class; `None` for classes of a type that is not
/// in `train`.
///
/// # Errors
/// The first type in `train` that no GPU of the cluster has.
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

/// Properties of the jobs that determine the cost of switching. A model without layers counts as
/// one group, which is copied before the computation starts.
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
    /// The scheduler.
    pub policy: SchedulePolicy,
    /// Lower bound on the cost of every schedule.
    pub lower_bound: f64,
    /// The relaxation that gives this bound.
    pub bound: Bound,
    /// Whether the schedule is proven optimal.
    pub proven: bool,
    /// Largest relative deviation of a duration from the planned one; `lower_bound` allows for it.
    pub noise: f64,
    /// Schedules of other policies, for comparison.
    pub baselines: Vec<(SchedulePolicy, Schedule)>,
    /// The cost of switching, if it is counted.
    pub switching: Option<(Mode, Switched)>,
}

/// A time of the schedule is too large for a document.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the schedule is beyond what can be written: {0}")]
pub struct Beyond(#[from] pub units::UnitError);

/// The document of a schedule, with the provenance of its cluster.
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

/// Reads the schedule from a document, without its costs and bounds.
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
