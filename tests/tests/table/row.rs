//! Rows of the table.

use nix::sys::signal::Signal;

use crate::column::Column;
use crate::judge::Expect;

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// A report of a job, `jobs::Happening`.
    Report,
    /// A limit on time.
    Limit,
    /// A machine, a runner or a clock that pauses or jumps.
    Pause,
    /// A signal to what runs the jobs.
    Signal,
    /// How a job dies, or what stands between it and the signal that ends it.
    Death,
    /// What a process inherits: umask, niceness, limits, descriptors and processors are those of whoever added the job,
    /// who has changed them by `column::CHANGED`.
    Origin,
    /// An option of the command line.
    Option,
}

/// What is done once a job has touched the file `up`.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    /// Nothing.
    Wait,
    /// The job is stopped as the user of this runner would: SIGTERM to the runner, or `mt cancel`.
    Stop,
    /// These are sent to the runner, half a second apart.
    Send(&'static [Signal]),
    /// These processes are stopped for three seconds.
    Pause(Paused),
    /// The wall clock jumps by an hour: the file `jump` appears, see `preload.rs`.
    Jump(&'static str),
    /// The group that the job has entered is frozen, then the job is stopped; it is thawed once the runner has ended.
    Freeze,
    /// SIGKILL to the job's processes, from outside.
    KillJob,
}

/// Who pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paused {
    /// Everything, as when a virtual machine is stopped.
    All,
    /// What runs the jobs.
    Runner,
}

/// A row, or a part of it where the columns need different words on the command line.
#[derive(Debug)]
pub struct Row {
    /// What it is about.
    pub group: Group,
    /// Its name; that of the option.
    pub name: &'static str,
    /// Columns that this part is for.
    pub columns: &'static [Column],
    /// Further words for the runner.
    pub given: &'static str,
    /// The job, for sh, after the functions of `cell.rs`.
    pub job: &'static str,
    /// What is done to it.
    pub act: Act,
    /// What must be seen in the columns that `but` does not name.
    pub most: Expect,
    /// Columns where something else must be seen.
    pub but: &'static [(Column, Expect)],
}

impl Row {
    /// What must be seen in a column.
    pub fn expects(&self, column: Column) -> Expect {
        let found = self.but.iter().find(|(other, _)| *other == column);
        found.map_or(self.most, |(_, expect)| *expect)
    }

    /// Group and name.
    pub fn title(&self) -> String {
        format!("{:?} {}", self.group, self.name)
    }
}
