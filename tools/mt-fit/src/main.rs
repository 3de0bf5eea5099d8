//! Fit a co-run throughput model to a profile.

fn main() -> std::process::ExitCode {
    mt_fit::main()
}
