//! Fuzzing on the stable compiler: mutates a committed corpus and keeps inputs that cause new
//! behaviour.
//!
//! There is no instrumentation. Behaviour is the string that the target returns (the kind of document, or the fault
//! and its position), so a target with more detailed results is searched more thoroughly.
//!
//! `cargo test` runs the corpus and a few hundred mutants of it, always the same ones. `MT_FUZZ_S=600` continues for
//! 600 seconds, from a seed that it prints; `MT_FUZZ_SEED` repeats it. An input that panics is written into the
//! corpus, so it runs again until it is fixed.

use std::any::Any;
use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Number of mutants in every `cargo test`: some tenths of a second for a parser in a debug build.
const MUTANTS: u64 = 300;
/// Maximum length of an input: messages are far shorter, and long inputs are slow.
const LONGEST: usize = 16 * 1024;
/// An input that takes longer than this is a finding.
const SLOW: Duration = Duration::from_secs(10);
/// Maximum number of inputs kept because their result was new.
const KEPT: usize = 4096;

/// Values that parsers often fail on.
const WORDS: [&str; 26] = [
    "0",
    "-1",
    "1e308",
    "1e-308",
    "1e30",
    "18446744073709551615",
    "9007199254740993",
    "-0",
    "NaN",
    "null",
    "true",
    "\"\"",
    "{}",
    "[]",
    "\\u0000",
    "\u{feff}",
    "é",
    "\n",
    "\r\n",
    ",",
    ":",
    "{",
    "}",
    "\"",
    " ",
    "\0",
];

/// Random numbers from a seed (SplitMix64, Steele et al. 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    /// A range of a text of `len` bytes; short ones are more likely.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let from = self.below(len + 1);
        let most = [1, 4, 16, 256][self.below(4)];
        from..(from + 1 + self.below(most)).min(len).max(from)
    }
}

/// Runs `target` on every file of the folders of `corpus` and on mutants of them; a failing input is written to the
/// first folder, which need not exist. The target returns a description of its result, equal for similar results,
/// and panics on a fault.
///
/// # Panics
/// If the target panics, if it takes longer than 10 s, or if the corpus is empty.
pub fn fuzz(name: &str, corpus: &[&Path], target: impl Fn(&[u8]) -> String) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let limit = number("MT_FUZZ_S").map(Duration::from_secs);
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let fresh = || limit.map_or(0, |_| clock().map_or(0, |t| t.as_nanos() as u64));
    let seed = number("MT_FUZZ_SEED").unwrap_or_else(fresh);
    let mut dice = Dice(seed);
    let begun = Instant::now();
    let mut known = HashSet::new();
    let mut inputs: Vec<_> = corpus.iter().flat_map(|folder| read(folder)).collect();
    assert!(!inputs.is_empty(), "no corpus in {corpus:?}");
    let failed = corpus[0];
    for input in &inputs {
        known.insert(one(name, failed, seed, input, &target));
    }
    let mut executions = inputs.len() as u64;
    let goes_on = |executions: u64| match limit {
        Some(limit) => begun.elapsed() < limit,
        None => executions < MUTANTS,
    };
    while goes_on(executions) {
        let mutant = mutant(&inputs, &mut dice);
        let found = one(name, failed, seed, &mutant, &target);
        executions += 1;
        if known.insert(found) && inputs.len() < KEPT {
            inputs.push(mutant);
        }
    }
    let text = format!(
        "fuzz {name}: {executions} inputs, {} behaviours, {:.1} s, seed {seed}\n",
        known.len(),
        begun.elapsed().as_secs_f64()
    );
    // Ignore a closed standard output: the figures are only informative.
    std::io::stdout().write_all(text.as_bytes()).ok();
}

/// The inputs of a folder, sorted by name, without those above [`LONGEST`].
fn read(corpus: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(corpus).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|e| e.path()).collect();
    paths.sort();
    let inputs = paths.iter().filter_map(|path| fs::read(path).ok());
    inputs.filter(|input| input.len() <= LONGEST).collect()
}

fn one(
    name: &str,
    failed: &Path,
    seed: u64,
    input: &[u8],
    target: &impl Fn(&[u8]) -> String,
) -> String {
    let begun = Instant::now();
    let found = catch_unwind(AssertUnwindSafe(|| target(input)));
    let slow: Result<_, Box<dyn Any + Send>> = match begun.elapsed() > SLOW {
        true => Err(Box::new(format!("it takes {:?}", begun.elapsed()))),
        false => found,
    };
    slow.unwrap_or_else(|panic| {
        let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
        });
        let path = failed.join(format!("found-{hash:016x}"));
        let written = fs::create_dir_all(failed).and_then(|()| fs::write(&path, input));
        let text = format!(
            "fuzz {name}: seed {seed}: {} ({written:?})\n",
            path.display()
        );
        std::io::stderr().write_all(text.as_bytes()).ok();
        resume_unwind(panic)
    })
}

/// An input with one to four changes.
fn mutant(inputs: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut out = inputs[dice.below(inputs.len())].clone();
    for _ in 0..=dice.below(4) {
        let at = dice.range(out.len());
        match dice.below(7) {
            0 if !out.is_empty() => {
                let at = dice.below(out.len());
                out[at] ^= 1 << dice.below(8);
            }
            1 => drop(out.drain(at)),
            2 => {
                let part = out[at.clone()].to_vec();
                let times = [1, 2, 64][dice.below(3)];
                out.splice(at.start..at.start, part.repeat(times));
            }
            3 => {
                let other = &inputs[dice.below(inputs.len())];
                let part = other[dice.range(other.len())].to_vec();
                out.splice(at, part);
            }
            4 => out.truncate(at.start),
            5 => replace_number(&mut out, at.start, dice),
            _ => drop(out.splice(at, WORDS[dice.below(WORDS.len())].bytes())),
        }
        out.truncate(LONGEST);
    }
    out
}

/// Replaces the number at or after `from` by one of [`WORDS`].
fn replace_number(out: &mut Vec<u8>, from: usize, dice: &mut Dice) {
    let digit = |b: &u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+');
    let Some(start) = out[from..].iter().position(digit).map(|at| from + at) else {
        return;
    };
    let end = out[start..]
        .iter()
        .position(|b| !digit(b))
        .map_or(out.len(), |at| start + at);
    out.splice(start..end, WORDS[dice.below(WORDS.len())].bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fault that needs three bytes which never occur together in the corpus is found, written to the corpus, and
    /// found again from that file.
    #[test]
    fn a_fault_is_found_and_kept() {
        let corpus = tempfile::tempdir().unwrap();
        fs::write(corpus.path().join("a"), "{\"a\":1}").unwrap();
        let target = |input: &[u8]| {
            let text = String::from_utf8_lossy(input);
            assert!(!(text.contains("1e308") && text.contains("[]")), "found");
            format!("{} {}", text.contains("1e308"), text.contains("[]"))
        };
        // `MUTANTS` is small, so run several times, each from the inputs kept so far.
        let found = (0..20).any(|seed| {
            let mut dice = Dice(seed);
            let mut inputs = read(corpus.path());
            let mut known = HashSet::new();
            (0..5000).any(|_| {
                let mutant = mutant(&inputs, &mut dice);
                let run = || one("test", corpus.path(), seed, &mutant, &target);
                match catch_unwind(AssertUnwindSafe(run)) {
                    Ok(answer) => {
                        if known.insert(answer) {
                            inputs.push(mutant);
                        }
                        false
                    }
                    Err(_) => true,
                }
            })
        });
        assert!(found);
        assert_eq!(read(corpus.path()).len(), 2);
        let again = catch_unwind(AssertUnwindSafe(|| fuzz("test", &[corpus.path()], target)));
        assert!(again.is_err());
    }
}
