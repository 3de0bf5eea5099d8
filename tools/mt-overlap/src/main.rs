//! Order transfers and compute of a round.

fn main() -> std::process::ExitCode {
    mt_overlap::main()
}
