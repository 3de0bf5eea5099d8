//! Simulated SM occupancy over time, of a plan and of simpler schemes.

use doc::{DeviceKind, Plan, Workload};
use gpusim::{OccupancyPoint, Program, SimOptions, SimTask, Simulator, Trace};
use units::Share;

use crate::page::Report;
use crate::picture::{Area, Drawing, Panel};

/// Time shown, in microseconds: a few steps of a training (10 to 100 ms each), so that it is visible how kernels
/// take turns. A whole round would look like a band of one colour. Chosen by hand.
const SHOWN_US: f64 = 120_000.0;
/// Number of intervals over which occupancy is averaged: each is two pixels wide.
const STEPS: usize = 360;

/// Adds the picture, if the plan was made on the simulator, or a note why its tasks cannot be simulated.
pub fn add(report: &mut Report, plan: &Plan) {
    let simulated = plan
        .model
        .as_ref()
        .is_some_and(|m| m.device.kind == DeviceKind::Sim);
    let one_gpu = plan.tasks.iter().all(|task| task.gpu.is_none());
    let Some(workload) = plan.workload().filter(|_| simulated && one_gpu) else {
        return;
    };
    match area(plan, workload) {
        Ok(area) => report.picture(
            "occupancy",
            "Multiprocessors in use over time",
            Drawing::Area(area),
        ),
        Err(reason) => report.notes.push(format!(
            "the multiprocessors in use over time are not drawn: {reason}"
        )),
    }
}

fn area(plan: &Plan, workload: &Workload) -> Result<Area, String> {
    let simulator = Simulator::of_device(&workload.device).map_err(|error| error.to_string())?;
    let mut programs: Vec<Program> = Vec::new();
    let mut chosen: Vec<Share> = Vec::new();
    for (i, task) in plan.tasks.iter().enumerate() {
        let lacks = |what: &str| format!("task {} has no {what}", task.id);
        let place = workload.task_index(&task.id);
        let known = &workload.tasks[place.ok_or_else(|| lacks("entry in the workload"))?];
        let batch = plan.given(i).batch.ok_or_else(|| lacks("batch size"))?;
        let program = simulator.task_program(known, batch);
        programs.push(program.map_err(|error| format!("task {}: {error}", task.id))?);
        chosen.push(plan.given(i).share.ok_or_else(|| lacks("share"))?);
    }
    let n = programs.len();
    // There are at most 64 tasks, so an equal share is above 0.
    let part = Share::from_hundredths(10_000 / n.max(1) as u32);
    let sms = f64::from(simulator.gpu().sms());
    // The picture shows a short part; the mean covers all of the time after the warm-up, when the tasks have settled
    // into a rhythm.
    let mean = |traces: &[Trace]| {
        let part = |trace: &Trace| {
            let begin = trace.end_us / 2.0;
            mean_held(trace, begin, trace.end_us).iter().sum::<f64>()
        };
        let parts = traces.iter().map(part).sum::<f64>() / traces.len().max(1) as f64;
        100.0 * parts / sms
    };
    let panel = |name: &str, traces: &[Trace]| Panel {
        name: format!(
            "{name}: {:.0} % of {sms:.0} SMs in use on average",
            mean(traces)
        ),
        steps: steps(traces, n),
    };
    let together = |shares: &[Share]| {
        let tasks: Vec<SimTask<'_>> = programs
            .iter()
            .zip(shares)
            .map(|(program, &share)| SimTask { program, share })
            .collect();
        [simulator.trace(&tasks, &SimOptions::default()).1]
    };
    let alone: Vec<Trace> = programs
        .iter()
        .map(|program| {
            let task = SimTask {
                program,
                share: Share::FULL,
            };
            simulator.trace(&[task], &SimOptions::default()).1
        })
        .collect();
    Ok(Area {
        x: "time (ms, simulated)".to_owned(),
        y: "SMs".to_owned(),
        full: sms,
        layers: plan
            .tasks
            .iter()
            .map(|t| t.id.as_str().to_owned())
            .collect(),
        panels: vec![
            panel("one task at a time", &alone),
            panel("isolated", &together(&vec![part; n])),
            panel("sharing", &together(&vec![Share::FULL; n])),
            panel("this plan", &together(&chosen)),
        ],
    })
}

/// Mean number of SMs held by each task, in equal steps of time (milliseconds). If there are several traces, each of
/// one task, they are shown one after another in equal parts.
fn steps(traces: &[Trace], tasks: usize) -> Vec<(f64, Vec<f64>)> {
    let step = SHOWN_US / STEPS as f64;
    let each = STEPS / traces.len().max(1);
    let mut out = Vec::with_capacity(STEPS + 1);
    for (k, trace) in traces.iter().enumerate() {
        // Skip the first half, in which the tasks settle into a rhythm.
        let length = step * each as f64;
        let last = (trace.end_us - length).max(0.0);
        let mut begin = trace.end_us / 2.0;
        if traces.len() > 1 {
            begin = typical(trace, begin, length);
        }
        let begin = begin.min(last);
        for i in 0..each {
            let from = begin + step * i as f64;
            let held = mean_held(trace, from, from + step);
            let mut layers = vec![0.0; tasks];
            if traces.len() == 1 {
                layers.clone_from(&held);
            } else if let Some(&held) = held.first() {
                layers[k] = held;
            }
            layers.resize(tasks, 0.0);
            out.push((out.len() as f64 * step / 1000.0, layers));
        }
    }
    out.push((out.len() as f64 * step / 1000.0, vec![0.0; tasks]));
    out
}

/// Start of a part of the given `length` whose fraction of idle time is the same as over the whole trace: the
/// kernels of a step follow a long host phase, and an arbitrary short part could miss them.
fn typical(trace: &Trace, from: f64, length: f64) -> f64 {
    let busy = |p: &OccupancyPoint| p.held_sms.iter().any(|held| *held > 0.0);
    let pairs = trace.occupancy.windows(2);
    let later = pairs.filter(|pair| pair[0].start_us >= from);
    let (mut idle, mut all, mut start) = (0.0, 0.0, None);
    let mut longest = 0.0;
    for pair in later {
        let time = pair[1].start_us - pair[0].start_us;
        all += time;
        if !busy(&pair[0]) {
            idle += time;
            // The host phase is the longest idle time; shorter ones lie between two kernels.
            if time > longest {
                (longest, start) = (time, Some(pair[1].start_us));
            }
        }
    }
    start.map_or(from, |start| (start - length * idle / all).max(0.0))
}

/// Mean SMs held by each task between two times.
fn mean_held(trace: &Trace, from: f64, to: f64) -> Vec<f64> {
    let points = &trace.occupancy;
    let first = points
        .partition_point(|p| p.start_us <= from)
        .saturating_sub(1);
    let mut sum = vec![0.0; points.first().map_or(0, |p| p.held_sms.len())];
    for (i, p) in points.iter().enumerate().skip(first) {
        if p.start_us >= to {
            break;
        }
        let end = points.get(i + 1).map_or(trace.end_us, |next| next.start_us);
        let time = (end.min(to) - p.start_us.max(from)).max(0.0);
        for (sum, held) in sum.iter_mut().zip(&p.held_sms) {
            *sum += held * time;
        }
    }
    sum.iter().map(|s| s / (to - from)).collect()
}
