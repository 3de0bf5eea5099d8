//! A network compiled for one batch size on one GPU, and its division into segments under a share.

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
    /// `host` replaces the host parameters of the GPU for this task only.
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

    /// Sum of the durations of all kernels for which `which` returns true, each alone on the whole GPU, in
    /// microseconds.
    #[must_use]
    pub fn kernel_us(&self, gpu: &Gpu, tuning: &Tuning, which: impl Fn(KernelKind) -> bool) -> f64 {
        let cap = Cap::new(Share::FULL, gpu, tuning);
        let chosen = self.kernels.iter().filter(|k| which(k.kind));
        chosen.map(|k| cap.of(k).duration).sum()
    }

    /// Mean host time of one step alone on the machine, microseconds.
    #[must_use]
    pub fn host_us(&self) -> f64 {
        self.host_us
    }
}

/// A sequence of adjacent kernels that the engine treats as one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Segment {
    /// SM-microseconds, including the memory limits that the kernels have when they run alone.
    pub(crate) work: f64,
    /// Maximum number of SMs whose capacity it can use.
    pub(crate) parallelism: f64,
    /// Maximum number of SMs that it occupies.
    pub(crate) hold: f64,
    /// DRAM bytes per SM-microsecond of work.
    pub(crate) intensity: f64,
    /// Host time from the start of the step's launches to the last launch of this segment.
    pub(crate) issue_us: f64,
    /// Idle time before it.
    pub(crate) gap_us: f64,
    /// Kind of its longest kernel.
    pub(crate) kind: KernelKind,
}

/// How a share limits kernels.
struct Cap<'a> {
    sms: f64,
    all_sms: f64,
    bytes_per_us: f64,
    tuning: &'a Tuning,
}

impl<'a> Cap<'a> {
    fn new(share: Share, gpu: &Gpu, tuning: &'a Tuning) -> Self {
        let all_sms = f64::from(gpu.sms());
        Self {
            sms: (share.fraction() * all_sms).round().max(1.0),
            all_sms,
            bytes_per_us: gpu.bytes_per_us(),
            tuning,
        }
    }

    /// How a kernel runs alone under the cap.
    ///
    /// With `nb = max(1, blocks / occupancy)` SMs' worth of blocks and a cap of `C` SMs: parallelism `p = nb` if it
    /// fits, otherwise `nb / ceil(nb / C)` (the last wave runs part empty). Blocks are placed breadth first, so the
    /// kernel occupies `min(blocks, C)` SMs. It takes `max(compute / p, bytes / (BW p / S))`.
    fn of(&self, kernel: &Kernel) -> Placed {
        let packed = (kernel.blocks / self.tuning.occupancy).max(1.0);
        let parallelism = if packed <= self.sms {
            packed
        } else {
            packed / (packed / self.sms).ceil()
        };
        let hold = if self.tuning.spreading {
            parallelism.max(kernel.blocks.min(self.sms))
        } else {
            parallelism
        };
        let memory = kernel.bytes * self.all_sms / (self.bytes_per_us * parallelism);
        Placed {
            duration: (kernel.compute / parallelism).max(memory),
            parallelism,
            hold,
        }
    }
}

/// How one kernel runs alone under a cap.
struct Placed {
    /// Duration in microseconds.
    duration: f64,
    /// SMs whose capacity it uses.
    parallelism: f64,
    /// SMs that it occupies.
    hold: f64,
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
        let placed = cap.of(kernel);
        if open.count > 0.0 && open.duration + placed.duration > tuning.merge_us {
            out.push(open.close(launches * program.launch_us, tuning));
            open = Merge::default();
        }
        open.add(kernel, &placed);
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
    fn add(&mut self, kernel: &Kernel, placed: &Placed) {
        let duration = placed.duration;
        self.count += 1.0;
        self.work += placed.parallelism * duration;
        self.duration += duration;
        self.held += placed.hold * duration;
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
