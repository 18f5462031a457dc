//! Names that nobody can guess.

/// A name of 32 digits that nobody can guess. None if the system has no randomness to give.
pub(crate) fn unguessable() -> Option<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).ok()?;
    Some(format!("{:032x}", u128::from_ne_bytes(random)))
}
