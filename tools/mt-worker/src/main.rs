//! A built-in training job that speaks the worker protocol.

fn main() -> std::process::ExitCode {
    mt_worker::main()
}
