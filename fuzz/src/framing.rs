//! Framings of byte streams: every division into chunks gives the same messages.

use wharf_transport::fuzzing::read_frames;
use wharf_wire::{Line, Lines, sse::EventParser};

use crate::input::{byte, chunks};

/// The line splitter. The first byte is the limit, the second one the seed of the chunks.
pub fn lines(data: &[u8]) {
    let (limit, data) = byte(data);
    let (seed, data) = byte(data);
    let limit = usize::from(limit);
    let whole = read_lines(limit, [data]);
    assert_eq!(whole, read_lines(limit, chunks(data, seed)));
    assert_eq!(whole, read_lines(limit, data.chunks(1)));
    assert_eq!(whole, split(limit, data));
}

fn read_lines<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Line> {
    let mut lines = Lines::new(limit);
    let mut found = Vec::new();
    for chunk in chunks {
        lines.push(chunk);
        found.extend(std::iter::from_fn(|| lines.next()));
    }
    found.extend(lines.finish());
    found
}

/// Lines of a text that is in memory as a whole.
fn split(limit: usize, data: &[u8]) -> Vec<Line> {
    let ended = data.strip_suffix(b"\n").unwrap_or(data);
    let line = |line: &[u8]| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match line.len() > limit {
            true => Some(Line::TooLong),
            false if line.iter().all(u8::is_ascii_whitespace) => None,
            false => Some(Line::Message(bytes::Bytes::copy_from_slice(line))),
        }
    };
    ended.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// The parser of server-sent events. The first byte is the limit, the second one the seed of the chunks.
pub fn events(data: &[u8]) {
    let (limit, data) = byte(data);
    let (seed, data) = byte(data);
    let limit = usize::from(limit);
    let whole = read_events(limit, [data]);
    assert_eq!(whole, read_events(limit, chunks(data, seed)));
    assert_eq!(whole, read_events(limit, data.chunks(1)));
}

/// Returns the events and errors, the last id, and the delay.
fn read_events<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut parser = EventParser::new(limit);
    let mut found = Vec::new();
    for chunk in chunks {
        parser.push(chunk);
        while let Some(event) = parser.next() {
            if let Ok(event) = &event {
                assert!(event.data.len() <= limit, "an event exceeds the limit");
            }
            found.push(format!("{event:?}"));
        }
    }
    found.push(format!("{:?} {:?}", parser.last_id(), parser.retry()));
    found
}

/// The parser of WebSocket frames. The first byte is the seed of the chunks.
pub fn frames(data: &[u8]) {
    let (seed, data) = byte(data);
    let whole = read_frames([data], usize::MAX);
    for room in [1, 7, usize::MAX] {
        assert_eq!(whole, read_frames(chunks(data, seed), room));
    }
    for message in &whole.messages {
        let text = std::str::from_utf8(message);
        assert!(text.is_ok_and(|text| !text.contains(['\n', '\r'])), "{message:?}");
    }
}
