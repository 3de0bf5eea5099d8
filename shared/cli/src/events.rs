use std::path::Path;

use doc::Frame;

use crate::{Console, Failure, LONGEST, Line, Lines, open_reader};

/// Bad lines that are told one by one; of a stream of garbage only the number of the others.
const TOLD: u64 = 5;

/// Reads events of a live system, one a line, until the stream ends; `expected` names them.
///
/// `take` answers what is wrong with a line. A line that is no event must not end the reader: what
/// it is about goes on, and so does it; the line is told and left out, unless `strict` is set.
///
/// # Errors
/// What `take` fails with; [`Failure::Input`] where `strict` is set, where nothing can be read, and
/// where there is no event at all.
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
    let (mut taken, mut ignored) = (0_u64, 0_u64);
    let mut document = None;
    for line in Lines::new(reader) {
        let problem = match line.map_err(|error| Failure::file(path, &error))? {
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
                        problem
                    }
                }
            }
            Line::TooLong(line) => format!(
                "{source_name}:{line}: longer than {LONGEST} bytes; an event has some hundred"
            ),
        };
        if strict {
            return Err(Failure::Input(document.map_or(problem, none)));
        }
        ignored += 1;
        if ignored <= TOLD {
            console.warn(&format!("ignored: {problem}"));
        }
    }
    if ignored > TOLD {
        console.warn(&format!("{ignored} lines were ignored in all"));
    }
    if taken == 0 {
        let what = document.unwrap_or_else(|| "there is no event in it".to_owned());
        return Err(Failure::Input(none(what)));
    }
    Ok(())
}

/// What a document is of which a line is given in place of an event. One that was written over several
/// lines names its schema on one of them, so the name is looked for as text.
fn document_of(line: &[u8]) -> Option<String> {
    let (_, rest) = str::from_utf8(line).ok()?.split_once("\"schema\"")?;
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    let (schema, _) = value.strip_prefix('"')?.split_once('"')?;
    let readers = doc::readers(schema)?;
    Some(format!(
        "this is a {schema:?} document, which {readers} read, and no events"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

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
