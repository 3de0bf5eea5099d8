use std::path::Path;

use doc::Frame;

use crate::{Console, Failure, LONGEST, Line, Lines, open_reader};

/// Number of invalid lines that are reported individually; of the others, only the line numbers are reported at the
/// end.
const TOLD: u64 = 5;
/// Maximum number of reported ranges of invalid lines, about 2 kB, so that a stream of garbage does not fill a log.
const STRETCHES: usize = 200;

/// Lines that were skipped.
#[derive(Default)]
struct Ignored {
    count: u64,
    /// First and last line number of each range.
    stretches: Vec<(u64, u64)>,
    /// Whether there are more, beyond the kept ranges.
    more: bool,
}

impl Ignored {
    fn note(&mut self, line: u64) {
        self.count += 1;
        let full = self.stretches.len() == STRETCHES;
        match self.stretches.last_mut() {
            Some((_, last)) if *last + 1 == line => *last = line,
            _ if full => self.more = true,
            _ => self.stretches.push((line, line)),
        }
    }

    fn text(&self) -> String {
        let stretch = |(first, last): &(u64, u64)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        let all: Vec<String> = self.stretches.iter().map(stretch).collect();
        let more = if self.more { " and others" } else { "" };
        let (count, all) = (self.count, all.join(", "));
        format!("{count} lines were ignored in all: {all}{more}")
    }
}

/// Reads events of a live system, one per line, until the stream ends; `expected` names them in messages.
///
/// `take` returns what is wrong with a line. An invalid line must not end the tool, because the system that it
/// observes continues; the line is reported and skipped, unless `strict` is set.
///
/// # Errors
/// The error of `take`; [`Failure::Input`] for an invalid line with `strict`, if nothing can be read, and if there is
/// no event at all.
pub fn each_event(
    path: &Path,
    expected: &str,
    strict: bool,
    console: &Console,
    mut take: impl FnMut(&Frame) -> Result<Result<(), String>, Failure>,
) -> Result<(), Failure> {
    let (reader, source_name) = open_reader(path, expected, console)?;
    let none = |what: String| {
        let tool = console.tool();
        format!("{source_name}: {what}; `{tool} --help` shows what events look like")
    };
    let (mut taken, mut ignored) = (0_u64, Ignored::default());
    let mut document = None;
    for line in Lines::new(reader) {
        let (number, problem) = match line.map_err(|error| Failure::file(path, &error))? {
            Line::Text(text, _) if text.trim_ascii().is_empty() => continue,
            Line::Text(bytes, line) => {
                let source_name = source_name.clone();
                let frame = Frame {
                    bytes,
                    source_name,
                    line,
                };
                match take(&frame)? {
                    Ok(()) => {
                        taken += 1;
                        continue;
                    }
                    Err(problem) => {
                        document = document.or_else(|| document_of(&frame.bytes));
                        (line, problem)
                    }
                }
            }
            Line::TooLong(line) => {
                let problem = format!(
                    "{source_name}:{line}: longer than {LONGEST} bytes; an event has a few hundred"
                );
                (line, problem)
            }
        };
        if strict {
            return Err(Failure::Input(document.map_or(problem, none)));
        }
        ignored.note(number);
        if ignored.count <= TOLD {
            console.warn(&format!("ignored: {problem}"));
        }
    }
    if ignored.count > TOLD {
        console.warn(&ignored.text());
    }
    if taken == 0 {
        let what = document.unwrap_or_else(|| "it contains no event".to_owned());
        return Err(Failure::Input(none(what)));
    }
    Ok(())
}

/// The kind of document to which a line belongs, if it is not an event. A document may span several lines and name
/// its schema on any of them, so the name is searched for as text.
fn document_of(line: &[u8]) -> Option<String> {
    let (_, rest) = str::from_utf8(line).ok()?.split_once("\"schema\"")?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    let (schema, _) = value.strip_prefix('"')?.split_once('"')?;
    let readers = doc::readers(schema)?;
    Some(format!(
        "this is a {schema:?} document, which {readers} read, not a stream of events"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_that_is_left_out_is_told_by_its_number_until_there_are_too_many() {
        let text = |lines: &mut dyn Iterator<Item = u64>| {
            let mut ignored = Ignored::default();
            lines.for_each(|line| ignored.note(line));
            ignored.text()
        };
        let told = text(&mut [2, 3, 4, 7, 9, 10].into_iter());
        assert_eq!(told, "6 lines were ignored in all: 2-4, 7, 9-10");
        let many = text(&mut (0..1_000_000).map(|n| 2 * n));
        assert!(many.ends_with(" and others") && many.len() < 4000, "{many}");
    }

    #[test]
    fn a_document_in_place_of_events_is_told_from_one_of_its_lines() {
        let told = document_of(br#"  "schema": "mt.plan/1","#).unwrap();
        assert!(told.contains("mt-overlap and mt-launch"), "{told}");
        for line in [
            r#"{"schema":"mt.training/1","event":"done"}"#,
            r#"{"schema":7}"#,
            r#"{"event":"done"}"#,
        ] {
            assert_eq!(document_of(line.as_bytes()), None);
        }
    }
}
