//! Command line, standard streams, exit codes, progress and completions of every tool.
//!
//! A tool's `main` is one call of [`run`]; its `run` function turns parsed arguments into documents
//! and returns an [`Exit`] or a [`Failure`]. Only this crate touches argv, standard streams and
//! exit codes:
//!
//! - standard output carries documents and nothing else; notes, tables for people, progress bars
//!   and errors go to standard error;
//! - `-` or no file means standard input; each input document gives one output document, in order;
//! - a document is written completely or not at all; a file given with `--output` appears
//!   completely or not at all, and never replaces an input;
//! - a closed pipe ends a tool quietly; the exit code still reports a negative answer;
//! - text from documents is escaped for its context ([`terminal`], [`shell_word`], [`one_line`]).

mod args;
mod console;
mod control;
mod events;
mod exit;
mod failure;
mod files;
mod input;
mod lines;
mod manual;
mod meta;
mod named;
mod output;
mod signals;
mod spool;
mod startup;
mod text;

pub use args::{
    BalanceArg, BatchArg, DeviceArg, EnvArgs, EventArgs, JobArgs, LimitArgs, ObjectiveArg,
    SeedArgs, SoloArg, StreamArgs, seconds,
};
pub use console::Console;
pub use control::{control_lines, guard, in_background, last_word, pass_through};
pub use events::each_event;
pub use exit::Exit;
pub use failure::Failure;
pub use files::{make_folder, may_append};
pub use input::{Input, Source, open_reader, stdin_has_data};
pub use jobs::program::shell_word;
pub use lines::{LONGEST, Line, Lines};
pub use meta::run;
pub use named::{Tool, run_named};
pub use output::{Existing, Output, Replaced, summarise_by};
pub use signals::ending_signals;
pub use spool::{Spool, Worth};
pub use text::{job_line, one_line, terminal};
