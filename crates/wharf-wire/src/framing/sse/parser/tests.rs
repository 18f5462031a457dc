//! Tests of the event stream rules, by example.

use crate::framing::sse::parser::*;

/// Parses `bytes` into `name|data|id` for each event, or `!` for an oversized one.
fn read(events: &mut EventParser, bytes: &[u8]) -> Vec<String> {
    events.push(bytes);
    let shown = |found: Result<ServerEvent, Error>| match found {
        Ok(ServerEvent { name, data, id }) => {
            let data = String::from_utf8_lossy(&data).into_owned();
            format!("{}|{data}|{}", name.unwrap_or_default(), id.unwrap_or_default())
        }
        Err(error) => {
            assert!(error.kind.is_content_too_large());
            "!".to_owned()
        }
    };
    std::iter::from_fn(|| events.next()).map(shown).collect()
}

fn all(bytes: &[u8]) -> Vec<String> {
    read(&mut EventParser::new(1000), bytes)
}

#[test]
fn server_sent_events_are_encoded() {
    for (stream, expected) in [
        ("data: a\n\n", &["|a|"][..]),
        ("data: a\r\rdata: b\r\n\r\ndata: c\n\n", &["|a|", "|b|", "|c|"]),
        ("data: a\r\n\r\n\r\n\ndata: b\n\n", &["|a|", "|b|"]),
        ("\u{feff}data: a\n\n", &["|a|"]),
        ("\u{feff}\u{feff}data: a\n\ndata: b\n\n", &["|b|"]),
        ("data:a\ndata: b\ndata:  c\ndata\ndata:\n\n", &["|a\nb\n c\n\n|"]),
        (": comment\ndata: a\n:\n:data: x\n\n", &["|a|"]),
        ("event: endpoint\ndata: /messages\n\n", &["endpoint|/messages|"]),
        ("event:\ndata: a\n\nevent: x\nevent: y\ndata: b\n\n", &["|a|", "y|b|"]),
        ("event: lost\n\ndata: a\n\n", &["|a|"]),
        ("id: 1\ndata: a\n\ndata: b\n\n", &["|a|1", "|b|"]),
        ("id: 1\nid: 2\u{0}\ndata: a\n\n", &["|a|1"]),
        ("data: a: b:c\n\n", &["|a: b:c|"]),
        ("unknown: x\nDATA: y\n data: z\ndata : w\n\n", &[]),
        ("data\n\ndata:\n\ndata: \n\n", &[]),
        ("data: a\n\ndata: b\n", &["|a|"]),
        ("data: a\n\ndata: b", &["|a|"]),
        ("", &[]),
        ("\n\n\r\r\n", &[]),
        ("data: ä€😀\n\n", &["|ä€😀|"]),
    ] {
        assert_eq!(all(stream.as_bytes()), expected, "{stream:?}");
        let mut events = EventParser::new(1000);
        let bytewise: Vec<_> = stream.bytes().flat_map(|byte| read(&mut events, &[byte])).collect();
        assert_eq!(bytewise, expected, "{stream:?}, byte by byte");
    }
    assert_eq!(all(b"data: \xff\n\n"), ["|\u{fffd}|"]);
}

#[test]
fn an_event_is_complete_with_its_blank_line() {
    let mut events = EventParser::new(100);
    assert_eq!(read(&mut events, b"data: a\r\n\r"), ["|a|"]);
    assert!(read(&mut events, b"\nda").is_empty());
    assert_eq!(read(&mut events, b"ta: b\n\n"), ["|b|"]);
}

#[test]
fn last_event_id() {
    for (stream, expected) in [
        ("id: 7\ndata: a\n\n", Some("7")),
        ("id: 7\n\n", Some("7")),
        ("id: 7\ndata:\n\n", Some("7")),
        ("id: 7\n\ndata: a\n\n", Some("7")),
        ("id: 7\n\nid\n\n", None),
        ("id: 7\n\nid: 8\ndata: not over", Some("7")),
        ("id: 7\n\nid: 8\u{0}\n\n", Some("7")),
        ("id:ä b\n\n", Some("ä b")),
        ("data: a\n\n", None),
    ] {
        let mut events = EventParser::new(100);
        read(&mut events, stream.as_bytes());
        assert_eq!(events.last_id(), expected, "{stream:?}");
    }
}

#[test]
fn reconnect_delay() {
    for (stream, expected) in [
        ("retry: 1500\n", Some(1500)),
        ("retry:0\n\n", Some(0)),
        ("retry: 10\nretry: 2000\n", Some(2000)),
        ("retry: 3600000\n", Some(60_000)),
        ("retry: 99999999999999999999999999\n", Some(60_000)),
        ("retry: 10\nretry: 1.5\n", Some(10)),
        ("retry:\nretry\nretry: -1\nretry: +1\nretry:  1\nretry: 1s\n", None),
    ] {
        let mut events = EventParser::new(100);
        read(&mut events, stream.as_bytes());
        assert_eq!(events.retry(), expected.map(Duration::from_millis), "{stream:?}");
    }
}

#[test]
fn oversized_events_are_errors() {
    let long = "x".repeat(40);
    let event = |data: &str| format!("id: 9\ndata: {data}\n\n");
    for (stream, expected) in [
        (event("12345678"), &["|12345678|9"][..]),
        ("data: 12345678901234\n\n".to_owned(), &["|12345678901234|"]),
        ("data: 123456789012345\n\n".to_owned(), &["!"]),
        (event(&long) + &event("a"), &["!", "|a|9"]),
        (format!("data: 1\ndata: 2\n{long}: x\n\r\n") + &event("a"), &["!", "|a|9"]),
        ("data: 1\ndata: 2\ndata: 3\n\n".to_owned() + &event("a"), &["!", "|a|9"]),
        (format!(": {long}\n:{long}\n:{long}\n") + &event("a"), &["|a|9"]),
        (format!(": {long}\n\n:{long}"), &[]),
        (event(&long) + &event(&long) + &event("b"), &["!", "!", "|b|9"]),
    ] {
        let mut events = EventParser::new(20);
        assert_eq!(read(&mut events, stream.as_bytes()), expected, "{stream:?}");
        let mut events = EventParser::new(20);
        let mut found = Vec::new();
        for byte in stream.bytes() {
            found.extend(read(&mut events, &[byte]));
            assert!(events.buffer.len() <= 21, "{stream:?}");
        }
        assert_eq!(found, expected, "{stream:?}, byte by byte");
    }
    let mut events = EventParser::new(20);
    read(&mut events, event(&long).as_bytes());
    assert_eq!(events.last_id(), None, "nothing of what is refused counts");
}

#[test]
fn an_event_without_end_is_refused_once() {
    let mut events = EventParser::new(16);
    let mut found = read(&mut events, b"data: ");
    for _ in 0..100 {
        found.extend(read(&mut events, b"xxxxxxxxx"));
        assert!(events.buffer.len() <= 25);
    }
    assert_eq!(found, ["!"]);
    for _ in 0..100 {
        assert!(read(&mut events, b"\ndata: x").is_empty());
    }
    assert_eq!(read(&mut events, b"\n\ndata: y\n\n"), ["|y|"]);
}
