//! Seeds of the simulator's jitter.

/// SplitMix64's output function (Steele, Lea, Flood 2014): a bijection that scatters its input.
#[must_use]
pub const fn scatter(x: u64) -> u64 {
    let a = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let b = (a ^ (a >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let c = (b ^ (b >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    c ^ (c >> 31)
}

/// Seed of one repetition; the first repetition uses the seed itself.
#[must_use]
pub const fn of_repeat(seed: u64, repeat: u32) -> u64 {
    if repeat == 0 {
        seed
    } else {
        scatter(seed ^ scatter(repeat as u64))
    }
}
