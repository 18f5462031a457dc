//! The parser of WebSocket frames for the fuzz targets: a connection would hide where its pieces begin.

use bytes::BytesMut;

use crate::server::http::websocket::frames::{FrameParser, FramePiece};

/// What a client's frames contain.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FrameReport {
    /// Complete messages.
    pub messages: Vec<Vec<u8>>,
    /// Control frames, as their debug output.
    pub controls: Vec<String>,
    /// Code to close the connection with, if the frames violate the protocol.
    pub refusal: Option<u16>,
}

/// Reads frames that arrive in `chunks`, with at most `room` bytes of text in a piece.
pub fn read_frames<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, room: usize) -> FrameReport {
    let (mut parser, mut input) = (FrameParser::default(), BytesMut::new());
    let (mut report, mut message) = (FrameReport::default(), Vec::new());
    for chunk in chunks {
        input.extend_from_slice(chunk);
        loop {
            match parser.next(&mut input, room) {
                Ok(None) => break,
                Ok(Some(FramePiece::Text(part))) => {
                    assert!(part.len() <= room, "a piece has more bytes than the reader has room");
                    message.extend_from_slice(&part);
                }
                Ok(Some(FramePiece::End)) => report.messages.push(std::mem::take(&mut message)),
                Ok(Some(control)) => report.controls.push(format!("{control:?}")),
                Err(code) => {
                    report.refusal = Some(code.into());
                    return report;
                }
            }
        }
    }
    report
}
