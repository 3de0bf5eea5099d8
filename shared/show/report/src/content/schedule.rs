//! A cluster and its schedule: cost, waiting jobs, and the timeline of every GPU.

use std::collections::BTreeSet;

use doc::{Cluster, Schedule};

use super::timeline::bar;
use super::words::listed;
use crate::number::plain;
use crate::page::{Cell, Report, Table, Track};
use crate::picture::{Bar, Bars, Drawing, Gantt, Lane, Line, Plot, Span};

/// Maximum number of GPUs drawn: with 64 rows a picture is 1,800 pixels high, two screens. Chosen by hand.
const MOST_LANES: usize = 64;

/// Reports a cluster: its GPUs and its jobs.
pub fn of_cluster(cluster: &Cluster) -> Report {
    let mut report = Report::new("Cluster", cluster.id.as_deref(), false);
    fleet(&mut report, cluster);
    let mut table = Table::new("jobs", "Jobs")
        .column("job", "job", "")
        .column("weight", "weight", "")
        .column("arrival_s", "arrives", "s")
        .column("rounds", "rounds", "")
        .column("tasks_per_round", "tasks a round", "")
        .column("fastest_s", "fastest task", "s");
    for job in &cluster.jobs {
        let fastest = job
            .train
            .values()
            .map(|t| t.get())
            .fold(f64::INFINITY, f64::min);
        table.rows.push(vec![
            job.id.as_str().into(),
            Cell::Number(job.weight.get()),
            Cell::Number(job.arrival.get()),
            Cell::Count(u64::from(job.rounds)),
            Cell::Count(u64::from(job.tasks)),
            Cell::Number(fastest),
        ]);
    }
    report.table(table);
    report
}

fn fleet(report: &mut Report, cluster: &Cluster) {
    let groups = cluster.groups.iter();
    let gpus = listed(groups.map(|g| format!("{} {}", g.count.unwrap_or(1), g.kind)));
    report.fact("GPUs", gpus);
    report.fact("jobs", cluster.jobs.len().to_string());
}

/// Reports a schedule: cost, bound and gap, the jobs, other policies, switching, and pictures.
pub fn report(schedule: &Schedule) -> Report {
    // A schedule contains no measurement: its times are those that the cluster declares.
    let mut report = Report::new("Schedule", schedule.id.as_deref(), true);
    fleet(&mut report, &schedule.cluster);
    let proof = if schedule.proven {
        "proven: no schedule is better".to_owned()
    } else {
        let percent = 100.0 * schedule.gap;
        format!(
            "at most {percent:.2} % above the best, by the bound {}",
            schedule.bound.name()
        )
    };
    report.fact("policy", schedule.policy.name());
    report.fact(
        "weighted completion",
        format!("{}, {proof}", plain(schedule.cost)),
    );
    report.fact("weighted flow time", plain(schedule.flow_cost));
    let seconds = |s: f64| format!("{} s", plain(s));
    let flow = format!(
        "mean {}, 95th percentile {}",
        seconds(schedule.mean.get()),
        seconds(schedule.p95.get())
    );
    report.fact("arrival to completion", flow);
    report.fact("makespan", seconds(schedule.makespan.get()));
    report.fact(
        "utilisation",
        format!("{:.1} %", 100.0 * schedule.utilisation),
    );
    if schedule.noise > 0.0 {
        let percent = 100.0 * schedule.noise;
        report.fact("durations", format!("deviate by up to {percent:.0} %"));
    }
    switching(&mut report, schedule);
    shared(&mut report, schedule);
    report.table(policies(schedule));
    let ends = completions(schedule);
    report.table(jobs(schedule, &ends));
    report.table(assignments(schedule));
    pictures(&mut report, schedule, &ends);
    report
}

fn switching(report: &mut Report, schedule: &Schedule) {
    let Some(s) = schedule.switching else { return };
    let hits = format!(
        "{} switches, {} to a model in memory (newest stay: {}, farthest next use goes: {})",
        s.switches, s.hits, s.hits_newest, s.hits_belady
    );
    let time = format!(
        "{} s, {:.2} % of the GPUs' work (modelled: {})",
        plain(s.total_s),
        100.0 * s.share,
        s.mode.name()
    );
    report.fact("switching", hits);
    report.fact("switching time", time);
}

/// Adds how many tasks train beside another.
fn shared(report: &mut Report, schedule: &Schedule) {
    if schedule.cluster.sharing.is_empty() {
        return;
    }
    let beside = seats(schedule).iter().filter(|s| s.1).count();
    let all = schedule.assignments.len();
    let text = format!("{beside} of {all} tasks start beside another on their GPU");
    report.fact("sharing", text);
}

/// For every task: on which of the two rows of its GPU it is drawn, and whether another task trains there when
/// it starts.
fn seats(schedule: &Schedule) -> Vec<(usize, bool)> {
    let mut until = vec![[0.0_f64; 2]; schedule.cluster.gpu_groups().len()];
    let seat = |a: &doc::ScheduledTask| {
        let start = a.start.get();
        // An end that exceeds the start only by rounding is not an overlap.
        let busy = until[a.gpu].map(|end| end > start * (1.0 + 1e-9));
        let seat = usize::from(busy[0]);
        until[a.gpu][seat] = a.trained.get();
        (seat, busy[0] || busy[1])
    };
    schedule.assignments.iter().map(seat).collect()
}

/// When each job starts and ends.
fn completions(schedule: &Schedule) -> Vec<(f64, f64)> {
    let mut ends = vec![(f64::INFINITY, 0.0_f64); schedule.cluster.jobs.len()];
    for task in &schedule.assignments {
        let (first, last) = &mut ends[task.job];
        *first = first.min(task.start.get());
        *last = last.max(task.last_synced());
    }
    ends
}

fn policies(schedule: &Schedule) -> Table {
    let mut table = Table::new("policies", "Cost against the bound")
        .column("policy", "policy", "")
        .measured("cost", "weighted completion", "")
        .measured("flow_cost", "weighted flow time", "")
        .measured("over_bound", "over the bound", "");
    let own = [(
        schedule.policy,
        schedule.cost,
        schedule.flow_cost,
        1.0 + schedule.gap,
    )];
    let others = schedule
        .baselines
        .iter()
        .map(|b| (b.name, b.cost, b.flow_cost, b.over_bound));
    for (name, cost, flow, over) in own.into_iter().chain(others) {
        table.rows.push(vec![
            name.name().into(),
            Cell::Number(cost),
            Cell::Number(flow),
            Cell::Number(over),
        ]);
    }
    table
}

fn jobs(schedule: &Schedule, ends: &[(f64, f64)]) -> Table {
    let whole = schedule.makespan.get();
    let mut table = Table::new("jobs", "Jobs")
        .column("job", "job", "")
        .column("weight", "weight", "")
        .column("arrival_s", "arrives", "s")
        .measured("start_s", "starts", "s")
        .measured("end_s", "ends", "s")
        .measured("flow_s", "takes", "s")
        .drawing("from start to end");
    for (job, &(start, end)) in schedule.cluster.jobs.iter().zip(ends) {
        table.rows.push(vec![
            job.id.as_str().into(),
            Cell::Number(job.weight.get()),
            Cell::Number(job.arrival.get()),
            Cell::Number(start),
            Cell::Number(end),
            Cell::Number(end - job.arrival.get()),
            bar(start, end, whole).into(),
        ]);
    }
    table
}

/// Table of every task, for programs. Equal rounds that share an entry are one line, which gives their number.
fn assignments(schedule: &Schedule) -> Table {
    let gpus = schedule.cluster.gpu_names();
    let mut table = Table::new("assignments", "Tasks")
        .column("job", "job", "")
        .column("round", "round", "")
        .column("task", "task", "")
        .column("gpu", "GPU", "")
        .measured("start_s", "start", "s")
        .measured("switch_s", "switch", "s")
        .measured("train_end_s", "trained", "s")
        .measured("synced_s", "synchronised", "s");
    let merged = schedule.is_merged();
    if merged {
        table =
            table
                .column("rounds", "rounds", "")
                .measured("period_s", "from round to round", "s");
    }
    table.long = true;
    for a in &schedule.assignments {
        table.rows.push(vec![
            schedule.cluster.jobs[a.job].id.as_str().into(),
            Cell::Count(u64::from(a.round)),
            Cell::Count(u64::from(a.task)),
            gpus[a.gpu].as_str().into(),
            Cell::Number(a.start.get()),
            Cell::Number(a.switch.get()),
            Cell::Number(a.trained.get()),
            Cell::Number(a.synced.get()),
        ]);
        if let (true, Some(row)) = (merged, table.rows.last_mut()) {
            row.extend([Cell::Count(u64::from(a.rounds)), Cell::Number(a.period)]);
        }
    }
    table
}

fn pictures(report: &mut Report, schedule: &Schedule, ends: &[(f64, f64)]) {
    let lanes = lanes(schedule);
    report.tracks.extend(lanes.iter().map(|lane| {
        Track {
            group: "planned",
            name: lane.name.clone(),
            slices: lane
                .measured
                .iter()
                .map(|s| (s.task.clone(), s.start, s.end))
                .collect(),
            counters: Vec::new(),
        }
    }));
    let shown = lanes.len().min(MOST_LANES);
    let title = if shown < lanes.len() {
        format!("What every GPU does (the first {shown} of {})", lanes.len())
    } else {
        "What every GPU does".to_owned()
    };
    let gantt = Gantt {
        axis: "time (s)".to_owned(),
        lanes: lanes.into_iter().take(shown).collect(),
        limits: vec![("makespan".to_owned(), schedule.makespan.get())],
    };
    report.picture("gantt", title, Drawing::Gantt(gantt));
    report.picture(
        "completions",
        "Jobs complete within a time",
        Drawing::Plot(distribution(schedule, ends)),
    );
    if !schedule.baselines.is_empty() {
        report.picture(
            "policies",
            "Cost over the bound",
            Drawing::Bars(over_bound(schedule)),
        );
    }
    report.picture(
        "queue",
        "Jobs that wait or run",
        Drawing::Plot(queue(schedule, ends)),
    );
}

/// Lanes of the picture: one row for each GPU, and a second row if two tasks ever train there at once.
fn lanes(schedule: &Schedule) -> Vec<Lane> {
    let names = schedule.cluster.gpu_names();
    let lane = |name: String| Lane {
        name,
        planned: Vec::new(),
        measured: Vec::new(),
    };
    let mut lanes: Vec<[Lane; 2]> = names
        .into_iter()
        .map(|name| [lane(name.clone()), lane(format!("{name} beside"))])
        .collect();
    let mut drawn = BTreeSet::new();
    for (a, (seat, _)) in schedule.assignments.iter().zip(seats(schedule)) {
        // Draw tasks of one job that take turns on a GPU in merged rounds as one span.
        if a.rounds > 1 && !drawn.insert((a.job, a.round, a.gpu)) {
            continue;
        }
        lanes[a.gpu][seat].measured.push(Span {
            task: schedule.cluster.jobs[a.job].id.as_str().to_owned(),
            index: a.job,
            start: a.start.get(),
            end: a.last_trained(),
        });
    }
    let rows = lanes.into_iter().flat_map(|[first, second]| {
        let shared = !second.measured.is_empty();
        std::iter::once(first).chain(shared.then_some(second))
    });
    rows.collect()
}

/// Fraction of the jobs that completed within a given time from their arrival.
fn distribution(schedule: &Schedule, ends: &[(f64, f64)]) -> Plot {
    let pairs = schedule.cluster.jobs.iter().zip(ends);
    let mut flows: Vec<f64> = pairs.map(|(job, e)| e.1 - job.arrival.get()).collect();
    flows.sort_by(f64::total_cmp);
    let count = flows.len() as f64;
    let at = flows
        .iter()
        .enumerate()
        .map(|(i, &f)| (f, 100.0 * (i + 1) as f64 / count));
    Plot {
        x: "from arrival to completion (s)".to_owned(),
        y: "jobs (%)".to_owned(),
        from_zero: true,
        lines: vec![Line {
            name: schedule.policy.name().to_owned(),
            colour: 0,
            steps: true,
            at: at.collect(),
        }],
        ..Plot::default()
    }
}

fn over_bound(schedule: &Schedule) -> Bars {
    let row = |name: &str, value: f64, chosen| Bar {
        name: name.to_owned(),
        value,
        note: String::new(),
        other: None,
        chosen,
    };
    let mut rows = vec![row(schedule.policy.name(), 1.0 + schedule.gap, true)];
    rows.extend(
        schedule
            .baselines
            .iter()
            .map(|b| row(b.name.name(), b.over_bound, false)),
    );
    Bars {
        axis: "weighted completion over the lower bound".to_owned(),
        rows,
    }
}

/// Numbers of waiting jobs (arrived, not started) and of running jobs (started, not ended) over time.
fn queue(schedule: &Schedule, ends: &[(f64, f64)]) -> Plot {
    let mut waiting = Vec::new();
    let mut running = Vec::new();
    for (job, &(start, end)) in schedule.cluster.jobs.iter().zip(ends) {
        waiting.extend([(job.arrival.get(), 1.0), (start, -1.0)]);
        running.extend([(start, 1.0), (end, -1.0)]);
    }
    let line = |name: &str, colour, changes: Vec<(f64, f64)>| Line {
        name: name.to_owned(),
        colour,
        steps: true,
        at: counted(changes),
    };
    Plot {
        x: "time (s)".to_owned(),
        y: "jobs".to_owned(),
        from_zero: true,
        lines: vec![line("waiting", 1, waiting), line("running", 0, running)],
        ..Plot::default()
    }
}

/// Running sum of changes, one point for each moment of change.
fn counted(mut changes: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut out: Vec<(f64, f64)> = Vec::new();
    let mut count = 0.0;
    for (at, change) in changes {
        count += change;
        match out.last_mut() {
            Some(last) if last.0 == at => last.1 = count,
            _ => out.push((at, count)),
        }
    }
    out
}
