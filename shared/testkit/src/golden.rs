//! Runs a folder of golden command-line tests; the crate's documentation describes the format.

mod case;
mod project;

use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use case::{Case, GoldenRun};
use libtest_mimic::{Arguments, Trial};

/// The `main` of a test program without a harness: each `*.test` file of `dir` (relative to `manifest_dir`) is a test
/// with the name of the file. It takes the arguments of any Rust test (a part of a name, `--exact`, `--list`,
/// `--test-threads`).
///
/// The binaries are searched for beside the running test: in the parent of cargo's `deps` folder.
///
/// # Panics
/// If the folder cannot be read or has no case: it would otherwise pass without a test.
#[must_use]
pub fn main(manifest_dir: &str, dir: &str) -> ExitCode {
    let arguments = Arguments::from_args();
    let exe = std::env::current_exe().expect("the running test has a path");
    let bins = exe
        .ancestors()
        .find(|p| p.file_name().is_some_and(|n| n == "deps"))
        .and_then(Path::parent)
        .expect("cargo puts tests into a folder called deps");
    let folder = Path::new(manifest_dir).join(dir);
    let bless = std::env::var_os("BLESS").is_some_and(|v| v == "1");
    let trials = cases(&folder).into_iter().map(|path| {
        let (folder, bins) = (folder.clone(), bins.to_owned());
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Trial::test(name.into_owned(), move || {
            check(&path, &folder, &bins, bless)
                .map_err(|text| format!("{}: {text}", path.display()).into())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// The golden tests of a folder.
///
/// # Panics
/// If the folder cannot be read or has no test.
#[must_use]
pub fn cases(folder: &Path) -> Vec<PathBuf> {
    let files = case_files(folder);
    assert!(!files.is_empty(), "no *.test in {}", folder.display());
    files
}

fn case_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|e| e.expect("a readable folder entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "test"))
        .collect();
    files.sort();
    files
}

/// Runs the case in `path` in a copy of `folder`, with the programs of `bins` first on `PATH`; `bless` accepts the
/// actual output.
///
/// # Errors
/// A message with the difference, or with the reason why the case cannot be run.
pub fn check(path: &Path, folder: &Path, bins: &Path, bless: bool) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let case = Case::parse(&text)?;
    let seen = case.normalised(&run(&case, folder, bins)?);
    if bless {
        let blessed = case.blessed(&seen)?;
        if blessed != text {
            fs::write(path, blessed).map_err(|e| e.to_string())?;
        }
        return Ok(());
    }
    match case.difference(&seen) {
        None => Ok(()),
        Some(diff) => Err(diff),
    }
}

fn run(case: &Case, folder: &Path, bins: &Path) -> Result<GoldenRun, String> {
    let io = |e: std::io::Error| format!("cannot run: {e}");
    let scratch = tempfile::tempdir().map_err(io)?;
    let cwd = scratch.path().join("cli");
    copy(folder, &cwd).map_err(io)?;
    let (out, err) = (scratch.path().join("stdout"), scratch.path().join("stderr"));
    let path = format!(
        "{}:{}",
        bins.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let mut child = Command::new("sh")
        .args(["-e", "-c", &case.script])
        .current_dir(&cwd)
        .env_clear()
        .envs([("PATH", path.as_str()), ("LC_ALL", "C")])
        .envs([("HOME", scratch.path()), ("TMPDIR", scratch.path())])
        .envs(case.env.iter().map(|(k, v)| (k, v)))
        .stdin(Stdio::null())
        .stdout(File::create(&out).map_err(io)?)
        .stderr(File::create(&err).map_err(io)?)
        .process_group(0)
        .spawn()
        .map_err(io)?;
    let deadline = Instant::now() + Duration::from_secs(case.timeout_s);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(io)? {
            break status;
        }
        if Instant::now() > deadline {
            let group = nix::unistd::Pid::from_raw(child.id().cast_signed());
            nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL)
                .map_err(|e| format!("cannot kill after the timeout: {e}"))?;
            child.wait().map_err(io)?;
            return Err(format!("still running after {} s: killed", case.timeout_s));
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let read = |p: &Path| fs::read(p).map(|b| String::from_utf8_lossy(&b).into_owned());
    Ok(GoldenRun {
        exit: status
            .code()
            .or_else(|| status.signal().map(|s| 128 + s))
            .ok_or("neither exit code nor signal")?,
        stdout: read(&out).map_err(io)?,
        stderr: read(&err).map_err(io)?,
    })
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
