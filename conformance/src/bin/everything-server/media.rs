//! Image and audio data.

/// One red pixel.
pub(crate) const PNG: &[u8] = include_bytes!("pixel.png");

/// A millisecond of silence.
pub(crate) const WAV: &[u8] = include_bytes!("silence.wav");
