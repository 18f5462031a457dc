//! Demo image and audio.

/// Image of an anchor, eight by eight pixels.
pub(crate) const PNG: &[u8] = include_bytes!("anchor.png");

/// Beep of two periods.
pub(crate) const WAV: &[u8] = include_bytes!("beep.wav");
