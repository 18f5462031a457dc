//! Names that nobody can guess.

/// A number that nobody can guess. None if the system has no randomness to give.
pub(crate) fn unguessable() -> Option<u128> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(u128::from_ne_bytes(random))
}
