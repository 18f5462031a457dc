//! Parses and writes frames of RFC 6455 on the server side.
//!
//! Text is passed on as it arrives: a long message is buffered only once, by the reader of lines, and an idle
//! client has no buffer.

use std::{io::Cursor, str};

use bytes::{Buf, Bytes, BytesMut};
use tokio_tungstenite::tungstenite::protocol::frame::{
    FrameHeader,
    coding::{CloseCode, Control, Data, OpCode},
};

use crate::server::jsonl::replace_line_breaks;

/// Longest payload of a control frame.
const MAX_CONTROL_BYTES: u64 = 125;

/// Part of a frame that [`FrameParser::next`] returns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FramePiece {
    /// A part of a message, without line breaks.
    Text(BytesMut),
    /// The end of a message.
    End,
    Ping(Bytes),
    Pong,
    /// The client closes the connection, with a code if it sent one.
    Close(Option<CloseCode>),
}

/// Parser of incoming frames.
#[derive(Debug, Default)]
pub(crate) struct FrameParser {
    /// True between the first and the last frame of a message.
    open: bool,
    payload: Option<FramePayload>,
    text: Utf8Check,
}

/// Rest of the current frame.
#[derive(Debug)]
struct FramePayload {
    left: u64,
    mask: [u8; 4],
    last: bool,
}

impl FrameParser {
    /// Returns the next piece of `input`, with at most `room` bytes of text. None if more input is needed.
    ///
    /// # Errors
    /// The code to close the connection with.
    pub(crate) fn next(
        &mut self,
        input: &mut BytesMut,
        room: usize,
    ) -> Result<Option<FramePiece>, CloseCode> {
        loop {
            match &mut self.payload {
                None => match self.begin(input)? {
                    FrameStart::Nothing => return Ok(None),
                    FrameStart::Control(piece) => return Ok(Some(piece)),
                    FrameStart::Data => {}
                },
                Some(FramePayload { left: 0, last, .. }) => {
                    let last = *last;
                    self.payload = None;
                    if last {
                        self.open = false;
                        self.text.end()?;
                        return Ok(Some(FramePiece::End));
                    }
                }
                Some(payload) => {
                    let some = room.min(usize::try_from(payload.left).unwrap_or(usize::MAX));
                    let mut part = input.split_to(some.min(input.len()));
                    if part.is_empty() {
                        return Ok(None);
                    }
                    unmask(&mut part, payload.mask);
                    payload.mask.rotate_left(part.len() % 4);
                    payload.left -= part.len() as u64;
                    self.text.check(&part)?;
                    replace_line_breaks(&mut part);
                    return Ok(Some(FramePiece::Text(part)));
                }
            }
        }
    }

    fn begin(&mut self, input: &mut BytesMut) -> Result<FrameStart, CloseCode> {
        let mut cursor = Cursor::new(&input[..]);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| CloseCode::Protocol)?;
        let Some((header, length)) = parsed else { return Ok(FrameStart::Nothing) };
        let size = cursor.position() as usize;
        let FrameHeader { is_final: last, rsv1, rsv2, rsv3, opcode, mask } = header;
        // No extension was negotiated, and clients must mask.
        let (Some(mask), false) = (mask, rsv1 || rsv2 || rsv3) else {
            return Err(CloseCode::Protocol);
        };
        match opcode {
            OpCode::Control(kind) if last && length <= MAX_CONTROL_BYTES => {
                let end = size + length as usize;
                if input.len() < end {
                    return Ok(FrameStart::Nothing);
                }
                let mut payload = input.split_to(end).split_off(size);
                unmask(&mut payload, mask);
                control_piece(kind, &payload).map(FrameStart::Control)
            }
            OpCode::Data(Data::Binary) => Err(CloseCode::Unsupported),
            OpCode::Data(kind) if self.open == (kind == Data::Continue) && length >> 63 == 0 => {
                input.advance(size);
                self.open = true;
                self.payload = Some(FramePayload { left: length, mask, last });
                Ok(FrameStart::Data)
            }
            _ => Err(CloseCode::Protocol),
        }
    }
}

enum FrameStart {
    Nothing,
    Control(FramePiece),
    Data,
}

fn control_piece(kind: Control, payload: &[u8]) -> Result<FramePiece, CloseCode> {
    match (kind, payload) {
        (Control::Ping, data) => Ok(FramePiece::Ping(Bytes::copy_from_slice(data))),
        (Control::Pong, _) => Ok(FramePiece::Pong),
        (Control::Close, []) => Ok(FramePiece::Close(None)),
        (Control::Close, [high, low, reason @ ..]) => {
            let code = CloseCode::from(u16::from_be_bytes([*high, *low]));
            let valid = code.is_allowed() && str::from_utf8(reason).is_ok();
            valid.then_some(FramePiece::Close(Some(code))).ok_or(CloseCode::Protocol)
        }
        _ => Err(CloseCode::Protocol),
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte ^= mask[at % 4];
    }
}

/// Validates UTF-8 across the parts of a message.
#[derive(Debug, Default)]
struct Utf8Check {
    /// A character of which only some bytes have arrived.
    begun: [u8; 4],
    length: usize,
}

impl Utf8Check {
    fn check(&mut self, mut part: &[u8]) -> Result<(), CloseCode> {
        while self.length > 0
            && let Some((byte, rest)) = part.split_first()
        {
            self.begun[self.length] = *byte;
            self.length += 1;
            part = rest;
            match str::from_utf8(&self.begun[..self.length]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_some() => return Err(CloseCode::Invalid),
                Err(_) => {}
            }
        }
        let Err(error) = str::from_utf8(part) else { return Ok(()) };
        if error.error_len().is_some() {
            return Err(CloseCode::Invalid);
        }
        let begun = &part[error.valid_up_to()..];
        self.begun[..begun.len()].copy_from_slice(begun);
        self.length = begun.len();
        Ok(())
    }

    fn end(&self) -> Result<(), CloseCode> {
        if self.length == 0 { Ok(()) } else { Err(CloseCode::Invalid) }
    }
}

/// Appends a frame of a message: the first or a later one, the last or not.
pub(super) fn text(out: &mut Vec<u8>, part: &[u8], first: bool, last: bool) {
    let kind = if first { Data::Text } else { Data::Continue };
    frame(out, OpCode::Data(kind), part, last);
}

/// Appends a control frame.
pub(super) fn control(out: &mut Vec<u8>, kind: Control, payload: &[u8]) {
    frame(out, OpCode::Control(kind), payload, true);
}

/// Appends the close frame.
pub(super) fn close(out: &mut Vec<u8>, code: Option<CloseCode>) {
    let code = code.map(|code| u16::from(code).to_be_bytes());
    control(out, Control::Close, code.as_ref().map_or(&[], |code| &code[..]));
}

fn frame(out: &mut Vec<u8>, opcode: OpCode, payload: &[u8], is_final: bool) {
    let header = FrameHeader { is_final, opcode, ..FrameHeader::default() };
    // Writing to a vector cannot fail.
    let _ = header.format(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a frame as a client sends it.
    fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [7, 0, 255, 42];
        let header = FrameHeader {
            is_final: first & 0x80 != 0,
            rsv1: first & 0x40 != 0,
            opcode: OpCode::from(first & 15),
            mask: Some(mask),
            ..FrameHeader::default()
        };
        let mut frame = Vec::new();
        header.format(payload.len() as u64, &mut frame).unwrap();
        let start = frame.len();
        frame.extend_from_slice(payload);
        unmask(&mut frame[start..], mask);
        frame
    }

    /// Parses `bytes` that arrive `step` at a time. Returns the lines, the other pieces and the result.
    fn read(
        bytes: &[u8],
        step: usize,
        room: usize,
    ) -> (Vec<u8>, Vec<FramePiece>, Result<(), CloseCode>) {
        let (mut frames, mut input) = (FrameParser::default(), BytesMut::new());
        let (mut lines, mut others) = (Vec::new(), Vec::new());
        for chunk in bytes.chunks(step) {
            input.extend_from_slice(chunk);
            loop {
                match frames.next(&mut input, room) {
                    Ok(None) => break,
                    Ok(Some(FramePiece::Text(part))) => lines.extend_from_slice(&part),
                    Ok(Some(FramePiece::End)) => lines.push(b'\n'),
                    Ok(Some(piece)) => others.push(piece),
                    Err(code) => return (lines, others, Err(code)),
                }
            }
        }
        (lines, others, Ok(()))
    }

    #[test]
    fn frames_are_read_however_they_arrive() {
        let (before, after) = "½🦀".as_bytes().split_at(3);
        let long = "x".repeat(300);
        let bytes = [
            sent(0x81, "{\"a\":\r\n\"grüße 🦀\"}".as_bytes()),
            sent(0x01, before),
            sent(0x89, b"alive?"),
            sent(0x00, after),
            sent(0x80, b""),
            sent(0x81, long.as_bytes()),
            sent(0x8a, b""),
            sent(0x88, b"\x03\xe8bye"),
        ]
        .concat();
        let lines = format!("{{\"a\":\t\t\"grüße 🦀\"}}\n½🦀\n{long}\n");
        let others = [
            FramePiece::Ping("alive?".into()),
            FramePiece::Pong,
            FramePiece::Close(Some(CloseCode::Normal)),
        ];
        for step in 1..40 {
            for room in [1, 3, 1000] {
                let seen = read(&bytes, step, room);
                assert_eq!(seen.2, Ok(()));
                assert_eq!(String::from_utf8(seen.0).unwrap(), lines, "{step} {room}");
                assert_eq!(seen.1, others, "{step} {room}");
            }
        }
    }

    #[test]
    fn protocol_violations_close_the_connection() {
        let unmasked = vec![0x81, 1, b'x'];
        let mut twice = sent(0x01, b"a");
        twice.extend(sent(0x81, b"b"));
        let mut cut = sent(0x01, "ü".as_bytes().split_at(1).0);
        cut.extend(sent(0x80, b""));
        for (bytes, code) in [
            (sent(0x82, b"{}"), CloseCode::Unsupported),
            (sent(0x81, b"\xff"), CloseCode::Invalid),
            (sent(0x81, b"\xed\xa0\x80"), CloseCode::Invalid),
            (cut, CloseCode::Invalid),
            (unmasked, CloseCode::Protocol),
            (twice, CloseCode::Protocol),
            (sent(0x80, b"x"), CloseCode::Protocol),
            (sent(0xc1, b"x"), CloseCode::Protocol),
            (sent(0x83, b"x"), CloseCode::Protocol),
            (sent(0x8b, b"x"), CloseCode::Protocol),
            (sent(0x09, b"x"), CloseCode::Protocol),
            (sent(0x89, &[0; 126]), CloseCode::Protocol),
            (sent(0x88, b"\x03"), CloseCode::Protocol),
            (sent(0x88, b"\x03\xed"), CloseCode::Protocol),
            (sent(0x88, b"\x03\xe8\xff"), CloseCode::Protocol),
            (vec![0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], CloseCode::Protocol),
        ] {
            for step in [1, 1000] {
                assert_eq!(read(&bytes, step, 1000).2, Err(code), "{bytes:x?}");
            }
        }
    }
}
