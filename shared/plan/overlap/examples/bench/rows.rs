//! The measurements, each with its baseline in the same run.

use std::cell::Cell;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overlap::{Instance, OrderOptions, Rates, Schedules, lower_bounds, solve};
use testkit::bench::Row;

use crate::federation::Devices;
use crate::paper::{Counted, Predicted};
use crate::rivals::{all_orders, annealing_with_waits, iterated_local_search};
use crate::rounds::{self, Round};

/// Relative difference below which two times are equal.
const SAME: f64 = 1e-9;

/// Any error.
pub type BenchError = Box<dyn std::error::Error>;

/// The named measurements, or all.
pub fn measure(names: &[String]) -> Result<Vec<Row>, BenchError> {
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| name.contains(n.as_str()));
    let mut rows = Vec::new();
    if wanted("overlap_n8_fixed") {
        rows.push(exact("overlap_n8_fixed", &rounds::fixed(8, 7)?)?);
    }
    if wanted("overlap_n8_co_run") {
        rows.push(exact("overlap_n8_co_run", &rounds::co_run(8, 7)?)?);
    }
    for n in [12, 20] {
        let name = format!("overlap_n{n}_fixed");
        if wanted(&name) {
            rows.extend(against_search(&name, &rounds::fixed(n, 7)?)?);
        }
        let name = format!("overlap_n{n}_co_run");
        if wanted(&name) {
            rows.extend(against_search(&name, &rounds::co_run(n, 7)?)?);
        }
    }
    if wanted("overlap_waits") {
        rows.push(waits()?);
    }
    if wanted("overlap_search_162") {
        rows.push(paper_search("overlap_search_162", 3, 162)?);
    }
    if wanted("overlap_search_29160") {
        rows.push(paper_search("overlap_search_29160", 5, 29_160)?);
    }
    if wanted("overlap_federation") {
        rows.extend(federation_rows()?);
    }
    Ok(rows)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn milliseconds<T>(f: impl FnOnce() -> Result<T, BenchError>) -> Result<(T, f64), BenchError> {
    let start = Instant::now();
    let value = f()?;
    Ok((value, start.elapsed().as_secs_f64() * 1e3))
}

fn order(instance: &Instance, rates: &dyn Rates) -> Result<overlap::SolvedRound, BenchError> {
    Ok(solve(instance, rates, &OrderOptions::default())?)
}

/// The exact solution compared with all orders of downloads without waiting: never worse, and better only if it holds
/// a task back.
fn exact<R: Rates>(name: &str, rounds: &[Round<R>]) -> Result<Row, BenchError> {
    let (mut ours, mut theirs, mut proven, mut ahead) = (Vec::new(), Vec::new(), 0, 0);
    for Round {
        name,
        instance,
        rates,
    } in rounds
    {
        let (found, ms) = milliseconds(|| order(instance, rates))?;
        let (best, all_ms) = milliseconds(|| all_orders(instance, rates))?;
        let makespan_s = found.schedule.makespan_s;
        let shorter = makespan_s < best * (1.0 - SAME);
        let explained = !shorter || !found.holds.is_empty();
        if makespan_s > best * (1.0 + SAME) || !explained {
            return Err(format!("{name}: {makespan_s} s, the best of all orders {best} s").into());
        }
        proven += usize::from(found.proven());
        ahead += usize::from(shorter);
        ours.push(ms);
        theirs.push(all_ms);
    }
    Ok(Row::new(
        name,
        (median(ours), "ms"),
        ("all orders of downloads", median(theirs)),
        format!(
            "exact order, median of {} rounds, {proven} proven, {ahead} ahead of the baseline by \
             holding a task back, the others equal to it",
            rounds.len()
        ),
    ))
}

/// Time and gap compared with an iterated local search of 2 seconds. That search stops early if it meets the lower
/// bound, because it cannot improve further.
fn against_search<R: Rates>(name: &str, rounds: &[Round<R>]) -> Result<[Row; 2], BenchError> {
    const SECONDS: u64 = 2;
    let count = rounds.len() as f64;
    let (mut times, mut their_times) = (Vec::new(), Vec::new());
    let (mut gap, mut their_gap) = (0.0, 0.0);
    let (mut behind, mut root_gap, mut worst_s) = (0, 0.0, 0.0_f64);
    let (mut open, mut worst_gap) = (0, 0.0_f64);
    for (seed, round) in rounds.iter().enumerate() {
        let (found, ms) = milliseconds(|| order(&round.instance, &round.rates))?;
        let (theirs, their_ms) = milliseconds(|| {
            iterated_local_search(
                &round.instance,
                &round.rates,
                Duration::from_secs(SECONDS),
                found.lower_bound_s * (1.0 + SAME),
                seed as u64,
            )
        })?;
        let s = found.schedule.makespan_s;
        times.push(ms);
        their_times.push(their_ms);
        worst_s = worst_s.max(ms / 1e3);
        gap += found.gap() / count;
        worst_gap = worst_gap.max(found.gap());
        open += usize::from(!found.proven());
        root_gap += (s / lower_bounds(&round.instance, &round.rates, &[])?.best() - 1.0) / count;
        their_gap += (theirs / found.lower_bound_s - 1.0) / count;
        behind += usize::from(s > theirs * (1.0 + SAME));
    }
    let what = format!(
        "mean gap to the lower bound over {count} rounds, {} proven, {behind} worse than the \
         baseline; of the {open} others mean {:.2} %, worst {:.2} %; {:.2} % of all to the bound \
         without search",
        rounds.len() - open,
        100.0 * gap * count / open.max(1) as f64,
        100.0 * worst_gap,
        100.0 * root_gap
    );
    let baseline = "iterated local search, up to 2 s";
    Ok([
        Row::new(
            format!("{name}_gap"),
            (100.0 * gap, "%"),
            (baseline, 100.0 * their_gap),
            what,
        ),
        Row::new(
            format!("{name}_time"),
            (median(times), "ms"),
            (baseline, median(their_times)),
            format!("median time of the same; the longest took {worst_s:.2} s"),
        ),
    ])
}

/// Orders and waits compared with a second annealing that has much more time.
fn waits() -> Result<Row, BenchError> {
    const ROUNDS: u64 = 24;
    const TIME: Duration = Duration::from_millis(2500);
    // No constant of the search was chosen on these.
    const FIRST_SEED: u64 = 575_000;
    let (mut ahead, mut same, mut longest_ms) = (0, 0, 0.0_f64);
    let (mut behind, mut theirs_behind) = (0.0_f64, 0.0_f64);
    for Round {
        name,
        instance,
        rates,
    } in &rounds::contended(FIRST_SEED, ROUNDS)?
    {
        let (found, ms) = milliseconds(|| order(instance, rates))?;
        let theirs = annealing_with_waits(instance, rates, TIME)?;
        let ratio = found.schedule.makespan_s / theirs;
        if ratio > 1.0 + SAME && found.proven() && found.certificate.class == Schedules::Any {
            return Err(format!("{name}: proven, but {theirs} s is shorter").into());
        }
        if (ratio - 1.0).abs() <= SAME {
            same += 1;
        } else {
            ahead += usize::from(ratio < 1.0);
            behind = behind.max(ratio - 1.0);
            theirs_behind = theirs_behind.max(1.0 / ratio - 1.0);
        }
        longest_ms = longest_ms.max(ms);
    }
    Ok(Row::new(
        "overlap_waits_behind",
        (100.0 * behind, "%"),
        (
            "annealing of orders and waits, 2.5 s",
            100.0 * theirs_behind,
        ),
        format!(
            "how much longer than with the other the worst of {ROUNDS} rounds of 6 to 8 tasks is; \
             {ahead} ahead of the baseline, {same} the same; the longest took {:.2} s",
            longest_ms / 1e3
        ),
    ))
}

/// Orders and batch sizes together, with every prediction.
fn paper_search(name: &str, n: usize, points: u64) -> Result<Row, BenchError> {
    const REPEATS: usize = 15;
    let case = Predicted::new(n)?;
    let source = case.rates();
    let counted = Counted {
        inner: &source,
        calls: Cell::new(0),
    };
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        counted.calls.set(0);
        let (_, ms) = milliseconds(|| Ok(solve(&case.instance, &counted, &case.options())?))?;
        times.push(ms);
    }
    let (_, baseline_value) = milliseconds(|| case.as_in_the_paper())?;
    Ok(Row::new(
        name,
        (median(times), "ms"),
        ("FedMT: a prediction for each", baseline_value),
        format!(
            "{n} tasks, {points} points of order and batch sizes, Gaussian process of 125 \
             samples, {} predictions, proven",
            counted.calls.get()
        ),
    ))
}

/// A thousand devices through the tools beside a start of the tools for each, and whether the tools' memory depends on
/// the number of devices.
fn federation_rows() -> Result<Vec<Row>, BenchError> {
    const DEVICES: usize = 1000;
    const APART: usize = 50;
    let mut rows = Vec::new();
    for method in ["structured", "gp"] {
        let Some(devices) = Devices::new(method)? else {
            let text = "bench: overlap_federation: skipped, ../shared/data/fl_device is not there";
            writeln!(std::io::stderr(), "{text}")?;
            return Ok(rows);
        };
        let devices = Arc::new(devices);
        let few = devices.stream(0..DEVICES / 5)?;
        let all = devices.stream(0..DEVICES)?;
        if all.timelines != DEVICES {
            return Err(format!("{} timelines of {DEVICES} devices", all.timelines).into());
        }
        let mut apart_s = 0.0;
        for client in (0..DEVICES).step_by(DEVICES / APART) {
            apart_s += devices.stream(client..client + 1)?.seconds;
        }
        rows.push(Row::new(
            format!("overlap_federation_{method}"),
            (DEVICES as f64 / all.seconds, "devices/s"),
            ("both tools started for each device", APART as f64 / apart_s),
            format!("mt-solve | mt-overlap, {}", all.said),
        ));
        for (k, tool) in ["mt-solve", "mt-overlap"].iter().enumerate() {
            rows.push(Row::new(
                format!("overlap_federation_{method}_{tool}"),
                (all.peak_mib[k], "MiB"),
                ("a fifth of the devices", few.peak_mib[k]),
                format!("most memory that {tool} held"),
            ));
        }
    }
    Ok(rows)
}
