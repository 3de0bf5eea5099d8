use std::io::{self, Write};

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
