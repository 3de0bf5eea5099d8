//! Alterations that leave little of a value.

use serde_json::Value;

/// Replacements of a value.
pub fn alterations(value: &Value) -> Vec<(&'static str, Value)> {
    let mut out = Vec::new();
    match value {
        Value::Number(number) => {
            let x = number.as_f64().unwrap();
            let scaled = |by: f64| match number.as_i64() {
                Some(n) => Value::from((n as f64 * by) as i64),
                None => Value::from(x * by),
            };
            if x == 0.0 {
                out.push(("scaled", Value::from(1)));
            } else {
                out.push(("scaled", scaled(2.0)));
                out.push(("scaled down", scaled(0.5)));
                out.push(("scaled far", scaled(1e3)));
                out.push(("negated", scaled(-1.0)));
                out.push(("zero", Value::from(0)));
            }
            out.push(("retyped", Value::from(number.to_string())));
        }
        Value::String(text) => {
            out.push(("emptied", Value::from("")));
            out.push(("retyped", Value::from(text.len())));
        }
        Value::Bool(b) => out.push(("retyped", Value::from(u8::from(*b)))),
        Value::Array(items) => {
            if !items.is_empty() {
                out.push(("emptied", Value::Array(Vec::new())));
                let mut twice = items.clone();
                twice.insert(1, items[0].clone());
                out.push(("duplicated", Value::Array(twice)));
            }
            if items.len() > 2 {
                out.push(("halved", Value::from(&items[..items.len() / 2])));
                let mut turned = items.clone();
                turned.rotate_left(1);
                out.push(("turned", Value::Array(turned)));
            }
            out.push(("retyped", Value::Object(serde_json::Map::new())));
        }
        Value::Object(fields) => {
            if !fields.is_empty() {
                out.push(("emptied", Value::Object(serde_json::Map::new())));
            }
            out.push(("retyped", Value::Array(Vec::new())));
        }
        Value::Null => {}
    }
    if !value.is_null() {
        out.push(("null", Value::Null));
    }
    out.retain(|(_, after)| after != value);
    out
}

/// The value with two of its parts exchanged, and which: a field of the first element of a list with that of the
/// last, or numbers of an object that are neighbours by name.
pub fn exchanges(value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Array(items) if items.len() > 1 => of_list(items),
        Value::Object(fields) => of_object(fields),
        _ => Vec::new(),
    }
}

fn of_list(items: &[Value]) -> Vec<(String, Value)> {
    let last = items.len() - 1;
    let (Value::Object(one), Value::Object(other)) = (&items[0], &items[last]) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (name, a) in one {
        let Some(b) = other.get(name).filter(|b| *b != a) else {
            continue;
        };
        let mut exchanged = items.to_vec();
        exchanged[0][name] = b.clone();
        exchanged[last][name] = a.clone();
        out.push((format!("[].{name}"), Value::from(exchanged)));
    }
    out
}

fn of_object(fields: &serde_json::Map<String, Value>) -> Vec<(String, Value)> {
    let numbers: Vec<(&String, &Value)> = fields.iter().filter(|(_, v)| v.is_number()).collect();
    let pairs = numbers.windows(2).filter(|pair| pair[0].1 != pair[1].1);
    pairs
        .map(|pair| {
            let [(a, x), (b, y)] = [pair[0], pair[1]];
            let mut exchanged = fields.clone();
            exchanged.insert(a.clone(), y.clone());
            exchanged.insert(b.clone(), x.clone());
            (format!(".{a}~{b}"), Value::Object(exchanged))
        })
        .collect()
}
