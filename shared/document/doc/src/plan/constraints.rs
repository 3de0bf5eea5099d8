use units::{Bytes, Share, TotalShare, UnitError};

use crate::Checker;
use crate::wire::{self, Balance, BatchPolicy, SoloRate};

/// What a plan must satisfy.
#[derive(Debug, Clone, PartialEq)]
pub struct Constraints {
    /// Shares are multiples of this.
    pub share_step: Share,
    /// Required sum of the shares; absent: any sum.
    pub rv: Option<TotalShare>,
    /// Lower limit of `P_i / S_i` for every task, from 0 to 1; absent: none.
    pub starvation_floor: Option<f64>,
    /// Memory that the tasks of one GPU may use.
    pub memory: Option<Bytes>,
    /// How batch sizes may be chosen.
    pub batch: BatchPolicy,
    /// Upper limit of the mismatch; absent: none.
    pub mismatch: Option<f64>,
    /// Which quantity, derived from the batch sizes, should be proportional to the data volumes.
    pub balance: Balance,
    /// Definition of the throughput alone, `S_i`.
    pub solo: SoloRate,
}

pub(super) fn constraints(wire: &wire::Constraints, c: &mut Checker) -> Option<Constraints> {
    let step = c.unit(
        "share_step_percent",
        Share::from_percent(wire.share_step_percent),
    );
    let rv = c.optional_unit("rv_percent", wire.rv_percent, TotalShare::from_percent);
    let floor = c.optional_unit("starvation_floor", wire.starvation_floor, part_of_solo);
    let memory = c.optional_unit("memory_bytes", wire.memory_bytes, Bytes::new);
    Some(Constraints {
        share_step: step?,
        rv: rv?,
        starvation_floor: floor?,
        memory: memory?,
        batch: wire.batch,
        mismatch: wire.mismatch,
        balance: wire.balance,
        solo: wire.solo,
    })
}

fn part_of_solo(floor: f64) -> Result<f64, UnitError> {
    if (0.0..=1.0).contains(&floor) {
        return Ok(floor);
    }
    Err(UnitError {
        quantity: "starvation floor",
        value: floor.to_string(),
        expected: "a fraction of the solo throughput, 0 to 1",
    })
}

impl Constraints {
    pub(super) fn to_wire(&self) -> wire::Constraints {
        wire::Constraints {
            share_step_percent: self.share_step.percent(),
            rv_percent: self.rv.map(TotalShare::percent),
            starvation_floor: self.starvation_floor,
            memory_bytes: self.memory.map(Bytes::get),
            batch: self.batch,
            mismatch: self.mismatch,
            balance: self.balance,
            solo: self.solo,
        }
    }
}
