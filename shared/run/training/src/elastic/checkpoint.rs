//! Checkpoints of a training.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cli::Failure;

use crate::config::Network;

/// Number of steps whose mean loss is compared with the target, as in the paper of Wei and Shudo.
pub const WINDOW: usize = 10;

/// First word of a checkpoint.
const MAGIC: &str = "mt-worker-checkpoint/1";

/// Progress of a training. The weights are stored beside it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainingState {
    /// Steps made.
    pub step: u64,
    /// Samples trained on.
    pub samples: u64,
    /// Losses of the last [`WINDOW`] steps, the oldest first.
    pub losses: Vec<f64>,
}

impl TrainingState {
    /// Records a step.
    pub fn step(&mut self, samples: u64, loss: f64) {
        self.step += 1;
        self.samples += samples;
        if self.losses.len() == WINDOW {
            self.losses.remove(0);
        }
        self.losses.push(loss);
    }

    /// Whether the mean loss of a whole window is at most `target`.
    pub fn has_reached(&self, target: f64) -> bool {
        self.losses.len() == WINDOW && self.losses.iter().sum::<f64>() / WINDOW as f64 <= target
    }
}

/// Encodes a checkpoint: a line of text (network and state), then weights and velocity as little-endian `f32`, then a
/// checksum of everything before it.
pub fn encode(
    network: &Network,
    state: &TrainingState,
    weights: &[f32],
    velocity: &[f32],
) -> Vec<u8> {
    let mut bytes = head(network);
    let losses: Vec<String> = state.losses.iter().map(f64::to_string).collect();
    let line = format!(
        " step={} samples={} losses={}\n",
        state.step,
        state.samples,
        losses.join(",")
    );
    bytes.push_str(&line);
    let mut bytes = bytes.into_bytes();
    bytes.extend(weights.iter().flat_map(|w| w.to_le_bytes()));
    bytes.extend(velocity.iter().flat_map(|v| v.to_le_bytes()));
    let sum = checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// The prefix that identifies checkpoints of this network.
fn head(network: &Network) -> String {
    let sizes: Vec<String> = network.sizes.iter().map(usize::to_string).collect();
    format!(
        "{MAGIC} sizes={} seed={} round={}",
        sizes.join(","),
        network.seed,
        network.round
    )
}

/// Reads a checkpoint into `weights` and `velocity`.
///
/// # Errors
/// A message about the error in the checkpoint.
pub fn decode(
    bytes: &[u8],
    network: &Network,
    weights: &mut [f32],
    velocity: &mut [f32],
) -> Result<TrainingState, String> {
    let (content, sum) = bytes.split_last_chunk::<8>().ok_or("it is cut off")?;
    if checksum(content) != u64::from_le_bytes(*sum) {
        return Err("its checksum is wrong: it is cut off, or no checkpoint".to_owned());
    }
    let end = content.iter().position(|b| *b == b'\n');
    let (line, values) = content.split_at(end.ok_or("it has no first line")?);
    let line = std::str::from_utf8(line).map_err(|e| e.to_string())?;
    let expected = head(network);
    let rest = line.strip_prefix(&expected).ok_or_else(|| {
        format!("it is of another training: it begins {line:?}, and this one is {expected:?}")
    })?;
    let state = state(rest).ok_or_else(|| format!("cannot read {rest:?}"))?;
    let values = &values[1..];
    if values.len() != 4 * (weights.len() + velocity.len()) {
        return Err(format!("it holds {} bytes of weights", values.len()));
    }
    let values = values.chunks_exact(4);
    let all = weights.iter_mut().chain(velocity.iter_mut());
    for (to, v) in all.zip(values) {
        *to = f32::from_le_bytes([v[0], v[1], v[2], v[3]]);
    }
    Ok(state)
}

fn state(text: &str) -> Option<TrainingState> {
    let mut words = text.split_whitespace();
    let step = words.next()?.strip_prefix("step=")?.parse().ok()?;
    let samples = words.next()?.strip_prefix("samples=")?.parse().ok()?;
    let losses = words
        .next()?
        .strip_prefix("losses=")?
        .split(',')
        .filter(|l| !l.is_empty());
    Some(TrainingState {
        step,
        samples,
        losses: losses.map(|l| l.parse().ok()).collect::<Option<_>>()?,
    })
}

/// FNV-1a over words of 8 bytes: detects truncated or overwritten data.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

/// The bytes of a checkpoint; `None` if there is no file.
///
/// # Errors
/// [`Failure::Environment`] if it exists and cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    match fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Failure::Environment(format!(
            "cannot read the checkpoint {}: {error}",
            path.display()
        ))),
    }
}

/// Writes a checkpoint to a new file and then renames it, so that a reader finds a complete file, old or new, even
/// after a crash.
///
/// # Errors
/// [`Failure::Environment`]; the old checkpoint is then unchanged.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    replace(path, bytes).map_err(|error| {
        let path = path.display();
        Failure::Environment(format!("cannot write the checkpoint {path}: {error}"))
    })
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    // The rename is only on disk after a sync of the folder.
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZero;

    fn network() -> Network {
        Network {
            threads: NonZero::<usize>::MIN,
            sizes: vec![2, 3],
            learning_rate: 0.1,
            momentum: 0.9,
            seed: 5,
            round: 1,
        }
    }

    fn bytes() -> (TrainingState, Vec<u8>) {
        let mut state = TrainingState::default();
        for loss in 0..12 {
            state.step(64, 0.1 * f64::from(loss));
        }
        let bytes = encode(&network(), &state, &[1.5, -2.0], &[0.0, f32::MIN]);
        (state, bytes)
    }

    #[test]
    fn a_checkpoint_goes_and_comes_back() {
        let (state, bytes) = bytes();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c");
        assert!(read(&path).unwrap().is_empty());
        write(&path, b"old").unwrap();
        write(&path, &bytes).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let (mut w, mut v) = ([0.0; 2], [0.0; 2]);
        let found = decode(&read(&path).unwrap(), &network(), &mut w, &mut v);
        assert_eq!(found.unwrap(), state);
        assert_eq!((w, v), ([1.5, -2.0], [0.0, f32::MIN]));
        assert_eq!((state.step, state.losses.len()), (12, WINDOW));
    }

    #[test]
    fn a_checkpoint_that_is_damaged_or_of_another_training_is_refused() {
        let (_, bytes) = bytes();
        let refused = |bytes: &[u8], network: &Network| {
            decode(bytes, network, &mut [0.0; 2], &mut [0.0; 2]).unwrap_err()
        };
        for cut in 0..bytes.len() {
            refused(&bytes[..cut], &network());
        }
        let mut other = network();
        other.seed = 6;
        assert!(refused(&bytes, &other).contains("another training"));
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        refused(&flipped, &network());
    }

    #[test]
    fn a_target_needs_a_whole_window() {
        let mut state = TrainingState::default();
        for _ in 0..WINDOW - 1 {
            state.step(1, 0.5);
            assert!(!state.has_reached(1.0));
        }
        state.step(1, 0.5);
        assert!(state.has_reached(0.5) && !state.has_reached(0.4));
    }
}
