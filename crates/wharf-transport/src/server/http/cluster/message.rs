//! What processes tell each other.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::mpsc;
use wharf_model::{Bus, BusSubscriber};

/// Where it is said.
pub(super) const TOPIC: &str = "sessions";
/// How much may be heard before anybody listens to it.
const HEARD: usize = 4096;

/// No process has this number.
pub(crate) const EVERYBODY: u32 = 0;

/// Something that one process tells all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word<'a> {
    /// A session stands otherwise than before.
    Changed { key: &'a str, version: u64 },
    /// A session has ended.
    Gone { key: &'a str },
    /// Somebody follows a stream from now on, and nobody else does.
    Taken { key: &'a str, stream: u64, node: u32, ticket: u64 },
    /// There is more of a stream.
    Grown { key: &'a str, stream: u64 },
    /// There is something in the mailbox of a process, or of [all](EVERYBODY).
    Mail { node: u32 },
    /// Something may have been said that was not heard.
    Missed,
}

impl<'a> Word<'a> {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        match self {
            Word::Changed { key, version } => format!("changed {key} {version}"),
            Word::Gone { key } => format!("gone {key}"),
            Word::Taken { key, stream, node, ticket } => {
                format!("taken {key} {stream} {node} {ticket}")
            }
            Word::Grown { key, stream } => format!("grown {key} {stream}"),
            Word::Mail { node } => format!("mail {node}"),
            Word::Missed => "missed".into(),
        }
        .into_bytes()
    }

    /// None for what a newer program says.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (what, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (key, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut numbers = more.split(' ').map_while(|number| number.parse::<u64>().ok());
        Some(match what {
            "changed" => Word::Changed { key, version: numbers.next()? },
            "gone" => Word::Gone { key },
            "taken" => Word::Taken {
                key,
                stream: numbers.next()?,
                node: numbers.next()?.try_into().ok()?,
                ticket: numbers.next()?,
            },
            "grown" => Word::Grown { key, stream: numbers.next()? },
            "mail" => Word::Mail { node: key.parse().ok()? },
            "missed" => Word::Missed,
            _ => return None,
        })
    }
}

/// What this process hears, in order.
pub(crate) struct Hearing {
    heard: mpsc::Receiver<Box<str>>,
    ear: Arc<Queue>,
    _subscribed: Box<dyn Any + Send + Sync>,
}

struct Queue {
    heard: mpsc::Sender<Box<str>>,
    missed: AtomicBool,
}

impl Hearing {
    pub(crate) fn new(bus: &dyn Bus) -> Self {
        let (sender, heard) = mpsc::channel(HEARD);
        let ear = Arc::new(Queue { heard: sender, missed: AtomicBool::new(false) });
        let _subscribed = bus.subscribe(TOPIC, ear.clone());
        Hearing { heard, ear, _subscribed }
    }

    /// The next word, as text.
    pub(crate) async fn next(&mut self) -> Box<str> {
        if self.ear.missed.swap(false, Ordering::AcqRel) {
            return "missed".into();
        }
        self.heard.recv().await.unwrap_or_default()
    }
}

impl Queue {
    fn put(&self, text: &str) {
        if self.heard.try_send(text.into()).is_err() {
            self.missed.store(true, Ordering::Release);
        }
    }
}

impl BusSubscriber for Queue {
    fn hear(&self, _: &str, message: &[u8]) {
        if let Ok(text) = std::str::from_utf8(message) {
            self.put(text);
        }
    }

    fn missed(&self) {
        self.put("missed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_is_heard() {
        let key = "k";
        for word in [
            Word::Changed { key, version: 7 },
            Word::Gone { key },
            Word::Taken { key, stream: u64::MAX, node: u32::MAX, ticket: 0 },
            Word::Grown { key, stream: 0 },
            Word::Mail { node: 9 },
            Word::Mail { node: EVERYBODY },
            Word::Missed,
        ] {
            let said = word.to_bytes();
            assert_eq!(Word::parse(std::str::from_utf8(&said).unwrap()), Some(word));
        }
        for text in ["", "changed", "changed k x", "taken k 1 2", "mail x", "news k 1"] {
            assert_eq!(Word::parse(text), None, "{text}");
        }
    }
}
