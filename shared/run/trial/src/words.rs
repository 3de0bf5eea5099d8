//! Messages of a trial.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::Command;
use crate::answer::{Alone, Basis, Compared};
use crate::contrast::{LOADED, Verdict};
use crate::shared::Waits;
use crate::trial::{Pair, Told, Trial, TrialSettings, Work, status};

/// Maximum number of shared files that are named.
const FILES: usize = 5;
/// Seconds below which the compared times are too short for a plan to be useful.
const SHORT: f64 = 2.0;
/// Announces the cost of the trial, before anything starts.
#[must_use]
pub fn cost(commands: &[Command], distinct: usize, settings: &TrialSettings) -> String {
    let who = match distinct {
        1 => format!("First {} alone", commands[0].id),
        n => format!("First each of {n} commands alone"),
    };
    let stages = distinct + 1;
    let about = settings.window * stages as f64;
    format!(
        "{who}, then {} together and alone in turns. About {about:.0} s and {stages} start-ups; a command that is \
         short or prints no progress runs to its end, twice or more alone and together, each time at most {} s \
         (--limit).",
        match commands.len() {
            2 => "both".to_owned(),
            n => format!("all {n}"),
        },
        settings.limit
    )
}

/// Text of a message during the trial.
#[must_use]
pub fn told(told: &Told<'_>) -> String {
    match told {
        Told::Place(place) => format!("on {place}"),
        Told::Begins(number, of, commands) => match commands.as_slice() {
            [one] => format!("[{number}/{of}] {} alone", one.id),
            [a, b] => format!("[{number}/{of}] {} and {} together", a.id, b.id),
            all => format!("[{number}/{of}] {} together", all.len()),
        },
        Told::Again(commands) => {
            let names: Vec<&str> = commands.iter().map(|c| c.id.as_str()).collect();
            let how = if names.len() == 1 {
                "alone"
            } else {
                "together"
            };
            format!("      again: {} {how}", names.join(" and "))
        }
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

/// Table with a line for each command, alone and beside the others.
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
    let measured = trial.all.alone.iter().zip(&trial.all.beside);
    for (command, (alone, beside)) in trial.commands.iter().zip(measured) {
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

/// The verdict, with an explanation of its seconds.
#[must_use]
pub fn verdict(trial: &Trial) -> String {
    let compared = &trial.all.compared;
    let gain = 100.0 * compared.gain();
    let (low, high) = compared.interval();
    let (low, high) = (100.0 * low, 100.0 * high);
    let seconds = format!(
        "together {}{:.1} s, one after another {:.1} s",
        if trial.all.gave_up { "more than " } else { "" },
        compared.together,
        compared.serial
    );
    let answer = match compared.verdict() {
        _ if trial.all.gave_up => format!("Not worth it: {seconds}."),
        Verdict::Worth => {
            format!("Worth it: {seconds}: {gain:.0} % faster (95 %: {low:.0} to {high:.0} %).")
        }
        Verdict::NotWorth => {
            format!(
                "Not worth it: {seconds}: {:.0} % slower (95 %: {:.0} to {:.0} %).",
                -gain, -high, -low
            )
        }
        Verdict::WithinNoise => format!(
            "Cannot tell: {seconds}; a difference of {gain:+.0} % is within the noise (95 %: {low:+.0} to {high:+.0} %)."
        ),
    };
    format!(
        "{answer}\n{}{}{}",
        meaning(trial, compared),
        shared(trial),
        pairs(&trial.pairs)
    )
}

/// Warnings about locks and files that the commands share.
fn shared(trial: &Trial) -> String {
    let wait = |waits: &Waits| match &waits.what {
        Some(file) => format!(
            "\n{} waits for the others {:.0} % of the time: they lock {file}. Without the lock the answer may differ.",
            waits.id,
            100.0 * waits.part
        ),
        None => format!(
            "\n{} goes on only when the others do not: they wait for each other (a lock, a port, a file?).",
            waits.id
        ),
    };
    let file = |path: &PathBuf| {
        format!(
            "\nMore than one of them writes {}: give each its own, or a folder of its own ('sh -c \"cd a && ...\"').",
            path.display()
        )
    };
    let waits = trial.waits.iter().map(wait);
    waits
        .chain(trial.files.iter().take(FILES).map(file))
        .collect()
}

/// Suggested next steps; `workload`: the file that was written, `folder`: its folder.
#[must_use]
pub fn next(trial: &Trial, workload: &str, folder: &str) -> String {
    let commands: Vec<String> = trial
        .commands
        .iter()
        .map(|c| format!("'{}'", c.text().replace('\'', "'\\''")))
        .collect();
    let step = match trial.all.compared.verdict() {
        Verdict::Worth => format!(
            "next: mt run {}   runs them together to their end\n      mt run {workload}   measures shares, for \
             commands that run many times",
            commands.join(" ")
        ),
        Verdict::NotWorth => "next: run them one after another".to_owned(),
        Verdict::WithinNoise => {
            "next: run them one after another, or together if that is easier: there is little to gain".to_owned()
        }
    };
    format!("{step}\nwhat the commands printed is in {folder}")
}

/// A line about the end of each command of a run, and the conclusion of the run.
#[must_use]
pub fn worked(work: &Work) -> String {
    let mut text = String::new();
    for ((command, ended), log) in work.commands.iter().zip(&work.ended).zip(&work.logs) {
        let how = match ended.exit {
            jobs::Exit::Code(0) => "done".to_owned(),
            exit => format!("failed ({})", status(exit)),
        };
        let tail = jobs::plain(&ended.tail);
        let last = tail.lines().rfind(|line| !line.is_empty());
        let said = match ended.exit {
            jobs::Exit::Code(0) => String::new(),
            _ => jobs::last_words(last.unwrap_or_default()),
        };
        let _infallible = writeln!(
            text,
            "{}: {how} after {:.1} s, {}{said}",
            command.id,
            ended.at,
            log.display()
        );
    }
    let seconds = work.seconds;
    let Some(compared) = &work.compared else {
        return format!("{text}Everything took {seconds:.1} s.");
    };
    let gain = 100.0 * compared.gain();
    let (low, high) = compared.interval();
    let count = compared.judged.count;
    let (how, from, to) = match gain < 0.0 {
        true => ("slower", -100.0 * high, -100.0 * low),
        false => ("faster", 100.0 * low, 100.0 * high),
    };
    let comparisons = if count == 1 {
        "comparison"
    } else {
        "comparisons"
    };
    let by = format!(
        "together {:.0} % {how} (95 %: {from:.0} to {to:.0} %), by {count} {comparisons} within the run",
        gain.abs()
    );
    match work.in_turns {
        Some(from) => format!(
            "{text}Everything took {seconds:.1} s, one after another from {from:.1} s on: {by}."
        ),
        None => format!("{text}Everything took {seconds:.1} s: {by}."),
    }
}

/// Results of pairs, one line each, the best first.
pub(crate) fn pairs(pairs: &[Pair]) -> String {
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
    let alone: Vec<f64> = trial.all.alone.iter().map(|a| a.startup).collect();
    let mut text = match compared.basis {
        Basis::WholeRuns => {
            let ran = trial.all.alone.iter().all(|alone| alone.whole.is_some());
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
    text += &match compared.judged.count {
        1 => "\nIt was compared only once.".to_owned(),
        n => format!("\nThe mean and the error are those of {n} comparisons, seconds apart."),
    };
    if compared.serial < SHORT {
        text += "\nSuch short runs are not worth planning for: their start-up decides.";
    }
    if compared.judged.others > LOADED {
        text += &format!(
            "\nOther programs took up to {:.0} % of the processors all the time: the answer is for a machine as busy as \
             that.",
            100.0 * compared.judged.others
        );
    }
    text
}
