//! Command line, standard streams, exit codes, progress and completions of every tool.
//!
//! A tool's `main` is one call of [`run`]; its `run` function turns parsed arguments into
//! documents and says how it went with an [`Exit`] or a [`Failure`]. Only this crate touches
//! argv, standard streams and exit codes:
//!
//! - standard output carries documents and nothing else; notes, tables for people, progress bars
//!   and errors go to standard error;
//! - `-` or no file means standard input; many documents in give as many out, in order;
//! - a document is written whole or not at all, and a file given with `--output` appears whole
//!   or not at all;
//! - a closed pipe ends a tool quietly, with exit code 0.

mod args;
mod console;
mod control;
mod exit;
mod failure;
mod input;
mod meta;
mod output;

pub use args::{SeedArgs, StreamArgs};
pub use console::Console;
pub use control::control_lines;
pub use exit::Exit;
pub use failure::Failure;
pub use input::{Input, Source, open_reader};
pub use meta::{provenance, run};
pub use output::Output;
