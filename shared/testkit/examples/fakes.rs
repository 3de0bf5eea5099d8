//! Installs the fakes of GPUs, NVML and MPS into a folder, to be used from the command line.
//!
//! ```sh
//! eval "$(cargo run -qp mt-testkit --example fakes -- /tmp/box 24 80x2)"   # two cards, the second twice as fast
//! fake-trainer --card 0 --memory 12G --seconds 60 &                        # a stranger on the first
//! mt sweep -- fake-trainer --memory 3G --seconds 20
//! echo 1 > /tmp/box/box/lost                                               # the second falls off the bus
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for the command line"
)]

use std::path::PathBuf;

use testkit::fakes::{Card, FakeMps};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map(PathBuf::from);
    let cards: Option<Vec<Card>> = arguments.map(|text| card(&text)).collect();
    let (Some(folder), Some(cards)) = (folder, cards.filter(|cards| !cards.is_empty())) else {
        eprintln!("usage: fakes FOLDER GIB[xSPEED]...");
        std::process::exit(2);
    };
    let folder = std::path::absolute(folder).expect("the folder has a path");
    let fake = FakeMps::install_in(&folder);
    fake.set_cards(&cards);
    if !(fake.build_driver() && fake.build_nvml() && fake.build_trainer()) {
        std::process::exit(3);
    }
    let folder = folder.display();
    println!("export PATH='{folder}':\"$PATH\" LD_LIBRARY_PATH='{folder}'");
}

/// `24`, or `24x1.5` for a card of that speed.
fn card(text: &str) -> Option<Card> {
    let (gib, speed) = text.split_once('x').unwrap_or((text, "1"));
    Some(Card {
        speed: speed.parse().ok()?,
        ..Card::of_gib(gib.parse().ok()?)
    })
}
