//! Event streams, split at any byte.

use proptest::{collection::vec, prelude::*, sample::select};
use wharf_wire::sse::{self, EventParser, ServerEvent};

/// Lines with and without meaning, and line endings of every kind.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known = select(vec![
        "data: a",
        "data",
        "data:",
        "data:  b",
        "id: 1",
        "id:",
        "id: \u{0}",
        "event: e",
        "event:",
        "retry: 5",
        "retry: x",
        ": comment",
        ":",
        "unknown: x",
        "\u{feff}",
        "ä😀",
        "data: ä",
        "data: a rather long line that fills the event",
    ]);
    let end = select(vec!["\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n", "\n\r", ""]);
    prop_oneof![
        4 => (known, end).prop_map(|(line, end)| format!("{line}{end}").into_bytes()),
        1 => vec(any::<u8>(), 0..8),
    ]
}

/// Parses a stream given in chunks; returns its events and the maximum memory used.
fn read(limit: usize, chunks: &[&[u8]]) -> (Vec<Option<ServerEvent>>, Option<String>, Option<u64>) {
    let mut events = EventParser::new(limit);
    let mut found = Vec::new();
    for chunk in chunks {
        events.push(chunk);
        while let Some(event) = events.next() {
            found.push(event.ok());
        }
    }
    let retry = events.retry().map(|wait| u64::try_from(wait.as_millis()).unwrap());
    (found, events.last_id().map(str::to_owned), retry)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_split_gives_the_same_events(
        pieces in vec(piece(), 0..30),
        cuts in vec(any::<prop::sample::Index>(), 0..10),
        limit in prop_oneof![0..40usize, Just(1000)],
    ) {
        let stream = pieces.concat();
        let whole = read(limit, &[&stream]);
        let bytewise: Vec<_> = stream.chunks(1).collect();
        prop_assert_eq!(&read(limit, &bytewise), &whole);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut start = 0;
        for cut in cuts.into_iter().chain([stream.len()]) {
            chunks.push(&stream[start..cut]);
            start = cut;
        }
        prop_assert_eq!(&read(limit, &chunks), &whole);
    }

    #[test]
    fn no_event_exceeds_the_limit(pieces in vec(piece(), 0..40), limit in 0..40usize) {
        for event in read(limit, &[&pieces.concat()]).0.into_iter().flatten() {
            let length = |text: &Option<String>| text.as_ref().map_or(0, |_| 1);
            prop_assert!(!event.data.is_empty());
            prop_assert!(event.data.len() + length(&event.name) + length(&event.id) <= limit);
        }
    }

    #[test]
    fn server_events_are_read_back(
        events in vec((proptest::option::of("[a-z0-9-]{1,9}"), "[ -~ä😀]{1,40}"), 0..8),
    ) {
        let mut stream = Vec::new();
        sse::priming(&mut stream, "prime", Some(std::time::Duration::from_millis(1500)));
        for (id, message) in &events {
            stream.extend_from_slice(sse::KEEP_ALIVE);
            sse::event(&mut stream, id.as_deref(), message.as_bytes());
        }
        let (found, last, retry) = read(1000, &[&stream]);
        let found: Vec<_> = found.into_iter().map(|event| {
            let event = event.unwrap();
            (event.id, String::from_utf8(event.data.to_vec()).unwrap())
        }).collect();
        prop_assert_eq!(&found, &events);
        let named = events.iter().rev().find_map(|(id, _)| id.clone());
        prop_assert_eq!(last, Some(named.unwrap_or_else(|| "prime".to_owned())));
        prop_assert_eq!(retry, Some(1500));
    }
}

#[test]
fn server_errors_are_read_back_as_the_same_kind() {
    let mut stream = Vec::new();
    sse::named(&mut stream, "endpoint", b"/messages?id=1");
    sse::retry(&mut stream, std::time::Duration::from_secs(2));
    let (found, _, retry) = read(1000, &[&stream]);
    let [Some(event)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (event.name.as_deref(), &event.data[..]),
        (Some("endpoint"), &b"/messages?id=1"[..])
    );
    assert_eq!(retry, Some(2000));
}
