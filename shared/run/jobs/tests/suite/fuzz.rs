//! Output of jobs, close to what real jobs print.

use std::path::Path;

use jobs::{LineCutter, Message, ProgressSource, Units};
use testkit::fuzz::fuzz;

const UNITS: Units = Units {
    step: Some(32),
    epoch: Some(50_000),
};

fn class(message: &Message) -> &'static str {
    match message {
        Message::Ready { .. } => "ready",
        Message::Step { .. } => "step",
        Message::Done { .. } => "done",
        Message::Loaded => "loaded",
        Message::Parked => "parked",
    }
}

/// The first line is a regular expression, the others are what the job prints.
#[test]
fn fuzz_protocol_and_regex() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/protocol");
    fuzz("protocol", &[&corpus], |input| {
        let end = input
            .iter()
            .position(|b| *b == b'\n')
            .unwrap_or(input.len());
        let (regex, output) = input.split_at(end);
        let regex = std::str::from_utf8(regex).ok();
        let counted = regex.map(|text| ProgressSource::from_regex(text, UNITS));
        let mut ways = vec![ProgressSource::Protocol];
        let compiled = counted.map(|way| way.map(|way| ways.push(way)).is_ok());
        let mut told = format!("{compiled:?}");
        for mut way in ways {
            let (mut lines, mut classes) = (LineCutter::default(), Vec::new());
            let mut take = |line: &[u8], _: bool| {
                classes.extend(way.parse(line).map(|message| class(&message)));
            };
            // In two parts, as a pipe may deliver it.
            let (one, other) = output.split_at(output.len() / 2);
            let passed_over = lines.push(one, &mut take) + lines.push(other, &mut take);
            lines.finish(&mut take);
            classes.dedup();
            classes.truncate(4);
            told += &format!(" {passed_over} {classes:?} {}", way.doubt().is_some());
        }
        told
    });
}
