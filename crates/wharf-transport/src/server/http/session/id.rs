//! Random ids and numbers.

/// Returns 32 random hexadecimal digits (128 bits, not guessable). None if the system has no randomness.
pub(crate) fn random_id() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(format!("{:032x}", u128::from_ne_bytes(random)))
}

/// Returns a random number other than zero. Collisions are negligible. None if the system has no randomness.
pub(crate) fn random_number() -> Option<u64> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).ok()?;
    Some(u64::from_ne_bytes(random).max(1))
}
