//! Choose batch sizes and GPU shares.

fn main() -> std::process::ExitCode {
    mt_solve::main()
}
