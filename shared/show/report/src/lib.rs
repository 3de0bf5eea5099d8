//! Tables and pictures of any document.
//!
//! A [`Reporter`] turns documents into [`Report`]s: facts, tables, pictures and tracks, independent
//! of the output format. The functions at the top level of this crate turn reports into text: for a
//! terminal, as CSV, Markdown, SVG, HTML or a Chrome trace.

mod content;
mod error;
mod number;
mod page;
mod picture;
mod render;
mod summary;

pub use content::{Reporter, verdict_note};
pub use error::RenderError;
pub use page::{Cell, Column, Report, Table, Track};
pub use picture::Picture;
pub use render::{csv, html, markdown, perfetto, svg, terminal};
pub use summary::summary;
