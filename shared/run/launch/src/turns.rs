//! The order of transfers.

use doc::{Hold, PhaseKind};
use overlap::{Order, Transfer};

/// Position of a task in its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Its download has not begun.
    WaitDownload,
    /// Its download runs, or waits for a retry and keeps its turn.
    Downloading,
    /// It waits for its compute phase.
    WaitCompute,
    /// It trains.
    Computing,
    /// Its upload has not begun.
    WaitUpload,
    /// Its upload runs.
    Uploading,
    /// All done.
    Done,
    /// Given up.
    Failed,
}

impl Stage {
    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Stage::Done | Stage::Failed)
    }
}

/// Whether a phase of a task must wait for a phase of another task that has not ended. A task that was given up holds
/// nothing back.
#[must_use]
pub fn is_held(holds: &[Hold], task: usize, phase: PhaseKind, stages: &[Stage]) -> bool {
    let runs = |h: &Hold| {
        let last = match h.end_of {
            PhaseKind::Download => Stage::Downloading,
            PhaseKind::Compute => Stage::Computing,
            PhaseKind::Upload => Stage::Uploading,
        };
        stages[h.until] <= last
    };
    let mut own = holds.iter().filter(|h| (h.task, h.phase) == (task, phase));
    own.any(runs)
}

/// The transfers that may begin now. As in the timeline, a transfer begins as soon as it is next in the order and the
/// link is free; a task that was given up loses its turn.
#[must_use]
pub fn may_begin(order: &Order, stages: &[Stage]) -> Vec<Transfer> {
    let download_free = !stages.contains(&Stage::Downloading);
    let upload_free = !stages.contains(&Stage::Uploading);
    match order {
        Order::PerDirection { downloads, uploads } => {
            let download = downloads
                .iter()
                .copied()
                .find(|&i| stages[i] == Stage::WaitDownload)
                .filter(|_| download_free);
            let upload = uploads
                .iter()
                .copied()
                .find(|&i| !stages[i].is_over())
                .filter(|&i| upload_free && stages[i] == Stage::WaitUpload);
            download
                .map(Transfer::Download)
                .into_iter()
                .chain(upload.map(Transfer::Upload))
                .collect()
        }
        Order::OneByOne(transfers) => {
            let open = |t: &&Transfer| match t {
                Transfer::Download(i) => stages[*i] <= Stage::Downloading,
                Transfer::Upload(i) => !stages[*i].is_over(),
            };
            let next = transfers.iter().find(open).copied();
            next.filter(|t| match t {
                Transfer::Download(i) => upload_free && stages[*i] == Stage::WaitDownload,
                Transfer::Upload(i) => download_free && stages[*i] == Stage::WaitUpload,
            })
            .into_iter()
            .collect()
        }
        Order::Together => (0..stages.len())
            .filter_map(|i| match stages[i] {
                Stage::WaitDownload => Some(Transfer::Download(i)),
                Stage::WaitUpload => Some(Transfer::Upload(i)),
                _ => None,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Stage::{Computing, Done, Downloading, Failed, Uploading, WaitDownload, WaitUpload};

    fn per_direction() -> Order {
        Order::PerDirection {
            downloads: vec![1, 0, 2],
            uploads: vec![0, 1, 2],
        }
    }

    #[test]
    fn one_transfer_for_each_direction_in_order() {
        let begin = |stages: &[Stage]| may_begin(&per_direction(), stages);
        let (down, up) = (Transfer::Download, Transfer::Upload);
        assert_eq!(begin(&[WaitDownload; 3]), [down(1)]);
        assert_eq!(begin(&[WaitDownload, Downloading, WaitDownload]), []);
        assert_eq!(begin(&[WaitDownload, Computing, WaitDownload]), [down(0)]);
        // 1 has computed, but 0 comes first.
        assert_eq!(begin(&[Computing, WaitUpload, Computing]), []);
        assert_eq!(
            begin(&[WaitUpload, WaitUpload, WaitDownload]),
            [down(2), up(0)]
        );
        assert_eq!(begin(&[Uploading, WaitUpload, Computing]), []);
        assert_eq!(begin(&[Failed, WaitUpload, Computing]), [up(1)]);
        assert_eq!(begin(&[Done, Done, Done]), []);
    }

    #[test]
    fn a_phase_is_held_until_the_end_that_its_hold_names() {
        let hold = |phase, end_of| {
            [Hold {
                task: 0,
                phase,
                until: 1,
                end_of,
            }]
        };
        let held = |end_of, stage| {
            let holds = hold(PhaseKind::Download, end_of);
            is_held(&holds, 0, PhaseKind::Download, &[WaitDownload, stage])
        };
        for (end_of, last, next) in [
            (PhaseKind::Download, Downloading, Stage::WaitCompute),
            (PhaseKind::Compute, Computing, WaitUpload),
            (PhaseKind::Upload, Uploading, Done),
        ] {
            assert!(held(end_of, WaitDownload) && held(end_of, last));
            assert!(!held(end_of, next) && !held(end_of, Failed));
        }
        let other = hold(PhaseKind::Upload, PhaseKind::Upload);
        let stages = [WaitDownload, Computing];
        assert!(!is_held(&other, 0, PhaseKind::Download, &stages));
    }

    #[test]
    fn a_half_duplex_link_carries_one() {
        let (down, up) = (Transfer::Download, Transfer::Upload);
        let order = Order::OneByOne(vec![down(0), down(1), up(0), up(1)]);
        let begin = |stages: &[Stage]| may_begin(&order, stages);
        assert_eq!(begin(&[WaitUpload, WaitDownload]), [down(1)]);
        assert_eq!(begin(&[WaitUpload, Downloading]), []);
        assert_eq!(begin(&[WaitUpload, Computing]), [up(0)]);
        assert_eq!(begin(&[Failed, WaitUpload]), [up(1)]);
        assert_eq!(
            may_begin(&Order::Together, &[WaitUpload, WaitDownload]).len(),
            2
        );
    }
}
