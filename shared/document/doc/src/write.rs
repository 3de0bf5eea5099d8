use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use crate::Document;
use crate::wire::Wire as _;

/// Writes a document as one line of JSON.
///
/// # Errors
/// Any error of `out`.
pub fn write_line<D: Document>(out: &mut (impl Write + ?Sized), document: &D) -> io::Result<()> {
    let mut line = document.to_wire().line()?;
    line.push(b'\n');
    out.write_all(&line)
}

/// Writes a document as JSON that is indented over several lines, for people.
///
/// # Errors
/// Any error of `out`.
pub fn write_pretty<D: Document>(out: &mut (impl Write + ?Sized), document: &D) -> io::Result<()> {
    out.write_all(&spread(&document.to_wire().line()?))
}

/// Indents a line of JSON in the layout of `serde_json`'s pretty printer. That printer is not used because its
/// code is as large as the one that writes the line, and would be compiled for each kind of document.
pub(crate) fn spread(line: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(2 * line.len());
    let mut depth = 0;
    let mut quoted = false;
    let mut escaped = false;
    let mut before = b' ';
    let begin = |text: &mut Vec<u8>, depth: usize| {
        text.push(b'\n');
        text.resize(text.len() + 2 * depth, b' ');
    };
    for &byte in line {
        if quoted {
            quoted = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            text.push(byte);
            before = byte;
            continue;
        }
        // Brackets of an empty list or object stay together: break the line only once something follows.
        let opened = matches!(before, b'{' | b'[');
        let closes = matches!(byte, b'}' | b']');
        if opened && !closes {
            depth += 1;
            begin(&mut text, depth);
        } else if closes && !opened {
            depth -= 1;
            begin(&mut text, depth);
        }
        text.push(byte);
        match byte {
            b'"' => quoted = true,
            b',' => begin(&mut text, depth),
            b':' => text.push(b' '),
            _ => {}
        }
        before = byte;
    }
    text.push(b'\n');
    text
}

/// Name of a variant without fields, as documents have it, for messages and tables; empty for any other value.
#[must_use]
pub fn name_of(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            r#"[\\"{}\[\]:, a\n\u{e9}]{0,6}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 4, |inner| {
            let key = r#"[\\"{}:,k]{0,3}"#;
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key, inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn lines_are_spread_as_serde_json_spreads_them(value in any_value()) {
            let spread = String::from_utf8(spread(value.to_string().as_bytes())).unwrap();
            let expected = serde_json::to_string_pretty(&value).unwrap() + "\n";
            prop_assert_eq!(spread, expected);
        }
    }
}
