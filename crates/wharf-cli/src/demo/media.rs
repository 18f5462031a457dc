//! A picture and a sound.

/// An anchor of eight by eight pixels.
pub(crate) const PNG: &[u8] = include_bytes!("anchor.png");

/// Two waves of a beep.
pub(crate) const WAV: &[u8] = include_bytes!("beep.wav");
