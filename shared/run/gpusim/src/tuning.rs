//! The constants of the model, and the switches of its ablation.

/// Constants of the kernel and contention model; [`Tuning::default`] holds the calibrated ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Fraction of peak FLOP/s that 3x3 stride-1 convolutions reach.
    pub conv3_efficiency: f64,
    /// Fraction of peak that other matrix products reach.
    pub gemm_efficiency: f64,
    /// Fraction of peak that depthwise convolutions reach.
    pub depthwise_efficiency: f64,
    /// Fraction of peak that element-wise kernels reach.
    pub elementwise_efficiency: f64,
    /// FLOP per microsecond for which one SM can deliver operands, independent of its arithmetic peak.
    pub operand_rate: f64,
    /// Fraction of the memory traffic that caches do not absorb.
    pub traffic: f64,
    /// Blocks that fit on one SM, mean over kernels.
    pub occupancy: f64,
    /// Idle time between dependent kernels, microseconds per launch.
    pub gap_us: f64,
    /// Growth of memory traffic with the SMs that other tasks hold.
    pub interference: f64,
    /// Spread of the host phase around its mean (standard deviation over mean).
    pub jitter: f64,
    /// Adjacent kernels are merged into one segment up to this duration, microseconds.
    pub merge_us: f64,
    /// Whether uncapped kernels spread their blocks over all SMs.
    pub spreading: bool,
    /// Fraction of the SMs that every waiting kernel gets while earlier ones still run, because retiring blocks free
    /// slots; at most an equal share. 0 means strict order of arrival, 1 equal shares.
    pub handover: f64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            conv3_efficiency: 0.914,
            gemm_efficiency: 0.741,
            depthwise_efficiency: 0.15,
            elementwise_efficiency: 0.5,
            operand_rate: 7.97e5,
            traffic: 0.618,
            occupancy: 3.072,
            gap_us: 2.5,
            interference: 0.35,
            jitter: 0.1,
            merge_us: 100.0,
            spreading: true,
            handover: 0.01835,
        }
    }
}
