//! Manual page of a tool, with the usual sections.

use std::fmt::Write as _;
use std::io;

use clap::Command;
use clap_mangen::Man;

/// Every page of the suite, in the order of the pipe.
const PAGES: [&str; 12] = [
    "mt(1)",
    "mt-profile(1)",
    "mt-fit(1)",
    "mt-solve(1)",
    "mt-overlap(1)",
    "mt-launch(1)",
    "mt-elastic(1)",
    "mt-cluster(1)",
    "mt-report(1)",
    "mt-check(1)",
    "mt-worker(1)",
    "mt-workload(5)",
];

/// The paragraphs after the options of `--help`.
#[derive(Debug, Default, PartialEq)]
struct After {
    /// Paragraphs that begin with `Examples:`.
    examples: String,
    /// Paragraphs that begin with `Exit codes:`.
    exit: String,
    /// All other paragraphs.
    notes: String,
}

/// The page, in roff.
///
/// clap_mangen puts everything after the options into one section, EXTRA; here it is divided.
///
/// # Errors
/// None in practice, because the page is written to memory.
pub(crate) fn page(command: Command, tool: &str) -> io::Result<Vec<u8>> {
    let after = After::of(&command);
    let commands = commands(&command, tool)?;
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    page.extend(commands.into_bytes());
    page.extend(after.roff(tool).into_bytes());
    man.render_version_section(&mut page)?;
    Ok(page)
}

/// The commands of a tool, each with its options. clap_mangen would give each its own page; here they share one page.
fn commands(command: &Command, tool: &str) -> io::Result<String> {
    let mut page = String::new();
    for verb in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let name = format!("{tool} {}", verb.get_name());
        let about = verb
            .get_long_about()
            .or(verb.get_about())
            .map(ToString::to_string)
            .unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(page, ".SS {}\n{}", escaped(&name), literal(&about));
        if verb.get_opts().next().is_none() {
            continue;
        }
        let mut options = Vec::new();
        let man = Man::new(verb.clone());
        man.render_options_section(&mut options)?;
        for line in String::from_utf8_lossy(&options).lines() {
            let _ = match line.strip_prefix(".SH ") {
                Some("OPTIONS") => Ok(()),
                Some(heading) => writeln!(page, ".PP\n{heading}:"),
                None => writeln!(page, "{line}"),
            };
        }
        let after = After::of(verb);
        for part in [after.notes, after.examples] {
            if !part.is_empty() {
                let _ = writeln!(page, ".PP\n{}", literal(&part));
            }
        }
    }
    if !page.is_empty() {
        page.insert_str(0, ".SH COMMANDS\n");
    }
    Ok(page)
}

impl After {
    fn of(command: &Command) -> Self {
        let text = command
            .get_after_long_help()
            .or(command.get_after_help())
            .map(ToString::to_string)
            .unwrap_or_default();
        let mut after = Self::default();
        for paragraph in text.trim_end().split("\n\n") {
            let (part, text) = match paragraph.split_once(':') {
                Some(("Examples", rest)) => (&mut after.examples, rest.trim_start_matches('\n')),
                Some(("Exit codes", rest)) => (&mut after.exit, rest.trim_start()),
                _ => (&mut after.notes, paragraph),
            };
            if !part.is_empty() {
                part.push_str("\n\n");
            }
            part.push_str(text);
        }
        after
    }

    fn roff(&self, tool: &str) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        if !self.notes.is_empty() {
            let _ = writeln!(page, ".SH NOTES\n{}", literal(&self.notes));
        }
        if !self.examples.is_empty() {
            let _ = writeln!(page, ".SH EXAMPLES\n{}", literal(&self.examples));
        }
        if !self.exit.is_empty() {
            let _ = writeln!(page, ".SH EXIT STATUS");
            let joined = self.exit.split_whitespace().collect::<Vec<_>>().join(" ");
            for item in joined.trim_end_matches('.').split("; ") {
                let code = item
                    .split_once(' ')
                    .filter(|(code, _)| code.bytes().all(|b| b.is_ascii_digit()));
                let _ = match code {
                    Some((code, what)) => writeln!(page, ".TP\n.B {code}\n{}", escaped(what)),
                    None => writeln!(page, ".PP\n{}", escaped(item)),
                };
            }
        }
        let own = format!("{tool}(1)");
        let others: Vec<String> = PAGES
            .iter()
            .filter(|name| **name != own)
            .map(|name| {
                let (name, section) = name.split_at(name.len() - 3);
                format!(".BR {} {section}", escaped(name))
            })
            .collect();
        let _ = writeln!(page, ".SH SEE ALSO\n{}", others.join(" ,\n"));
        page
    }
}

/// Text as in `--help`. Indented lines keep their line ends and columns, unless they explain the line above. All
/// other lines are filled, to fit the width of the terminal.
fn literal(text: &str) -> String {
    /// Indentation of the explanation of an example.
    const EXPLANATION: usize = 6;
    let mut page = String::new();
    for line in text.lines() {
        let words = line.trim_start();
        // Writing to a String cannot fail.
        let _ = match line.len() - words.len() {
            0 if words.is_empty() => writeln!(page, ".PP"),
            0 => writeln!(page, "{}", escaped(line)),
            EXPLANATION => writeln!(page, ".RS 6\n{}\n.RE", escaped(words)),
            _ => writeln!(page, ".nf\n{}\n.fi", escaped(line)),
        };
    }
    // Consecutive lines of one kind form one block.
    let page = page.replace(".RE\n.RS 6\n", "").replace(".fi\n.nf\n", "");
    page.trim_end().to_owned()
}

/// A line of text escaped for roff: an initial dot or quote would be a request.
fn escaped(line: &str) -> String {
    let text = line
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq");
    if text.starts_with('.') || text.starts_with("\\(aq") {
        format!("\\&{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Examples:\n  mt-x a | mt-y 'b'\n      what it does\n\nA paragraph:\n.dots stay.\n\n\
                        Exit codes: 0 done; 1 some did not;\n130 after Ctrl-C.";

    #[test]
    fn the_text_after_the_options_is_taken_apart() {
        let after = After::of(&Command::new("mt-x").after_help(HELP));
        assert_eq!(after.examples, "  mt-x a | mt-y 'b'\n      what it does");
        assert_eq!(after.notes, "A paragraph:\n.dots stay.");
        assert_eq!(after.exit, "0 done; 1 some did not;\n130 after Ctrl-C.");
        assert_eq!(After::of(&Command::new("mt-x")), After::default());
    }

    #[test]
    fn a_page_has_the_sections_of_a_manual() {
        let command = Command::new("mt-fit")
            .version("1")
            .about("Fits")
            .after_help(HELP);
        let page = String::from_utf8(page(command, "mt-fit").unwrap()).unwrap();
        for part in [
            ".SH NOTES\nA paragraph:\n\\&.dots stay.\n",
            ".SH EXAMPLES\n.nf\n  mt\\-x a | mt\\-y \\(aqb\\(aq\n.fi\n.RS 6\nwhat it does\n.RE\n",
            ".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\nsome did not\n.TP\n.B 130\nafter Ctrl\\-C\n",
            ".SH SEE ALSO\n.BR mt (1) ,\n.BR mt\\-profile (1) ,\n.BR mt\\-solve (1) ,\n",
            ".BR mt\\-workload (5)\n",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        assert!(!page.contains(".BR mt\\-fit "), "{page}");
        assert!(!page.contains("EXTRA"), "{page}");
    }

    #[test]
    fn a_page_has_the_commands_with_their_options() {
        let verb = Command::new("exec")
            .about("Becomes a program")
            .arg(clap::Arg::new("task").long("task").help("Its name"))
            .after_help("Exit codes: 0 done.\n\nIt keeps\nthis process.");
        let plain = Command::new("plain").about("Has no options");
        let hidden = Command::new("probe").hide(true);
        let command = Command::new("mt-x")
            .version("1")
            .subcommands([verb, plain, hidden]);
        let page = String::from_utf8(page(command, "mt-x").unwrap()).unwrap();
        let (_, commands) = page.split_once(".SH COMMANDS\n.SS mt\\-x exec\n").unwrap();
        assert!(commands.starts_with("Becomes a program\n"), "{page}");
        assert!(commands.contains("Its name"), "{page}");
        assert!(
            commands.contains(".PP\nIt keeps\nthis process.\n"),
            "{page}"
        );
        assert!(
            commands.contains(".SS mt\\-x plain\nHas no options\n"),
            "{page}"
        );
        assert!(
            !page.contains("probe") && !page.contains("exec(1)"),
            "{page}"
        );
    }
}
