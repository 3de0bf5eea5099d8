//! All tools in one program. The name by which it is called selects the tool.

use std::process::ExitCode;

use cli::Tool;

/// The tools, in the order of the pipeline.
const TOOLS: [Tool; 11] = [
    ("mt", mt_tools::main),
    ("mt-profile", mt_profile::main),
    ("mt-fit", mt_fit::main),
    ("mt-solve", mt_solve::main),
    ("mt-overlap", mt_overlap::main),
    ("mt-launch", mt_launch::main),
    ("mt-elastic", mt_elastic::main),
    ("mt-cluster", mt_cluster::main),
    ("mt-report", mt_report::main),
    ("mt-check", mt_check::main),
    ("mt-worker", mt_worker::main),
];

fn main() -> ExitCode {
    cli::run_named(&TOOLS)
}
