//! Rule for the permission bits of files that contain secrets.

/// Tests whether Unix permission bits (`st_mode`) keep other users from reading, writing and executing a file.
/// With `group_may_read`, the bit that lets the group read is allowed.
///
/// ```
/// use wharf_model::is_private_mode;
///
/// assert!(is_private_mode(0o100_600, false));
/// assert!(!is_private_mode(0o100_640, false) && is_private_mode(0o100_640, true));
/// assert!(!is_private_mode(0o100_660, true) && !is_private_mode(0o100_604, true));
/// ```
#[must_use]
pub const fn is_private_mode(mode: u32, group_may_read: bool) -> bool {
    let forbidden = if group_may_read { 0o037 } else { 0o077 };
    mode & forbidden == 0
}
