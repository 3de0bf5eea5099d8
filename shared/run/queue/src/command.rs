//! Commands as users write them: a single one, one per line, or a template with values.

use trial::{Command, CommandError};

use crate::values::{MOST, values};

/// Why commands cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A word after `:::` is invalid.
    #[error("{word:?} behind `:::`: {why}")]
    Values {
        /// The word.
        word: String,
        /// The error and the correction.
        why: String,
    },
    /// Placeholders and values do not match.
    #[error("{0}")]
    Placeholders(String),
    /// A command is empty, or its program or script does not exist.
    #[error("{place}{error}")]
    Command {
        /// File and line, if known.
        place: String,
        /// What is wrong.
        error: Box<CommandError>,
    },
    /// There is nothing to run.
    #[error("{0}")]
    Nothing(String),
}

/// A command with its template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplatedCommand {
    /// The command with placeholders instead of values.
    pub template: String,
    /// The command that runs, with the values filled in.
    pub command: Command,
    /// Names and values of its placeholders.
    pub values: Vec<(String, String)>,
}

/// Separator between a template and the values of its placeholders, as in GNU parallel.
const VALUES: &str = ":::";

/// A single command. If the words contain `:::`, one command for every combination of values; the last placeholder
/// changes fastest.
///
/// # Errors
/// [`Refused`]; all missing commands are named.
pub fn of_words(words: &[String]) -> Result<Vec<TemplatedCommand>, Refused> {
    let at = words.iter().position(|word| word == VALUES);
    let (template, values) = match at {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    let names = placeholders(template);
    if at.is_none() && names.is_empty() {
        return Ok(vec![one(words.to_vec(), None, "")?]);
    }
    let values: Vec<(String, Vec<String>)> = values
        .iter()
        .map(|word| read_values(word))
        .collect::<Result<_, _>>()?;
    agree(&names, &values)?;
    let count = values
        .iter()
        .try_fold(1usize, |n, (_, all)| n.checked_mul(all.len()));
    if count.is_none_or(|count| count > MOST) {
        return Err(Refused::Placeholders(format!(
            "the values make more than {MOST} commands; give fewer of them"
        )));
    }
    let text = template.join(" ");
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for (name, all) in &values {
        let with = |chosen: &Vec<(String, String)>, value: &String| {
            let mut chosen = chosen.clone();
            chosen.push((name.clone(), value.clone()));
            chosen
        };
        combinations = combinations
            .iter()
            .flat_map(|chosen| all.iter().map(move |value| with(chosen, value)))
            .collect();
    }
    combinations
        .into_iter()
        .map(|chosen| {
            let words = template.iter().map(|word| filled(word, &chosen)).collect();
            let wanted = one(words, Some(&text), "")?;
            Ok(TemplatedCommand {
                values: chosen,
                ..wanted
            })
        })
        .collect()
}

/// A word with the values of its placeholders. Braces in a value are text.
fn filled(word: &str, values: &[(String, String)]) -> String {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let value = values.iter().find_map(|(name, value)| {
            let after = after.strip_prefix(&**name)?.strip_prefix('}')?;
            Some((value, after))
        });
        match value {
            Some((value, after)) => {
                filled.push_str(value);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled + rest
}

/// One command per line; blank lines and those that begin with `#` are skipped.
///
/// # Errors
/// Every invalid line, with the name of its file and its number.
pub fn of_lines(source: &str, text: &str) -> Result<Vec<TemplatedCommand>, Vec<Refused>> {
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    // Editors of Windows put a byte order mark before the text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let begin = line.trim_start();
        if begin.is_empty() || begin.starts_with('#') {
            continue;
        }
        let place = format!("{source}:{}: ", index + 1);
        let parsed = Command::parse(line).map_err(|error| Refused::Command {
            place: place.clone(),
            error: Box::new(error),
        });
        match parsed.and_then(|command| checked(command, None, &place)) {
            Ok(wanted) => all.push(wanted),
            Err(error) => refused.push(error),
        }
    }
    match refused.is_empty() {
        false => Err(refused),
        true if all.is_empty() => Err(vec![Refused::Nothing(format!(
            "{source} has no command; write one on each line"
        ))]),
        true => Ok(all),
    }
}

fn one(
    words: Vec<String>,
    template: Option<&str>,
    place: &str,
) -> Result<TemplatedCommand, Refused> {
    let nothing = || {
        Refused::Nothing(
            "no program is named; write for example: mt add -- python3 train.py".to_owned(),
        )
    };
    let command = Command::of(words).ok_or_else(nothing)?;
    checked(command, template, place)
}

fn checked(
    command: Command,
    template: Option<&str>,
    place: &str,
) -> Result<TemplatedCommand, Refused> {
    command.check().map_err(|error| Refused::Command {
        place: place.to_owned(),
        error: Box::new(error),
    })?;
    let template = template.map_or_else(|| template_of(&command), str::to_owned);
    Ok(TemplatedCommand {
        template,
        command,
        values: Vec::new(),
    })
}

/// The template of a plain command: its numbers become placeholders, the rest stays.
#[must_use]
pub fn template_of(command: &Command) -> String {
    let value = |text: &str| text.parse::<f64>().is_ok();
    let word = |word: &String| match word.split_once('=') {
        Some((name, text)) if value(text) => format!("{name}={{}}"),
        _ if value(word) => "{}".to_owned(),
        _ => word.clone(),
    };
    let words: Vec<String> = command.argv.iter().map(word).collect();
    words.join(" ")
}

/// Names in braces, in order of appearance, each once.
fn placeholders(words: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    for word in words {
        for part in word.split('{').skip(1) {
            let Some((name, _)) = part.split_once('}') else {
                continue;
            };
            if is_name(name) && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// Valid names of placeholders. Other braces, such as those of JSON, are text.
fn is_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(letters)
}

fn read_values(word: &str) -> Result<(String, Vec<String>), Refused> {
    let wrong = |why| Refused::Values {
        word: word.to_owned(),
        why,
    };
    let (name, text) = word
        .split_once('=')
        .filter(|(name, _)| is_name(name))
        .ok_or_else(|| wrong("give NAME=VALUE,VALUE,... or NAME=FIRST..LAST".to_owned()))?;
    let all = values(text).map_err(wrong)?;
    Ok((name.to_owned(), all))
}

/// Every placeholder must have values exactly once, and all values a placeholder.
fn agree(names: &[String], values: &[(String, Vec<String>)]) -> Result<(), Refused> {
    let mut faults = Vec::new();
    for name in names {
        match values.iter().filter(|(n, _)| n == name).count() {
            0 => faults.push(format!(
                "the placeholder {{{name}}} has no values; write ::: {name}=VALUE,VALUE,... at the end"
            )),
            1 => {}
            _ => faults.push(format!("{name} has values twice; join them: {name}=VALUE,VALUE,...")),
        }
    }
    for (name, _) in values {
        if !names.contains(name) {
            faults.push(format!(
                "the command has no placeholder {{{name}}} for the values of {name}"
            ));
        }
    }
    if values.is_empty() && faults.is_empty() {
        faults.push("nothing follows `:::`; write NAME=VALUE,VALUE,...".to_owned());
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Refused::Placeholders(faults.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn every_combination_is_a_command_and_all_have_one_template() {
        let all = of_words(&words("sh -c {x}-{y} ::: x=1..3 y=a,b")).unwrap();
        let argv: Vec<String> = all.iter().map(|w| w.command.argv.join(" ")).collect();
        let wanted = ["1-a", "1-b", "2-a", "2-b", "3-a", "3-b"].map(|v| format!("sh -c {v}"));
        assert_eq!(argv, wanted);
        assert!(all.iter().all(|w| w.template == "sh -c {x}-{y}"));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        for (text, why) in [
            ("sh -c {x}", "the placeholder {x} has no values"),
            ("sh -c {x} ::: x=1 y=2", "no placeholder {y}"),
            ("sh -c {x} ::: x=1 x=2", "x has values twice"),
            ("sh -c {x} ::: x=1,,2", "a value is missing"),
            ("sh -c {x} ::: x", "NAME=VALUE"),
            ("sh -c {x} ::: x=5..2", "descends"),
            ("sh -c {x} ::: x=0.1..0.5", "0.1..0.5:STEP"),
            (
                "sh -c {x}{y} ::: x=1..1000 y=1..1000",
                "more than 100000 commands",
            ),
            ("sh -c true :::", "nothing follows"),
            ("no-such-program-at-all", "there is no program"),
        ] {
            let error = of_words(&words(text)).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_value_is_not_searched_for_placeholders_and_is_kept_with_its_name() {
        let all = of_words(&words("sh -c {x}{y} ::: x={y},b y=1,2")).unwrap();
        let argv: Vec<&str> = all.iter().map(|w| &*w.command.argv[2]).collect();
        assert_eq!(argv, ["{y}1", "{y}2", "b1", "b2"]);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(all[3].values, [pair("x", "b"), pair("y", "2")]);
    }

    #[test]
    fn braces_that_hold_no_name_are_text() {
        let all = of_words(&["sh", "-c", "{\"a\": 1} {}"].map(str::to_owned)).unwrap();
        assert_eq!(all.len(), 1);
    }

    #[test]
    fn lines_are_commands_and_each_that_is_none_is_named() {
        let text = "\u{feff}# lr\r\nsh -c 'echo 1' # one\r\n\nsh -c 2\n";
        let all = of_lines("jobs", text).unwrap();
        assert_eq!(all[0].command.argv, ["sh", "-c", "echo 1"]);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].template, "sh -c {}");
        let refused = of_lines("jobs", "sh -c 1\nnope-nope 2\nsh 'x\n").unwrap_err();
        let text: Vec<String> = refused.iter().map(ToString::to_string).collect();
        assert!(
            text[0].starts_with("jobs:2: ") && text[1].starts_with("jobs:3: "),
            "{text:?}"
        );
    }
}
