//! Move GPUs between running trainings by their phase of learning.

fn main() -> std::process::ExitCode {
    mt_elastic::main()
}
