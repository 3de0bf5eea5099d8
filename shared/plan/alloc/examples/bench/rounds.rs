//! Rounds of few tasks: the proof compared with the local search.

use allocation::{Effort, Problem, Round, SearchOptions, solve};
use doc::{Documents, Frames, ObjectiveKind, Proof};
use testkit::bench::Row;

use crate::problems::{Case, Recipe, case, plain};
use crate::rows::{BenchError, Opaque, best, median_ms};

/// Name, tasks, batch sizes, kind of device: one where tasks keep their shares, or where computing tasks get the
/// shares of idle ones.
const ROUNDS: [(&str, usize, u32, &str); 3] = [
    ("round_n3", 3, 3, "sim"),
    ("round_n3_divided", 3, 3, "cpu"),
    ("round_n4", 4, 1, "sim"),
];

/// A row for each round: all its choices at a step of 5 %, without the knowledge that rates are additive.
pub fn rows() -> Result<Vec<Row>, BenchError> {
    ROUNDS.into_iter().map(row).collect()
}

fn row(
    (name, tasks, batches, device): (&'static str, usize, u32, &str),
) -> Result<Row, BenchError> {
    let recipe = Recipe {
        batches,
        step_percent: 5,
        rv_percent: None,
        objective: ObjectiveKind::Round,
        ..plain(name, tasks, 0)
    };
    let Case { law, problem, .. } = case(recipe)?;
    let problem = Problem {
        round: Some(round(&problem, device)?),
        ..problem
    };
    let rates = Opaque(&law);
    let (ms, proven) = median_ms(3, || solve(&rates, &problem, &SearchOptions::default()));
    let proven = proven?;
    if proven.report.proof == Proof::NotProven {
        return Err(format!("{name}: not proven").into());
    }
    let local = SearchOptions {
        effort: Effort::Local,
        ..SearchOptions::default()
    };
    let (local_ms, local) = median_ms(3, || solve(&rates, &problem, &local));
    let (least, found) = (best(&proven)?.objective, best(&local?)?.objective);
    Ok(Row::new(
        format!("solve_{name}_proven_ms"),
        (ms, "ms"),
        ("local search, no proof", local_ms),
        format!(
            "{} choices, {:.3} s proven; local search reaches {:.6} of it",
            proven.report.points,
            -least,
            least / found
        ),
    ))
}

/// Transfers that take about as long as the compute of a task.
pub fn round(problem: &Problem, device: &str) -> Result<Round, BenchError> {
    let task = |(i, t): (usize, &allocation::Task)| {
        let sizes: Vec<String> = t.batches.iter().map(ToString::to_string).collect();
        let samples = t.samples.map_or(1, units::Samples::get);
        let megabytes = 40 + 30 * i;
        format!(
            r#"{{"id":"t{i}","model":"vgg16","job":{{"argv":["x"]}},"batch_sizes":[{}],"samples":{samples},
                "update_bytes":{{"down":{megabytes}000000,"up":{megabytes}000000}}}}"#,
            sizes.join(",")
        )
    };
    let tasks: Vec<String> = problem.tasks.iter().enumerate().map(task).collect();
    let text = format!(
        r#"{{"schema":"mt.workload/1","device":{{"kind":"{device}"}},
            "link":{{"down_bps":4e8,"up_bps":4e8}},"tasks":[{}]}}"#,
        tasks.join(",")
    );
    let mut documents = Documents::new(Frames::new(text.as_bytes(), "bench"));
    let workload: doc::Workload = documents.next().ok_or("no workload")??;
    Ok(Round::of_workload(&workload)?)
}
