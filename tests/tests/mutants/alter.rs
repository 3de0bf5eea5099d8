//! Every alteration of one field of a document.

mod far;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// A document with one field altered.
pub struct Mutant {
    pub records: Vec<Value>,
    /// The position without indices, for an enumeration with its current value: `progress:$.samples`,
    /// `$.search.proof=enumerated`.
    pub place: String,
    /// Kind of alteration.
    pub kind: &'static str,
}

/// How strongly a document is altered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Numbers slightly, lists by one element, enumerations to each other value.
    Little,
    /// Numbers by a factor, to 0 and to the other sign, types to others, lists and objects to nothing, values of two
    /// positions exchanged.
    Far,
}

/// One alteration: its kind, the record, the position, and the new value.
struct Change {
    kind: &'static str,
    record: usize,
    pointer: String,
    after: Option<Value>,
    /// What part of the value at `pointer` was altered, if only a part was.
    part: String,
}

/// Mutants of a document, at most `most` for each position and kind: the first ones and the last.
pub fn mutants(records: &[Value], most: usize, reach: Reach) -> impl Iterator<Item = Mutant> {
    let enums = enums();
    let mut places: BTreeMap<(String, &'static str), Vec<Change>> = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        let mut changes = Vec::new();
        nodes(record, String::new(), &mut |pointer, value| {
            let mut take = |kind, after, part| {
                changes.push(Change {
                    kind,
                    record: at,
                    pointer: pointer.to_owned(),
                    after,
                    part,
                });
            };
            match reach {
                Reach::Little => {
                    for (kind, after) in alterations(value, &enums) {
                        take(kind, after, String::new());
                    }
                }
                Reach::Far => {
                    for (kind, after) in far::alterations(value) {
                        take(kind, Some(after), String::new());
                    }
                    for (part, after) in far::exchanges(value) {
                        take("exchanged", Some(after), part);
                    }
                }
            }
        });
        for change in changes {
            let mut place = pattern(record, &change.pointer) + &change.part;
            if let ("enum", Some(Value::String(to))) = (change.kind, &change.after) {
                // Each value is a separate mutant.
                place = format!("{place}={to}");
            }
            places.entry((place, change.kind)).or_default().push(change);
        }
    }
    if records.len() > 1 {
        let kinds: &[&'static str] = match reach {
            Reach::Little => &["record deleted", "record repeated"],
            Reach::Far => &["record exchanged"],
        };
        for (at, record) in records.iter().enumerate() {
            for &kind in kinds {
                let change = Change {
                    kind,
                    record: at,
                    pointer: String::new(),
                    after: None,
                    part: String::new(),
                };
                let place = pattern(record, "");
                places.entry((place, kind)).or_default().push(change);
            }
        }
    }
    let records = records.to_vec();
    places
        .into_iter()
        .flat_map(move |((place, _), mut changes)| {
            let last = changes.split_off(changes.len().saturating_sub(1));
            changes.truncate(most.saturating_sub(1));
            let records = records.clone();
            changes.into_iter().chain(last).map(move |change| Mutant {
                records: apply(&records, &change),
                place: place.clone(),
                kind: change.kind,
            })
        })
}

fn apply(records: &[Value], change: &Change) -> Vec<Value> {
    let mut out = records.to_vec();
    match (change.kind, &change.after) {
        ("record deleted", _) => {
            out.remove(change.record);
        }
        ("record repeated", _) => {
            let again = out[change.record].clone();
            out.insert(change.record, again);
        }
        ("record exchanged", _) => {
            // With the previous one, the first with the next one.
            let other = change.record.checked_sub(1).unwrap_or(1);
            out.swap(change.record, other);
        }
        (_, Some(after)) => {
            let place = out[change.record].pointer_mut(&change.pointer);
            *place.unwrap() = after.clone();
        }
        (_, None) => {
            let (parent, name) = change.pointer.rsplit_once('/').unwrap();
            let parent = out[change.record].pointer_mut(parent).unwrap();
            match parent {
                Value::Object(fields) => {
                    let name = name.replace("~1", "/").replace("~0", "~");
                    fields.remove(&name);
                }
                Value::Array(items) => {
                    items.remove(name.parse().unwrap());
                }
                _ => unreachable!("only lists and objects have parts"),
            }
        }
    }
    out
}

/// Every value of a document except the document itself, with its JSON pointer.
fn nodes(value: &Value, at: String, look: &mut impl FnMut(&str, &Value)) {
    if !at.is_empty() {
        look(&at, value);
    }
    match value {
        Value::Object(map) => {
            for (k, v) in map {
                let k = k.replace('~', "~0").replace('/', "~1");
                nodes(v, format!("{at}/{k}"), look);
            }
        }
        Value::Array(items) => {
            for (i, v) in items.iter().enumerate() {
                nodes(v, format!("{at}/{i}"), look);
            }
        }
        _ => {}
    }
}

/// Replacements of a value; an empty one removes the value.
fn alterations(value: &Value, enums: &[Vec<String>]) -> Vec<(&'static str, Option<Value>)> {
    let mut out = vec![("deleted", None)];
    match value {
        Value::Number(number) => {
            out.push(("more", Some(more(number))));
            out.extend(less(number).map(|n| ("less", Some(n))));
        }
        Value::Bool(b) => out.push(("flipped", Some(Value::from(!b)))),
        Value::String(text) => {
            out.push(("text", Some(Value::from(format!("{text}-x")))));
            for names in enums.iter().filter(|names| names.contains(text)) {
                for other in names.iter().filter(|other| *other != text) {
                    out.push(("enum", Some(Value::from(other.clone()))));
                }
            }
        }
        Value::Array(items) if items.len() > 1 => {
            let mut swapped = items.clone();
            swapped.swap(0, items.len() - 1);
            if swapped != *items {
                out.push(("swapped", Some(Value::from(swapped))));
            }
            let mut longer = items.clone();
            longer.push(items[0].clone());
            out.push(("longer", Some(Value::from(longer))));
        }
        Value::Array(items) => {
            let longer: Vec<&Value> = items.iter().chain(items).collect();
            out.push(("longer", Some(serde_json::to_value(longer).unwrap())));
        }
        Value::Object(_) | Value::Null => {}
    }
    out
}

/// A number a little larger: a whole one by one, another by a thousandth.
fn more(number: &serde_json::Number) -> Value {
    if let Some(n) = number.as_i64() {
        return Value::from(n + 1);
    }
    let x = number.as_f64().unwrap();
    Value::from(if x == 0.0 { 1e-3 } else { x * 1.001 })
}

/// A number a little smaller; a negative one would be refused by most readers.
fn less(number: &serde_json::Number) -> Option<Value> {
    if let Some(n) = number.as_i64() {
        return (n > 0).then(|| Value::from(n - 1));
    }
    let x = number.as_f64().unwrap();
    (x != 0.0).then(|| Value::from(x * 0.999))
}

/// The position without indices: `$.phases[].start_s`.
fn pattern(record: &Value, pointer: &str) -> String {
    let kind = record["record"].as_str().or(record["event"].as_str());
    let mut out = kind.map_or("$".to_owned(), |k| format!("{k}:$"));
    for segment in pointer.split('/').skip(1) {
        if segment.bytes().all(|b| b.is_ascii_digit()) {
            out.push_str("[]");
        } else {
            out.push('.');
            out.push_str(segment);
        }
    }
    out
}

/// The values of every enumeration of the schemas.
fn enums() -> Vec<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().extension().is_some_and(|e| e == "json") {
            let text = fs::read_to_string(entry.path()).unwrap();
            let schema: Value = serde_json::from_str(&text).unwrap();
            nodes(&schema, String::new(), &mut |_, value| {
                let Some(variants) = value["oneOf"].as_array() else {
                    return;
                };
                let names: Vec<String> = variants
                    .iter()
                    .filter_map(|v| v["const"].as_str())
                    .map(str::to_owned)
                    .collect();
                if names.len() > 1 {
                    out.push(names);
                }
            });
        }
    }
    out.sort();
    out.dedup();
    out
}
