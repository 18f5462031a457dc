//! Names that nobody can guess.

/// A name of 32 digits that nobody can guess. None if the system has no randomness to give.
pub(crate) fn random_id() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(format!("{:032x}", u128::from_ne_bytes(random)))
}

/// A number that nobody has given before, but for a chance that is too small to count.
pub(crate) fn random_number() -> Option<u64> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).ok()?;
    Some(u64::from_ne_bytes(random).max(1))
}
