//! What must be seen in a cell, and whether it was.

use std::path::Path;

use crate::seen::Seen;

/// Words that must be seen: alternatives are separated by `|`; `!` before them: must not be seen; `3x:` before them: at
/// least so often; `took<5` and `took>2`: seconds from the act, or from the start, to the end.
pub type Words = &'static [&'static str];

/// What must be seen in a cell.
#[derive(Debug, Clone, Copy)]
pub enum Expect {
    /// It ends with this code, and these words are seen.
    Ends(i32, Words),
    /// The same, or an option that the row gives is refused by name with exit code 2.
    Acts(i32, Words),
    /// An option that the row gives is refused by name with exit code 2.
    Refused,
    /// A test in this file uses the option, since its effect needs what a cell lacks.
    Elsewhere(&'static str),
    /// There is nothing to see, for this reason.
    Meaningless(&'static str),
}

/// How what was seen differs from what must be.
pub fn fault(expect: Expect, seen: &Seen) -> Option<String> {
    match expect {
        Expect::Ends(code, words) => ends(code, words, seen),
        Expect::Acts(code, words) => {
            let fault = ends(code, words, seen)?;
            (!is_refused(seen)).then(|| format!("{fault}, and {} is not refused", seen.given))
        }
        Expect::Refused => {
            let told = || format!("{} is not refused: {}", seen.given, seen.end());
            (!is_refused(seen)).then(told)
        }
        Expect::Elsewhere(_) | Expect::Meaningless(_) => None,
    }
}

fn is_refused(seen: &Seen) -> bool {
    let mut options = seen.given.split(' ').filter(|word| word.starts_with("--"));
    seen.code == Some(2) && options.any(|option| seen.stderr.contains(option))
}

fn ends(code: i32, words: Words, seen: &Seen) -> Option<String> {
    let mut faults = Vec::new();
    if seen.late {
        faults.push("it hangs".to_owned());
    } else if seen.code != Some(code) {
        faults.push(format!("{}, not {code}", seen.end()));
    }
    faults.extend(
        words
            .iter()
            .filter(|word| !holds(word, seen))
            .map(|word| format!("not seen: {word}")),
    );
    if !seen.left.is_empty() {
        faults.push(format!("left: {}", seen.left.join(", ")));
    }
    (!faults.is_empty()).then(|| faults.join("; "))
}

fn holds(word: &str, seen: &Seen) -> bool {
    if let Some(most) = word.strip_prefix("took<") {
        return seen.took < most.parse().expect(word);
    }
    if let Some(least) = word.strip_prefix("took>") {
        return seen.took > least.parse().expect(word);
    }
    let has = |words: &str| words.split('|').any(|one| seen.text.contains(one));
    if let Some(words) = word.strip_prefix('!') {
        return !has(words);
    }
    match word.split_once("x:") {
        Some((times, one)) if times.parse::<usize>().is_ok() => {
            seen.text.matches(one).count() >= times.parse().expect(word)
        }
        _ => has(word),
    }
}

/// Whether a test file does not name an option that it is to show.
pub fn elsewhere(file: &str, option: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    (!text.contains(option)).then(|| format!("{file} does not use {option}"))
}

#[test]
fn words_are_judged() {
    let seen = |text: &str, code: i32, took: f64| Seen {
        given: "--rounds 2",
        code: Some(code),
        stderr: text.to_owned(),
        text: text.to_owned(),
        took,
        late: false,
        left: Vec::new(),
    };
    let good = [
        Expect::Ends(
            2,
            &["is not|are not", "2x:--ro", "!restart", "took<3", "took>1"],
        ),
        Expect::Acts(0, &["acted"]),
        Expect::Refused,
    ];
    let refused = seen("--rounds is not for schedules; --round neither", 2, 2.0);
    for expect in good {
        assert_eq!(fault(expect, &refused), None, "{expect:?}");
    }
    let silent = seen("restart", 0, 0.5);
    for expect in [
        Expect::Ends(0, &["acted"]),
        Expect::Ends(0, &["2x:restart"]),
        Expect::Ends(0, &["!restart"]),
        Expect::Ends(0, &["took>1"]),
        Expect::Ends(0, &["took<0.2"]),
        Expect::Ends(1, &[]),
        Expect::Acts(0, &["acted"]),
        Expect::Refused,
    ] {
        assert!(fault(expect, &silent).is_some(), "{expect:?}");
    }
    let mut left = seen("", 0, 0.5);
    left.left.push("sleep 77".to_owned());
    assert!(fault(Expect::Ends(0, &[]), &left).is_some());
}
