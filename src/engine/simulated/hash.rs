//! A hash that gives the same number on every machine and with every compiler, which std's hashers do not promise.
//!
//! `of(seed, bytes)` is FNV-1a (64 bits) over the bytes, started from the seed, finished by `SplitMix64`.

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Hash of `bytes`, another one for each `seed`.
pub(super) fn of(seed: u64, bytes: &[u8]) -> u64 {
    let start = FNV_OFFSET ^ mix(seed);
    mix(bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME)))
}

/// The `SplitMix64` step: spreads every bit of `value` over all 64.
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number in [0, 1) made of the hash's 53 upper bits.
pub(super) fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// A number in `0..bound`; 0 when `bound` is 0.
pub(super) fn below(hash: u64, bound: usize) -> usize {
    let bound = bound as u64;
    usize::try_from(hash.checked_rem(bound).unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_pinned_so_that_answers_do_not_change_between_versions() {
        // First output of the reference SplitMix64 generator seeded with 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(of(7, b"receipt"), 0x8f64_063b_6b7b_d213);
        assert_ne!(of(7, b"receipt"), of(8, b"receipt"));
    }

    #[test]
    fn units_are_uniform_enough_for_rates() {
        let low = (0..10_000_u64).filter(|n| unit(of(1, &n.to_le_bytes())) < 0.25).count();
        assert!((2_300..2_700).contains(&low), "{low}");
    }
}
