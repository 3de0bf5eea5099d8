//! Tables and pictures of any document.

fn main() -> std::process::ExitCode {
    mt_report::main()
}
