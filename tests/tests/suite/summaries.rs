//! Pages quote the summaries beside them.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Sentences that quote a summary: page, summary, and the sentence with a JSON pointer in braces where a number stands;
/// `:N` after the pointer asks for N decimals, `:+N` for a sign as well.
const SENTENCES: [(&str, &str, &str); 16] = [
    (
        REGRET,
        REGRET_SUMMARY,
        "At 20 samples {/totals/1/worse} of {/totals/1/chains} plans are worse than the best scheme \
     of equal shares by more than 0.5 % ({/totals/1/much_worse} by more than 2 %), and with 3 % of noise on what the \
     profiler sees {/totals/3/worse} of {/totals/3/chains} ({/totals/3/much_worse}).",
    ),
    (
        REGRET,
        REGRET_SUMMARY,
        "The 95 % intervals hold {/totals/1/coverage_percent:0} % and \
     {/totals/3/coverage_percent:0} %. The verdict promises {/totals/1/verdict_bias:2} and {/totals/3/verdict_bias:2} \
     points too much",
    ),
    (REGRET, REGRET_SUMMARY, "on {/mixes} simulated mixes"),
    (
        REGRET,
        REGRET_SUMMARY,
        "drawn from the seed {/seed}, the ISO week",
    ),
    (
        REGRET,
        REGRET_SUMMARY,
        "regret of plan {/twins/0/plan:2}, best equal shares {/twins/0/best_equal_shares:2}; plan \
     {/twins/1/plan:2}, best equal shares {/twins/1/best_equal_shares:2}.",
    ),
    (
        REGRET,
        REGRET_SUMMARY,
        "{/totals/2/measured} of {/totals/2/chains} plans are measured ones",
    ),
    (
        FEDERATION,
        FEDERATION_SUMMARY,
        "from {/mixes} of {/all_mixes} mixes",
    ),
    (
        ACCURACY,
        FEDERATION_SUMMARY,
        "On {/mixes} federations, simulated but for the training, plans by the rounds that each batch size takes needed \
         {/over_hindsight_median:2} times the time of the best shares and batch sizes in hindsight, in the median, and \
         {/over_hindsight_worst:2} times at worst. Each task's best size alone, with 100 % each, needed \
         {/single_over_hindsight_median:2} and {/single_over_hindsight_worst:2} times that time, plans by a noise scale \
         measured at one size {/norms_over_hindsight_median:2} and {/norms_over_hindsight_worst:2} times.",
    ),
    (
        "docs/federated.md",
        FEDERATION_SUMMARY,
        "On {/mixes} mixes of tasks and devices, plans by such tables took {/over_hindsight_median:2} times the time of \
         the best shares and batch sizes in hindsight in the median, and {/over_hindsight_worst:2} times on the worst \
         mix; plans by a noise scale from the first three rounds took {/norms_over_hindsight_median:2} and \
         {/norms_over_hindsight_worst:2} times.",
    ),
    (
        ACCURACY,
        SIZING_SUMMARY,
        "{/sweeps} sweeps of 20 to 200 jobs on one to four different cards took {/over_hindsight/median:2} times as long, \
         in the median, as with the best fixed number, cap and choice of cards in hindsight, \
         {/over_hindsight/95_percent:2} times in one of 20 and {/over_hindsight/largest:2} times at worst. With what a \
         first run learnt they took {/known_over_hindsight/median:2} and {/known_over_hindsight/95_percent:2} times as \
         long (one of them {/known_over_hindsight/largest:2} times).",
    ),
    (
        ACCURACY,
        SIZING_SUMMARY,
        "took {/beside_a_stranger/over_hindsight/median:2} times as long as with the best fixed choice, \
         {/beside_a_stranger/known_over_hindsight/median:2} times with what a first run learnt",
    ),
    (
        SWEEP,
        SWEEP_SUMMARY,
        "median {/over_best_fixed_median:3}, worst {/over_best_fixed_worst:3}, below 1 in {/below_best_fixed} of 10 \
         mixes; with what the store remembers {/known_over_best_fixed_median:3} and {/known_over_best_fixed_worst:3}. \
         Over one at a time: median {/over_serial_median:3}. Over all at once: median {/over_all_at_once_median:3}.",
    ),
    (
        ACCURACY,
        SWEEP_SUMMARY,
        "took {/over_best_fixed_median:2} times as long, in the median of ten mixes, as the best of {/fixed} fixed \
         numbers of jobs at once, known only in hindsight, and at worst {/over_best_fixed_worst:2} times. Where it knew \
         the commands from before, it took {/known_over_best_fixed_median:2} and {/known_over_best_fixed_worst:2} times \
         as long. Over GNU parallel and pueue, given that best number: {/over_parallel_median:2} and \
         {/over_pueue_median:2}.",
    ),
    (
        "examples/elastic/RESULTS.md",
        "examples/elastic/summary.json",
        "| ours | {/phase_optimum_mean:4} | {/phase_optimum_p95:4} | {/phase_optimum_max:4} |",
    ),
    (
        "examples/hare/RESULTS.md",
        "examples/hare/summary.json",
        "ours is {/cost_over_bound_15x40:3} times the bound",
    ),
    (
        ACCURACY,
        "examples/paper/summary.json",
        "mean error of the speed-ups: {/ratio_mae:3}; on the third GPU: {/ratio_mae_3080:3}",
    ),
];
const ACCURACY: &str = "docs/accuracy.md";
const STRANGERS_SUMMARY: &str = "shared/run/gpusim/examples/strangers/summary.json";
const REGRET: &str = "shared/run/design/examples/regret/RESULTS.md";
const REGRET_SUMMARY: &str = "shared/run/design/examples/regret/summary.json";
const RIVALS_SUMMARY: &str = "shared/run/design/examples/regret/rivals.json";
const FEDERATION: &str = "examples/federation/RESULTS.md";
const FEDERATION_SUMMARY: &str = "examples/federation/summary.json";
const SWEEP: &str = "examples/sweep/RESULTS.md";
const SWEEP_SUMMARY: &str = "examples/sweep/summary.json";
const SIZING_SUMMARY: &str = "shared/run/queue/tests/sizing.json";

fn read(path: &str) -> String {
    fs::read_to_string(format!("{TOP}/{path}")).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn summary(path: &str) -> Value {
    serde_json::from_str(&read(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A sentence with its numbers from a summary.
fn filled(sentence: &str, summary: &Value) -> String {
    let mut parts = sentence.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (pointer, rest) = part.split_once('}').expect("a brace that ends");
        let (pointer, form) = pointer.split_once(':').unwrap_or((pointer, ""));
        let value = summary
            .pointer(pointer)
            .unwrap_or_else(|| panic!("the summary has no {pointer}"));
        text += &match (value, form.trim_start_matches('+').parse::<usize>()) {
            (Value::String(word), _) => word.clone(),
            (Value::Number(number), Ok(decimals)) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                match form.starts_with('+') {
                    true => format!("{number:+.decimals$}"),
                    false => format!("{number:.decimals$}"),
                }
            }
            _ => value.to_string(),
        };
        text += rest;
    }
    text
}

/// Both tables of regret have a row for each cell of its summary, and one for each total; that of rivals has one for
/// each sampler in these.
#[test]
fn tables_of_regret_are_its_summary() {
    let (page, rivals_summary) = (read(REGRET), summary(RIVALS_SUMMARY));
    let summary = summary(REGRET_SUMMARY);
    let head = "| {/objective} | {/samples} | {/noise_percent:0} % | ";
    let of = |name: &str| format!("{{/{name}/median:2}} ({{/{name}/p90:2}}, {{/{name}/worst:2}})");
    let rivals = [
        "plan",
        "by_model",
        "best_equal_shares",
        "full_sharing",
        "one_after_another",
    ];
    let regrets = format!("{head}{} |", rivals.map(of).join(" | "));
    let claims = format!(
        "{head}{{/worse}} of {{/chains}} | {{/much_worse}} | {{/measured}} | {{/coverage_percent:0}} % | \
         {{/verdict_bias:+2}} | {{/verdict_error:2}} |"
    );
    let cells = ["cells", "totals"].map(|kind| summary[kind].as_array().expect("an array"));
    let mut rows: BTreeSet<String> = cells
        .into_iter()
        .flatten()
        .flat_map(|cell| [filled(&regrets, cell), filled(&claims, cell)])
        .collect();
    for kind in ["cells", "totals"] {
        for cell in rivals_summary[kind].as_array().expect("an array") {
            for (i, _) in cell["rivals"]
                .as_array()
                .expect("rivals")
                .iter()
                .enumerate()
            {
                let rival = |field: &str| format!("rivals/{i}/{field}");
                let row = format!(
                    "| {{/objective}} | {{/{}}} | {} | {} | {} | {{/{}}} of {{/chains}} | {{/{}}} |",
                    rival("sampler"),
                    of(&rival("regret")),
                    of("plan"),
                    of("best_equal_shares"),
                    rival("worse"),
                    rival("better"),
                );
                rows.insert(filled(&row, cell));
            }
        }
    }
    let shown = page.lines().filter(|line| {
        line.starts_with('|') && !line.starts_with("|--") && !line.starts_with("| objective")
    });
    assert_eq!(shown.map(str::to_owned).collect::<BTreeSet<_>>(), rows);
}

/// The table of the simulator has a row for each of its summary.
#[test]
fn the_table_of_the_simulator_is_its_summary() {
    let folder = "shared/run/gpusim/examples/strangers";
    let summary = summary(&format!("{folder}/summary.json"));
    let page = read(&format!("{folder}/RESULTS.md"));
    let head = "| {/problem} | {/jobs} | {/simulator/error:3}, {/simulator/rank:2} | {/constant_error:3} |";
    for row in summary["rows"].as_array().expect("an array") {
        let product = match row["product"].is_null() {
            true => " - |",
            false => " {/product/error:3}, {/product/rank:2} |",
        };
        let expected = filled(&format!("{head}{product}"), row);
        assert!(page.contains(&expected), "the page does not say {expected}");
    }
}

/// The table of sweeps has a row for each mix, and there are ten.
#[test]
fn the_table_of_sweeps_is_its_summary() {
    let (page, summary) = (read(SWEEP), summary(SWEEP_SUMMARY));
    let mixes = summary["mixes"].as_array().expect("an array");
    assert_eq!(mixes.len(), 10);
    for mix in mixes {
        let row = "| {/mix} | {/best_fixed} | {/over_best_fixed:3} | {/known_over_best_fixed:3} | {/over_serial:3} | \
                   {/over_all_at_once:3} | {/mean_completion_over_best_fixed:3} | {/exploration_percent:+1} % |";
        let expected = filled(row, mix);
        assert!(page.contains(&expected), "the page does not say {expected}");
    }
}

/// What the documentation says of the simulator holds for every row that it was judged on.
#[test]
fn the_simulator_is_told_as_its_summary_has_it() {
    let summary = summary(STRANGERS_SUMMARY);
    let rows = summary["rows"].as_array().expect("an array");
    let number = |row: &Value, at: &str| row.pointer(at).and_then(Value::as_f64).expect("a number");
    let nearer = |row: &&Value| number(row, "/constant_error") < number(row, "/simulator/error");
    let counted = ["none", "one", "two", "three", "four", "five"];
    let words = counted[rows.iter().filter(nearer).count()];
    let expected = format!(
        "one fixed number is closer in {words} of {} rows",
        counted[rows.len()]
    );
    let page = read(ACCURACY)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        page.contains(&expected),
        "{ACCURACY} does not say: {expected}"
    );
    let ranks = rows.iter().map(|row| number(row, "/simulator/rank"));
    let (low, high) = ranks.fold((f64::INFINITY, 0.0_f64), |(l, h), r| (l.min(r), h.max(r)));
    assert!(page.contains(&format!("(rank correlations of {low:.2} to {high:.2})")));
}

#[test]
fn sentences_quote_their_summaries() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (page, beside, sentence) in SENTENCES {
        let expected = filled(&words(sentence), &summary(beside));
        assert!(
            words(&read(page)).contains(&expected),
            "{page} does not say what {beside} does: {expected}"
        );
    }
}
