use units::{Batch, Share, TaskId};

use crate::{Checker, wire};

/// Batch size and share of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Name.
    pub id: TaskId,
    /// Batch size.
    pub batch: Batch,
    /// Share.
    pub share: Share,
}

impl Choice {
    pub(crate) fn to_wire(&self) -> wire::Choice {
        wire::Choice {
            id: self.id.as_str().to_owned(),
            batch: u64::from(self.batch.get()),
            share_percent: self.share.percent(),
        }
    }
}

pub(crate) fn choice(wire: &wire::Choice, c: &mut Checker) -> Option<Choice> {
    let id = c.unit("id", TaskId::new(&wire.id));
    let batch = c.unit("batch", Batch::new(wire.batch));
    let share = c.unit("share_percent", Share::from_percent(wire.share_percent));
    Some(Choice {
        id: id?,
        batch: batch?,
        share: share?,
    })
}
