use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use crate::Document;

/// Writes a document as one line of JSON.
///
/// # Errors
/// Whatever `out` answers; a closed pipe keeps its kind (`serde_json` would wrap it).
pub fn write_line<D: Document>(out: &mut (impl Write + ?Sized), document: &D) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &document.to_wire()).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// Writes a document as JSON spread over lines for people.
///
/// # Errors
/// As [`write_line`].
pub fn write_pretty<D: Document>(out: &mut (impl Write + ?Sized), document: &D) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document.to_wire()).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// The name of a variant without fields as it stands in documents, for messages and tables; empty
/// for a value of another form.
#[must_use]
pub fn name_of(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}
