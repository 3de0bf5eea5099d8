//! Measure the throughput of co-running training tasks.

fn main() -> std::process::ExitCode {
    mt_profile::main()
}
