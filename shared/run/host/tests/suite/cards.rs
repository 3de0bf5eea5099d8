//! Several unlike cards, seen through the fakes of the driver and NVML.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use host::discovery::{MpsSupport, discover};
use host::{Seen, Sight, SightError};
use testkit::fakes::{Card, FakeMps};

const GIB: u64 = 1 << 30;
const FOLDER: &str = "MT_TEST_BOX";

/// Runs a test of this program again where the libraries of the fakes are found; `None` where they cannot be built.
fn in_the_box(test: &str) -> Option<()> {
    let fake = FakeMps::install();
    fake.set_cards(&[
        Card::of_gib(24),
        Card {
            sms: 114,
            ..Card::of_gib(80)
        },
    ]);
    let built = fake.build_driver() && fake.build_nvml() && fake.build_trainer();
    let path = std::env::var("PATH").unwrap();
    let output = built.then(|| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(FOLDER, fake.folder())
            .env("LD_LIBRARY_PATH", fake.folder())
            .env("PATH", format!("{}:{path}", fake.folder().display()))
            .env_remove("CUDA_VISIBLE_DEVICES")
            .output()
            .unwrap()
    })?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("1 passed"), "{said}");
    Some(())
}

struct Training(Child);

impl Training {
    fn start(fake: &FakeMps, visible: Option<u8>, arguments: &[&str]) -> Self {
        let mut command = Command::new(fake.trainer());
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        if let Some(card) = visible {
            command.env("CUDA_VISIBLE_DEVICES", FakeMps::uuid(card));
        }
        Self(command.spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Waits for its end: the exit code and what it complained.
    fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        let stderr = self.0.stderr.take().unwrap();
        std::io::Read::read_to_string(&mut { stderr }, &mut text).unwrap();
        (self.0.wait().unwrap().code(), text)
    }
}

/// Looks until so much of a card is free.
fn until_free(sight: &Sight, card: u8, free: u64) -> Seen {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let seen = sight.look(&FakeMps::uuid(card)).unwrap();
        if seen.free == free * GIB {
            return seen;
        }
        assert!(Instant::now() < deadline, "not {free} GiB: {seen:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn strangers_lost_cards_and_free_memory_are_seen() {
    if std::env::var_os(FOLDER).is_none() {
        in_the_box("cards::strangers_lost_cards_and_free_memory_are_seen");
        return;
    }
    let folder = std::env::var_os(FOLDER).unwrap();
    let fake = FakeMps::install_in(Path::new(&folder));
    let found = discover().unwrap();
    let facts: Vec<_> = found
        .iter()
        .map(|gpu| (&*gpu.name, gpu.sms, gpu.memory.get()))
        .collect();
    assert_eq!(
        facts,
        [("Fake 24 GB", 80, 24 * GIB), ("Fake 80 GB", 114, 80 * GIB)]
    );
    assert_eq!(found[1].uuid, FakeMps::uuid(1));
    assert!(matches!(found[0].mps, MpsSupport::Available { .. }));

    let sight = Sight::open().unwrap();
    assert_eq!(until_free(&sight, 0, 24).processes, []);
    let ours = Training::start(&fake, Some(0), &["--memory", "3G", "--seconds", "600"]);
    let mut stranger = Training::start(
        &fake,
        None,
        &["--card", "0", "--memory", "12G", "--seconds", "600"],
    );
    let seen = until_free(&sight, 0, 9);
    until_free(&sight, 1, 80);
    let own = BTreeSet::from([ours.pid()]);
    let strangers: Vec<_> = seen.strangers(&own).collect();
    assert_eq!(strangers.len(), 1);
    assert_eq!(
        (strangers[0].pid, strangers[0].bytes),
        (stranger.pid(), Some(12 * GIB))
    );
    assert_eq!(
        strangers[0].to_string(),
        format!("pid {}, fake-trainer", stranger.pid())
    );
    assert_eq!(seen.held_by(&own), Some(3 * GIB));

    let (code, text) = Training::start(&fake, Some(0), &["--memory", "10G"]).end();
    assert_eq!(code, Some(1));
    assert!(
        text.contains("CUDA out of memory. Tried to allocate 10.00 GiB"),
        "{text}"
    );
    stranger.kill();
    let seen = until_free(&sight, 0, 21);
    assert_eq!(seen.strangers(&own).count(), 0);

    fake.lose(0);
    let error = sight.look(&FakeMps::uuid(0)).unwrap_err();
    assert!(
        matches!(&error, SightError::Lost { uuid, .. } if *uuid == FakeMps::uuid(0)),
        "{error}"
    );
    assert!(sight.lost(&FakeMps::uuid(0)).is_some() && sight.lost(&FakeMps::uuid(1)).is_none());
    let (code, text) = ours.end();
    assert!(code == Some(1) && text.contains("unknown error"), "{text}");
    let left: Vec<String> = discover()
        .unwrap()
        .into_iter()
        .map(|gpu| gpu.uuid)
        .collect();
    assert_eq!(left, [FakeMps::uuid(1)]);
}
