//! Check any document with code independent of the tools that wrote it.

fn main() -> std::process::ExitCode {
    mt_check::main()
}
