//! Random bytes; deterministic from a seed in simulation tests.

/// Fills `bytes` with cryptographically secure random bytes.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    #[cfg(feature = "simulation")]
    if seeded::fill(bytes) {
        return Ok(());
    }
    getrandom::fill(bytes)
}

#[cfg(feature = "simulation")]
pub(crate) mod seeded {
    use std::cell::Cell;

    thread_local! {
        static STATE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Makes random ids and delays of servers on this thread deterministic from `seed`, so that a
    /// simulation can be repeated. They are predictable from the seed: never use this in
    /// production.
    pub fn seed_rng(seed: u64) {
        STATE.set(Some(seed));
    }

    pub(super) fn fill(bytes: &mut [u8]) -> bool {
        let Some(mut state) = STATE.get() else { return false };
        for piece in bytes.chunks_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            piece.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes()[..piece.len()]);
        }
        STATE.set(Some(state));
        true
    }
}
