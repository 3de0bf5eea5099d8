//! Messages of a trial.

use std::fmt::Write as _;

use units::TaskId;

use crate::Command;
use crate::answer::{Alone, Basis, Compared, Unknown, Verdict};
use crate::trial::{Failed, Pair, Told, Trial, TrialSettings, status};

/// Number of lines of a failed command's output that are shown: the end of a traceback with its cause.
const TAIL_LINES: usize = 12;
/// Seconds below which the whole comparison is too short for a plan.
const SHORT: f64 = 2.0;
/// Fraction of the processors used by other programs above which a message says so: its contribution to the noise is
/// then as large as the rest.
const TOLD_OTHERS: f64 = 0.05;

/// The cost of the trial, before anything starts.
#[must_use]
pub fn cost(commands: &[Command], distinct: usize, settings: &TrialSettings) -> String {
    let who = match distinct {
        1 => format!("{} alone", commands[0].id),
        n => format!("each of {n} commands alone"),
    };
    let stages = distinct + 1;
    let about = settings.window * stages as f64;
    format!(
        "{stages} runs: {who}, then {} together. About {about:.0} s and {stages} start-ups; a command \
         that prints no progress is waited for until it ends, at most {} s (--limit).",
        match commands.len() {
            2 => "both".to_owned(),
            n => format!("all {n}"),
        },
        settings.limit
    )
}

/// Messages while it runs.
#[must_use]
pub fn told(told: &Told<'_>) -> String {
    match told {
        Told::Place(place) => format!("on {place}"),
        Told::Begins(number, of, commands) => match commands.as_slice() {
            [one] => format!("[{number}/{of}] {} alone", one.id),
            [a, b] => format!("[{number}/{of}] {} and {} together", a.id, b.id),
            all => format!("[{number}/{of}] {} together", all.len()),
        },
        Told::Alone(command, alone) => format!("      {}: {}", command.id, facts(alone)),
        Told::Happened(text) => text.clone(),
        Told::Now(seconds, far) => format!("      {seconds:.0} s: {far}"),
    }
}

fn facts(alone: &Alone) -> String {
    let Some(seconds) = alone.seconds() else {
        return format!(
            "start-up {:.1} s, then {}; how long it runs is not known",
            alone.startup,
            speed(alone)
        );
    };
    if alone.is_silent() {
        return format!("the whole run takes {seconds:.1} s (it prints no progress)");
    }
    let how = match alone.whole {
        Some(_) => "takes",
        None => "will take",
    };
    format!(
        "start-up {:.1} s, then {}; the whole run {how} {seconds:.1} s",
        alone.startup,
        speed(alone)
    )
}

fn speed(alone: &Alone) -> String {
    format!("{} {}/s", number(alone.rate.per_s), alone.unit)
}

/// A number with three significant digits.
fn number(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// Each command alone and beside the others, a line for each.
#[must_use]
pub fn table(trial: &Trial) -> String {
    let head = [
        "",
        "start-up",
        "speed alone",
        "whole alone",
        "speed together",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for ((command, (alone, _)), beside) in trial
        .commands
        .iter()
        .zip(&trial.alone)
        .zip(&trial.all.beside)
    {
        let part = 100.0 * beside.rate.per_s / alone.rate.per_s;
        rows.push([
            command.id.to_string(),
            if alone.is_silent() {
                "-".to_owned()
            } else {
                format!("{:.1} s", alone.startup)
            },
            speed(alone),
            alone
                .seconds()
                .map_or_else(|| "unknown".to_owned(), |s| format!("{s:.1} s")),
            if trial.all.gave_up {
                "-".to_owned()
            } else {
                format!("{part:.0} % of alone")
            },
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|c| width(c).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _infallible = write!(line, "{cell:<width$}  ");
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The answer, with the meaning of its seconds.
#[must_use]
pub fn verdict(trial: &Trial) -> String {
    let compared = &trial.all.compared;
    let gain = 100.0 * compared.gain();
    let noise = 200.0 * compared.error;
    let seconds = format!(
        "together {}{:.1} s, one after another {:.1} s",
        if trial.all.gave_up { "more than " } else { "" },
        compared.together,
        compared.serial
    );
    let answer = match compared.verdict() {
        _ if trial.all.gave_up => format!("Not worth it: {seconds}."),
        Verdict::Worth => format!("Worth it: {seconds}: {gain:.0} % faster (± {noise:.0} %)."),
        Verdict::NotWorth => {
            format!(
                "Not worth it: {seconds}: {:.0} % slower (± {noise:.0} %).",
                -gain
            )
        }
        Verdict::WithinNoise => format!(
            "Cannot tell: {seconds}; a difference of {gain:+.0} % is within the noise (± {noise:.0} %)."
        ),
    };
    format!(
        "{answer}\n{}{}",
        meaning(trial, compared),
        pairs(&trial.pairs)
    )
}

/// Results of pairs, one line each, the best first.
fn pairs(pairs: &[Pair]) -> String {
    let mut all: Vec<&Pair> = pairs.iter().collect();
    let gain = |pair: &Pair| {
        pair.compared
            .as_ref()
            .map_or(f64::NEG_INFINITY, Compared::gain)
    };
    all.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let line = |pair: &&Pair| {
        let [a, b] = &pair.ids;
        let how = pair.compared.as_ref().map_or_else(
            || "one fails beside the other".to_owned(),
            |c| {
                let word = match c.verdict() {
                    Verdict::Worth => "worth it",
                    Verdict::NotWorth => "not worth it",
                    Verdict::WithinNoise => "cannot tell",
                };
                let (together, serial) = (c.together, c.serial);
                format!("{word}: together {together:.1} s, one after another {serial:.1} s")
            },
        );
        format!("\nof two: {a} and {b}: {how}")
    };
    all.iter().map(line).collect()
}

fn meaning(trial: &Trial, compared: &Compared) -> String {
    let startups = |list: Vec<f64>| -> String {
        let all: Vec<String> = list.iter().map(|s| format!("{s:.1}")).collect();
        all.join(" + ")
    };
    let alone: Vec<f64> = trial.alone.iter().map(|(a, _)| a.startup).collect();
    let mut text = match compared.basis {
        Basis::WholeRuns => {
            let ran = trial.alone.iter().all(|(alone, _)| alone.whole.is_some());
            let how = |measured: bool| if measured { "measured" } else { "predicted" };
            format!(
                "Both are whole runs with their start-up (alone {} s); together is {}, one after another {}.",
                startups(alone),
                match compared.measured {
                    true => "measured".to_owned(),
                    false => format!(
                        "predicted from {:.0} s in which all trained",
                        trial.all.joint
                    ),
                },
                how(ran)
            )
        }
        Basis::Seconds(work) => format!(
            "The work compared is what each does alone in {work:.0} s, since the length of their runs is unknown; start-up (alone {} s) is in neither.",
            startups(alone)
        ),
    };
    if compared.serial < SHORT {
        text += "\nSuch short runs are not worth planning for: their start-up decides.";
    }
    if compared.others > TOLD_OTHERS {
        text += &format!(
            "\nOther programs took up to {:.0} % of the processors meanwhile: try again in a quiet moment for a \
             sharper answer.",
            100.0 * compared.others
        );
    }
    text
}

/// A command that failed: how, its last lines, and what to change.
pub(crate) fn failed(failed: &Failed) -> String {
    let Failed {
        id,
        text,
        beside,
        ended,
        log,
        pairs: in_pairs,
    } = failed;
    let what = if *beside {
        format!("Not together: beside the others {id} fails, and alone it did not")
    } else {
        format!("{id} fails")
    };
    let mut out = format!("{what}: {} after {:.1} s", status(ended.exit), ended.at);
    let lines: Vec<&str> = ended
        .tail
        .lines()
        .filter(|l| !l.trim().is_empty())
        .collect();
    if lines.is_empty() {
        out += "; it printed nothing";
    }
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        let shown = line
            .rsplit('\r')
            .find(|part| !part.is_empty())
            .unwrap_or(line);
        out += &format!("\n  | {shown}");
    }
    out += &format!(
        "\n{}\nall that it printed: {}",
        advice(failed),
        log.display()
    );
    if !beside {
        out += &format!("\nits command: {text}");
    }
    out + &pairs(in_pairs)
}

/// Advice, from the last lines.
fn advice(failed: &Failed) -> String {
    let tail = failed.ended.tail.to_ascii_lowercase();
    let has = |word: &str| tail.contains(word);
    let id = &failed.id;
    if has("out of memory") || has("memoryerror") || has("cannot allocate memory") {
        return if failed.beside {
            "Their memory does not suffice for all at once: run them one after another, or give them smaller \
             batches or models and try again."
                .to_owned()
        } else {
            "Its memory does not suffice even alone: give it a smaller batch or model.".to_owned()
        };
    }
    if has("no module named") {
        return "Install the module, or name the python of the environment that has it \
                (venv/bin/python train.py)."
            .to_owned();
    }
    if has("usage:") || has("arguments are required") {
        return format!(
            "Give its arguments within the quotes: '{} --option value'.",
            failed.text
        );
    }
    if has("cuda_visible_devices") || has("invalid device ordinal") || has("no cuda gpus") {
        return "It requests GPUs that it does not see; this compares commands that share one device: request one GPU, or run it where there are more."
            .to_owned();
    }
    if has("address already in use") {
        return "Two of them use one port: give each its own.".to_owned();
    }
    if failed.beside {
        return format!(
            "They conflict over something that both use (a file, a port, memory); see what {id} says."
        );
    }
    "Fix that first: run the command by itself until it works, then try again.".to_owned()
}

/// A command that cannot be judged, and what to do.
pub(crate) fn unknown(id: &TaskId, why: Unknown, beside: bool, seconds: f64) -> String {
    let when = if beside { " beside the others" } else { "" };
    match why {
        Unknown::Silent => format!(
            "Cannot tell: {id} printed no progress in {seconds:.0} s{when} and did not end.\n\
             Print a line that counts, for example print(f\"step {{step}}\"), or give it as long as it takes to \
             end: --limit SECONDS."
        ),
        Unknown::Stuck => format!(
            "Cannot tell: {id} printed only one step of progress in {seconds:.0} s{when}.\nGive it the time of two epochs: --limit SECONDS, or print more often."
        ),
    }
}
