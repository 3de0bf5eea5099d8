//! Fake programs that imitate the documented behaviour of the real ones, for tests without a GPU.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with a fake `nvidia-cuda-mps-control` and a fake worker, to be put on `PATH`.
///
/// The control program starts one daemon and one server per pipe directory, as idle processes; settings (see
/// [`FakeMps::set`]) make it fail in the documented ways.
#[derive(Debug)]
pub struct FakeMps {
    folder: PathBuf,
    /// Removes the folder on drop; absent if the folder stays.
    _temporary: Option<tempfile::TempDir>,
}

/// A GPU of the fake machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// Product name.
    pub name: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Training speed, relative to a card of speed 1.
    pub speed: f64,
}

impl Card {
    /// A card with 80 SMs and speed 1, named after its memory.
    #[must_use]
    pub fn of_gib(gib: u64) -> Self {
        Self {
            name: format!("Fake {gib} GB"),
            memory: gib << 30,
            sms: 80,
            speed: 1.0,
        }
    }
}

impl FakeMps {
    /// Writes the programs into a temporary folder, removed when this is dropped.
    ///
    /// # Panics
    /// If the file system refuses.
    #[must_use]
    pub fn install() -> Self {
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let fake = Self::install_in(temporary.path());
        Self {
            _temporary: Some(temporary),
            ..fake
        }
    }

    /// Writes the programs into a folder that stays.
    ///
    /// # Panics
    /// If the file system refuses.
    #[must_use]
    pub fn install_in(folder: &Path) -> Self {
        let fake = Self {
            folder: folder.to_owned(),
            _temporary: None,
        };
        for folder in [fake.knobs(), fake.box_folder().join("held")] {
            fs::create_dir_all(folder).expect("a folder of the fakes");
        }
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
        &self.folder
    }

    /// The fake `nvidia-cuda-mps-control`.
    #[must_use]
    pub fn control(&self) -> PathBuf {
        self.folder().join("nvidia-cuda-mps-control")
    }

    /// The fake worker, `fake-worker`; the variable `FAKE_MODE` and others set its behaviour, see `fakes/worker.sh`.
    #[must_use]
    pub fn worker(&self) -> PathBuf {
        self.folder().join("fake-worker")
    }

    /// Sets the cards that the fake driver and NVML report; their UUIDs are `GPU-abab...`, `GPU-acac...` and so on.
    ///
    /// # Panics
    /// If the file system refuses.
    pub fn set_cards(&self, cards: &[Card]) {
        let line = |card: &Card| {
            let Card {
                name,
                memory,
                sms,
                speed,
            } = card;
            format!("{memory} {sms} {speed} {name}\n")
        };
        let lines: String = cards.iter().map(line).collect();
        fs::write(self.box_folder().join("cards"), lines).expect("cards are a file");
    }

    /// UUID of a card.
    #[must_use]
    pub fn uuid(card: u8) -> String {
        let hex = format!("{:02x}", 0xab + card).repeat(16);
        let (a, b, c, d, e) = (
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        );
        format!("GPU-{a}-{b}-{c}-{d}-{e}")
    }

    /// Makes a card fall off the bus.
    ///
    /// # Panics
    /// If the file system refuses.
    pub fn lose(&self, card: u8) {
        let path = self.box_folder().join("lost");
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, format!("{before}{card}\n")).expect("lost cards are a file");
    }

    /// Compiles `fake-trainer` into the folder: a training that holds memory of the cards, and whose speed depends on
    /// the other processes on them. Its options are described in `fakes/trainer.c`. Returns `false` like
    /// [`FakeMps::build_driver`].
    ///
    /// # Panics
    /// If the compiler refuses.
    #[must_use]
    pub fn build_trainer(&self) -> bool {
        self.compile("fake-trainer", include_str!("fakes/trainer.c"), &["-O1"])
    }

    /// The program of [`FakeMps::build_trainer`].
    #[must_use]
    pub fn trainer(&self) -> PathBuf {
        self.folder().join("fake-trainer")
    }

    /// Compiles a `libcuda.so` that reports the cards (one GPU if none are set) into the folder, for `LD_LIBRARY_PATH`.
    /// Returns `false`, with a message on standard error, without a C compiler.
    ///
    /// # Panics
    /// If the compiler refuses.
    #[must_use]
    pub fn build_driver(&self) -> bool {
        self.build("libcuda.so", include_str!("fakes/libcuda.c"))
    }

    /// Compiles a `libnvidia-ml.so.1` that reports the cards and the processes that hold their memory or, without
    /// cards, the processes in the file `FAKE_COMPUTING`. Returns `false` like [`FakeMps::build_driver`].
    ///
    /// # Panics
    /// If the compiler refuses.
    #[must_use]
    pub fn build_nvml(&self) -> bool {
        self.build("libnvidia-ml.so.1", include_str!("fakes/libnvidia-ml.c"))
    }

    fn build(&self, name: &str, text: &str) -> bool {
        self.compile(name, text, &["-shared", "-fPIC"])
    }

    fn compile(&self, name: &str, text: &str, options: &[&str]) -> bool {
        let write = |name: &str, text| {
            fs::write(self.folder().join(name), text).expect("a source is a file");
        };
        write("cards.h", include_str!("fakes/cards.h"));
        write(&format!("{name}.c"), text);
        let mut compiler = Command::new("cc");
        compiler
            .args(options)
            .arg(format!("-DBOX=\"{}\"", self.box_folder().display()))
            .arg("-o");
        let source = self.folder().join(format!("{name}.c"));
        let library = self.folder().join(name);
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

    /// Sets a knob of the control program: `start_fails`, `start_hangs`, `mute`, `terminate_fails`, `quit_ignored`,
    /// `stays_faulted`, `zombies`, or `limit` with a number.
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

    /// The commands that the control program has received so far, one per line.
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

    fn box_folder(&self) -> PathBuf {
        self.folder().join("box")
    }

    fn knobs(&self) -> PathBuf {
        self.folder().join("knobs")
    }
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).expect("a program is a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it can be executed");
}
