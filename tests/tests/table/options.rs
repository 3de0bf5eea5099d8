//! Options of everything that runs jobs.

use mt_tests::Folder;

use crate::column::Column;
use crate::row::Row;

/// Options of every tool, which the tests of `cli` cover.
const COMMON: [&str; 4] = ["--help", "--version", "--completions", "--man"];

/// Options of a column's program, as the completion script of bash lists them.
pub fn of(column: Column) -> Vec<String> {
    let (tool, verb) = column.program().split_once(' ').unwrap_or((column.program(), ""));
    let script = Folder::new().run(&format!("{tool} --completions bash")).stdout;
    let label = match verb {
        "" => tool.replace('-', "__"),
        _ => format!("{}__subcmd__{verb}", tool.replace('-', "__subcmd__")),
    };
    let mut lines = script.lines().map(str::trim).skip_while(|l| *l != format!("{label})"));
    let list = lines.find_map(|l| l.strip_prefix("opts=\"")).unwrap_or_default();
    let long = list.trim_end_matches('"').split(' ');
    long.filter(|o| o.starts_with("--") && !COMMON.contains(o)).map(str::to_owned).collect()
}

/// The rows.
pub const ROWS: &[Row] = &[];
