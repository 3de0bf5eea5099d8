//! Invalid bytes: refused with a position, never a panic.

use doc::*;
use proptest::prelude::*;

use crate::generate;

/// Reads `bytes` in every possible way; the fault, if any, must have a position.
fn read_all(bytes: &[u8]) {
    let frames = || Frames::new(bytes, "t");
    look(AnyDocuments::new(frames()));
    look(Profiles::new(frames()));
    look(Records::new(frames()));
    look(Documents::<_, Workload>::new(frames()));
    look(Documents::<_, Model>::new(frames()));
    look(Documents::<_, Plan>::new(frames()));
    look(Documents::<_, Timeline>::new(frames()));
    look(Documents::<_, RunEvent>::new(frames()));
}

fn look<T>(documents: impl Iterator<Item = Result<T, ReadError>>) {
    for document in documents {
        if let Err(ReadError::Faults(faults)) = document {
            assert!(!faults.faults.is_empty());
            assert!(faults.line >= 1);
            for line in faults.lines() {
                assert!(line.starts_with("t:"), "{line}");
                assert!(line.len() < 20_000, "a message of {} bytes", line.len());
            }
        }
    }
}

fn text_of(wire: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(wire).unwrap()
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        generate::workload().prop_map(|w| text_of(&w)),
        generate::model().prop_map(|w| text_of(&w)),
        generate::plan().prop_map(|w| text_of(&w)),
        generate::timeline().prop_map(|w| text_of(&w)),
        generate::event().prop_map(|w| text_of(&w)),
        (generate::header(), generate::sample(), generate::end())
            .prop_map(|(h, s, e)| { [text_of(&h), text_of(&s), text_of(&e)].join(&b'\n') }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_truncated_document_is_refused(wire in generate::timeline(), cut in any::<prop::sample::Index>()) {
        let text = text_of(&wire);
        let at = 1 + cut.index(text.len() - 1);
        let mut read = Documents::<_, Timeline>::new(Frames::new(&text[..at], "t"));
        match read.next() {
            Some(Err(ReadError::Faults(f))) => prop_assert_eq!(f.faults[0].code, Code::Truncated),
            other => prop_assert!(false, "{other:?}"),
        }
        prop_assert!(read.next().is_none());
        read_all(&text[..at]);
    }

    #[test]
    fn mutated_bytes_never_panic(
        text in any_text(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let mut text = text;
        for (place, byte, how) in edits {
            let at = place.index(text.len());
            match how {
                0 => text[at] = byte,
                1 => text.insert(at, byte),
                2 if text.len() > 1 => {
                    text.remove(at);
                }
                _ => text[at] = b"{}[]\",:-.0e9"[usize::from(byte) % 12],
            }
        }
        read_all(&text);
    }

    #[test]
    fn any_bytes_never_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&text);
    }

    #[test]
    fn a_replaced_value_never_panics(text in any_text(), pick in any::<prop::sample::Index>(), what in 0..8_usize) {
        let first = serde_json::Deserializer::from_slice(&text).into_iter::<serde_json::Value>().next();
        let mut value = first.unwrap().unwrap();
        let mut places = Vec::new();
        pointers(&value, String::new(), &mut places);
        let replacement = [
            "null", "true", "-1", "1e308", "\"\"", "[]", "{}", "18446744073709551615",
        ][what];
        let place = &places[pick.index(places.len())];
        *value.pointer_mut(place).unwrap() = serde_json::from_str(replacement).unwrap();
        read_all(&text_of(&value));
    }
}

fn pointers(value: &serde_json::Value, at: String, out: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (k, v) in map {
                pointers(
                    v,
                    format!("{at}/{}", k.replace('~', "~0").replace('/', "~1")),
                    out,
                );
            }
        }
        serde_json::Value::Array(items) => {
            for (i, v) in items.iter().enumerate() {
                pointers(v, format!("{at}/{i}"), out);
            }
        }
        _ => {}
    }
    out.push(at);
}
