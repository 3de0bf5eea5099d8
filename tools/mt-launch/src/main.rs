//! Launch a plan or timeline and supervise it.

fn main() -> std::process::ExitCode {
    mt_launch::main()
}
