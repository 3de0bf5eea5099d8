//! Text from documents or jobs, escaped for its context. Names of tasks need no escaping, because their alphabet is
//! safe everywhere. Names of plans and workloads, paths, reasons and job output may contain any text.

use std::borrow::Cow;

/// Text that is safe for a terminal: line ends and tabs are kept, every other control character is written as in JSON
/// (`\u001b`), so nothing can move the cursor, change the title or reverse the writing direction.
#[must_use]
pub fn terminal(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_control(c) && !matches!(c, '\n' | '\t'))
}

/// Text on one line: like [`terminal`], with line ends and tabs written as `\u000a` and `\u0009`.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_control)
}

/// A line of a job's output for a terminal: without colours, and only the last state of an overwritten line (a
/// progress bar).
#[must_use]
pub fn job_line(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let last = line.rsplit('\r').next().unwrap_or_default();
    let mut plain = String::with_capacity(last.len());
    let mut rest = last;
    while let Some(start) = rest.find("\x1b[") {
        plain.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        let parameters = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        // Only colours are removed; other escape sequences are kept here and escaped below.
        rest = match parameters.strip_prefix('m') {
            Some(tail) => tail,
            None => {
                plain.push('\x1b');
                plain.push('[');
                after
            }
        };
    }
    plain.push_str(rest);
    terminal(&plain).into_owned()
}

fn escaped(text: &str, escape: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&escape) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if escape(c) {
            // All escaped characters are below U+10000, so four digits suffice.
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Whether a character is a control character (C0, DEL, C1) or changes the writing direction, which can make one name
/// look like another (Unicode TR36, 3.1.1).
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_text_reaches_a_terminal() {
        assert_eq!(terminal("größe: 3\n\tok"), "größe: 3\n\tok");
        assert_eq!(terminal("\x1b]0;title\x07"), r"\u001b]0;title\u0007");
        assert_eq!(terminal("\u{9b}2J"), r"\u009b2J");
        assert_eq!(terminal("a\u{202e}b"), r"a\u202eb");
        assert_eq!(one_line("a\nb"), r"a\u000ab");
        assert!(!(0..=0x10ffff_u32).filter_map(char::from_u32).any(|c| {
            let text = String::from(c);
            one_line(&text).chars().any(char::is_control)
        }));
    }

    #[test]
    fn a_jobs_line_loses_colours_and_what_was_written_over() {
        assert_eq!(job_line("\x1b[1;31mloss\x1b[0m 0.5"), "loss 0.5");
        assert_eq!(job_line(" 10%|#  |\r 20%|## |\r"), " 20%|## |");
        assert_eq!(job_line("\x1b[2Jx\x1b["), r"\u001b[2Jx\u001b[");
    }
}
