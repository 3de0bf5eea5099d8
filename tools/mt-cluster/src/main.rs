//! Schedule many training jobs on GPUs of several kinds.

fn main() -> std::process::ExitCode {
    mt_cluster::main()
}
