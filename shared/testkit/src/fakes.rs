//! Fake programs that imitate the documented behaviour of the real ones, for tests without a GPU.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with a fake `nvidia-cuda-mps-control` and a fake worker, to be put on `PATH`.
///
/// The control program keeps one daemon and one server per pipe directory, as idle processes; settings (see
/// [`FakeMps::set`]) make it misbehave in the documented ways.
#[derive(Debug)]
pub struct FakeMps {
    folder: tempfile::TempDir,
}

impl FakeMps {
    /// Writes the programs into a temporary folder, removed when this is dropped.
    ///
    /// # Panics
    /// If the file system refuses.
    #[must_use]
    pub fn install() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let fake = Self { folder };
        fs::create_dir(fake.knobs()).expect("a folder for the knobs");
        let control = include_str!("fakes/nvidia-cuda-mps-control.sh")
            .replace("@FAKE@", &fake.knobs().to_string_lossy());
        executable(&fake.control(), &control);
        let worker =
            include_str!("fakes/worker.sh").replace("@CONTROL@", &fake.control().to_string_lossy());
        executable(&fake.worker(), &worker);
        fake
    }

    /// The folder to put on `PATH`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The fake `nvidia-cuda-mps-control`.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.folder().join("nvidia-cuda-mps-control")
    }

    /// The fake worker, `fake-worker`; its behaviour is set by `FAKE_MODE` and others, see
    /// `fakes/worker.sh`.
    #[must_use]
    pub fn worker(&self) -> PathBuf {
        self.folder().join("fake-worker")
    }

    /// Compiles a `libcuda.so` that shows one GPU into the folder, for `LD_LIBRARY_PATH`; false (with a message on
    /// standard error) without a C compiler.
    ///
    /// # Panics
    /// If the compiler refuses.
    #[must_use]
    pub fn build_driver(&self) -> bool {
        self.build("libcuda.so", include_str!("fakes/libcuda.c"))
    }

    /// Compiles a `libnvidia-ml.so.1` that reports the processes in the file `FAKE_COMPUTING`, like
    /// [`FakeMps::build_driver`].
    ///
    /// # Panics
    /// If the compiler refuses.
    #[must_use]
    pub fn build_nvml(&self) -> bool {
        self.build("libnvidia-ml.so.1", include_str!("fakes/libnvidia-ml.c"))
    }

    fn build(&self, name: &str, text: &str) -> bool {
        let source = self.folder().join(format!("{name}.c"));
        fs::write(&source, text).expect("a source is a file");
        let library = self.folder().join(name);
        let mut compiler = Command::new("cc");
        let compiler = compiler.args(["-shared", "-fPIC", "-o"]);
        match compiler.arg(&library).arg(&source).output() {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{said}");
                true
            }
            Err(error) => {
                crate::skipped("cc", format!("no C compiler ({error})"));
                false
            }
        }
    }

    /// Turns a knob of the control program: `start_fails`, `start_hangs`, `mute`,
    /// `terminate_fails`, `quit_ignored`, `stays_faulted`, or `limit` with a number.
    ///
    /// # Panics
    /// If the file system refuses.
    pub fn set(&self, knob: &str, value: &str) {
        fs::write(self.knobs().join(knob), value).expect("a knob is a file");
    }

    /// Turns a knob off.
    ///
    /// # Panics
    /// If it is not on.
    pub fn unset(&self, knob: &str) {
        fs::remove_file(self.knobs().join(knob)).expect("the knob is on");
    }

    /// The commands that the control program was given so far, one per line.
    #[must_use]
    pub fn commands(&self) -> String {
        fs::read_to_string(self.knobs().join("commands")).unwrap_or_default()
    }

    /// Process ids whose environment names a pipe directory below `root`: daemon, servers and
    /// clients that still live.
    #[must_use]
    pub fn processes_below(root: &Path) -> Vec<i32> {
        let wanted = format!("CUDA_MPS_PIPE_DIRECTORY={}/", root.display());
        let own = std::process::id().cast_signed();
        fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
            .filter(|&pid: &i32| pid != own)
            .filter(|pid| {
                fs::read(format!("/proc/{pid}/environ")).is_ok_and(|env| {
                    env.split(|&b| b == 0)
                        .any(|v| v.starts_with(wanted.as_bytes()))
                })
            })
            .collect()
    }

    fn knobs(&self) -> PathBuf {
        self.folder().join("knobs")
    }
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).expect("a program is a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it can be executed");
}
