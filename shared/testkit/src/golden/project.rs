//! Extracts the parts of a document that a case tests, as lines that a reviewer can compare.

use serde_json::Value;

/// Values shorter than this stay on one line; longer ones are split into their members.
const ONE_LINE: usize = 90;

/// Replaces each line of `text` that is a JSON object by the parts that `paths` select (`tasks`,
/// `search.proof`; `*` is everything), one line per part: `tasks[0].batch = 32`. Other lines are kept. Keys
/// are in alphabetical order; a path that is not in the document gives no line.
pub(super) fn project(text: &str, paths: &[String]) -> String {
    let mut shown = String::new();
    for line in text.split_inclusive('\n') {
        match serde_json::from_str::<Value>(line) {
            Ok(document @ Value::Object(_)) => {
                for path in paths {
                    if path == "*" {
                        show(String::new(), &document, &mut shown);
                    } else if let Some(part) = find(&document, path) {
                        show(path.clone(), part, &mut shown);
                    }
                }
            }
            _ => shown.push_str(line),
        }
    }
    shown
}

fn find<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .try_fold(document, |value, key| value.get(key))
}

fn show(path: String, value: &Value, shown: &mut String) {
    let line = value.to_string();
    if !path.is_empty() && line.len() <= ONE_LINE {
        *shown += &format!("{path} = {line}\n");
        return;
    }
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                show(format!("{path}[{i}]"), item, shown);
            }
        }
        Value::Object(fields) => {
            let dot = if path.is_empty() { "" } else { "." };
            for (key, field) in fields {
                show(format!("{path}{dot}{key}"), field, shown);
            }
        }
        _ => *shown += &format!("{path} = {line}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, paths: &[&str]) -> String {
        let paths: Vec<String> = paths.iter().map(|p| (*p).to_owned()).collect();
        project(text, &paths)
    }

    #[test]
    fn only_what_is_named_is_shown_and_other_lines_stay() {
        let text = "{\"a\":{\"b\":[1,2.5]},\"c\":3}\nplain\n";
        assert_eq!(shown(text, &["a.b", "d"]), "a.b = [1,2.5]\nplain\n");
        assert_eq!(shown(text, &["*"]), "a = {\"b\":[1,2.5]}\nc = 3\nplain\n");
    }

    #[test]
    fn long_values_are_taken_apart() {
        let long = "x".repeat(ONE_LINE);
        let text = format!("{{\"a\":[{{\"b\":\"{long}\"}},1]}}\n");
        let want = format!("a[0].b = \"{long}\"\na[1] = 1\n");
        assert_eq!(shown(&text, &["a"]), want);
    }
}
