//! A network compiled for one batch size on one GPU, and its segments under a share.

use units::{Batch, Share};

use crate::gpu::{Gpu, GpuError, Host};
use crate::kernel::{Emitter, Kernel, KernelKind};
use crate::network::Network;
use crate::tuning::Tuning;

/// One training task ready to simulate: the kernels of a step and its host phase.
///
/// Compiling costs some tens of microseconds; keep programs and reuse them across
/// configurations, which differ only in shares.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) batch: f64,
    pub(crate) host_us: f64,
    pub(crate) contention: f64,
    pub(crate) launch_us: f64,
}

impl Program {
    /// Compiles `network` at `batch` for `gpu`.
    ///
    /// `host` replaces the host figures of the GPU for this task alone.
    pub fn new(
        network: &Network,
        batch: Batch,
        gpu: &Gpu,
        host: Option<Host>,
        tuning: &Tuning,
    ) -> Result<Self, GpuError> {
        let host = host.map_or(Ok(gpu.host()), |h| Host::new(&h.description()))?;
        let batch = batch.as_f64();
        Ok(Self {
            kernels: Emitter::step(network, gpu, tuning, batch),
            batch,
            host_us: host.us_per_step + host.us_per_sample * batch,
            contention: host.contention,
            launch_us: host.launch_us,
        })
    }

    /// Number of kernels in one training step.
    #[must_use]
    pub fn kernel_count(&self) -> usize {
        self.kernels.len()
    }

    /// Number of kernels of one kind in one training step.
    #[must_use]
    pub fn kernels_of(&self, kind: KernelKind) -> usize {
        self.kernels.iter().filter(|k| k.kind == kind).count()
    }

    /// Sum of all kernel durations when each runs alone on the whole GPU, microseconds.
    #[must_use]
    pub fn kernel_us(&self, gpu: &Gpu, tuning: &Tuning) -> f64 {
        let cap = Cap::new(Share::FULL, gpu, tuning);
        self.kernels.iter().map(|k| k.work / cap.of(k).0).sum()
    }

    /// Mean host time of one step alone on the machine, microseconds.
    #[must_use]
    pub fn host_us(&self) -> f64 {
        self.host_us
    }
}

/// A run of adjacent kernels that the engine treats as one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Segment {
    /// SM-microseconds.
    pub(crate) work: f64,
    /// SMs whose capacity it can use at most.
    pub(crate) parallelism: f64,
    /// SMs it occupies at most.
    pub(crate) hold: f64,
    /// DRAM bytes per SM-microsecond of work.
    pub(crate) intensity: f64,
    /// Host time from the start of the step's launches to the last launch of this segment.
    pub(crate) issue_us: f64,
    /// Idle time in front of it.
    pub(crate) gap_us: f64,
    /// What its longest kernel does.
    pub(crate) kind: KernelKind,
}

/// How a share limits kernels.
#[derive(Clone, Copy)]
struct Cap {
    sms: f64,
    occupancy: f64,
    spreading: bool,
}

impl Cap {
    fn new(share: Share, gpu: &Gpu, tuning: &Tuning) -> Self {
        let sms = (share.fraction() * f64::from(gpu.sms())).round().max(1.0);
        Self {
            sms,
            occupancy: tuning.occupancy,
            spreading: tuning.spreading,
        }
    }

    /// Parallelism and hold of a kernel.
    ///
    /// With `nb = max(1, blocks / occupancy)` SMs' worth of blocks and a cap of `C` SMs:
    /// parallelism `nb` if it fits, else `nb / ceil(nb / C)` (the last wave runs part empty);
    /// blocks go breadth first, so it holds `min(blocks, C)` SMs.
    fn of(self, kernel: &Kernel) -> (f64, f64) {
        let packed = (kernel.blocks / self.occupancy).max(1.0);
        let parallelism = if packed <= self.sms {
            packed
        } else {
            packed / (packed / self.sms).ceil()
        };
        let hold = if self.spreading {
            parallelism.max(kernel.blocks.min(self.sms))
        } else {
            parallelism
        };
        (parallelism, hold)
    }
}

/// Segments of one step under `share`, appended to `out` after clearing it.
pub(crate) fn segments(
    program: &Program,
    share: Share,
    gpu: &Gpu,
    tuning: &Tuning,
    out: &mut Vec<Segment>,
) {
    out.clear();
    let cap = Cap::new(share, gpu, tuning);
    let mut open = Merge::default();
    let mut launches = 0.0;
    for kernel in &program.kernels {
        let (parallelism, hold) = cap.of(kernel);
        let duration = kernel.work / parallelism;
        if open.count > 0.0 && open.duration + duration > tuning.merge_us {
            out.push(open.close(launches * program.launch_us, tuning));
            open = Merge::default();
        }
        open.add(kernel, duration, hold);
        launches += 1.0;
    }
    if open.count > 0.0 {
        out.push(open.close(launches * program.launch_us, tuning));
    }
}

/// Running totals of a segment under construction.
#[derive(Default)]
struct Merge {
    count: f64,
    work: f64,
    duration: f64,
    held: f64,
    bytes: f64,
    longest: f64,
    kind: Option<KernelKind>,
}

impl Merge {
    fn add(&mut self, kernel: &Kernel, duration: f64, hold: f64) {
        self.count += 1.0;
        self.work += kernel.work;
        self.duration += duration;
        self.held += hold * duration;
        self.bytes += kernel.bytes;
        if self.kind.is_none() || duration > self.longest {
            self.longest = duration;
            self.kind = Some(kernel.kind);
        }
    }

    fn close(&self, issue_us: f64, tuning: &Tuning) -> Segment {
        Segment {
            work: self.work,
            parallelism: self.work / self.duration,
            hold: self.held / self.duration,
            intensity: self.bytes / self.work,
            issue_us,
            gap_us: self.count * tuning.gap_us,
            kind: self.kind.unwrap_or(KernelKind::Elementwise),
        }
    }
}
