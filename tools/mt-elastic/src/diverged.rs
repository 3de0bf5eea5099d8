//! Accepts diverged losses as Python's `json.dumps` writes them: `NaN`, `Infinity`, `-Infinity`, which are not JSON.

use std::borrow::Cow;

use doc::Frame;

/// Replaces these words by `null`, except inside strings. Otherwise the whole line would be rejected, and with it the
/// training's step count and the information that its loss has diverged, for which it comes last.
pub fn as_null(frame: &Frame) -> Cow<'_, Frame> {
    let bytes = &frame.bytes;
    if !bytes.windows(3).any(|w| w == b"NaN" || w == b"Inf") {
        return Cow::Borrowed(frame);
    }
    let mut read = Vec::with_capacity(bytes.len());
    let (mut at, mut in_string) = (0, false);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let word = [&b"NaN"[..], b"Infinity", b"-Infinity"]
            .into_iter()
            .find(|w| !in_string && rest.starts_with(w));
        if let Some(word) = word {
            read.extend_from_slice(b"null");
            at += word.len();
            continue;
        }
        // An escaped quote does not end a string.
        let step = if in_string && rest[0] == b'\\' { 2 } else { 1 };
        in_string ^= rest[0] == b'"';
        read.extend_from_slice(&rest[..step.min(rest.len())]);
        at += step;
    }
    Cow::Owned(Frame {
        bytes: read,
        ..frame.clone()
    })
}
