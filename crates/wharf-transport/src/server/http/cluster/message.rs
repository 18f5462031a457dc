//! Messages on the bus of a cluster.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::mpsc;
use wharf_model::{Bus, BusSubscriber};

/// Topic of the messages.
pub(super) const TOPIC: &str = "sessions";
/// Number of received messages that may wait to be handled.
const QUEUE_CAPACITY: usize = 4096;

/// Stands for all processes; no process has this number.
pub(crate) const ALL_NODES: u32 = 0;

/// Message to all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterMessage<'a> {
    /// The record of a session has a new version.
    SessionChanged { key: &'a str, version: u64 },
    /// A session has ended.
    SessionEnded { key: &'a str },
    /// A reader with this ticket reads the stream from now on, instead of any other.
    ReaderMoved { key: &'a str, stream: u64, node: u32, ticket: u64 },
    /// A stream has new events in the store.
    StreamGrew { key: &'a str, stream: u64 },
    /// The mailbox of a process, or of [all](ALL_NODES), has new mail.
    MailArrived { node: u32 },
    /// Messages may have been lost; receivers refresh everything.
    MessagesLost,
}

impl<'a> ClusterMessage<'a> {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        match self {
            ClusterMessage::SessionChanged { key, version } => format!("changed {key} {version}"),
            ClusterMessage::SessionEnded { key } => format!("gone {key}"),
            ClusterMessage::ReaderMoved { key, stream, node, ticket } => {
                format!("taken {key} {stream} {node} {ticket}")
            }
            ClusterMessage::StreamGrew { key, stream } => format!("grown {key} {stream}"),
            ClusterMessage::MailArrived { node } => format!("mail {node}"),
            ClusterMessage::MessagesLost => "missed".into(),
        }
        .into_bytes()
    }

    /// Decodes a message. None for kinds that a newer version sends.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (what, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (key, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut numbers = more.split(' ').map_while(|number| number.parse::<u64>().ok());
        Some(match what {
            "changed" => ClusterMessage::SessionChanged { key, version: numbers.next()? },
            "gone" => ClusterMessage::SessionEnded { key },
            "taken" => ClusterMessage::ReaderMoved {
                key,
                stream: numbers.next()?,
                node: numbers.next()?.try_into().ok()?,
                ticket: numbers.next()?,
            },
            "grown" => ClusterMessage::StreamGrew { key, stream: numbers.next()? },
            "mail" => ClusterMessage::MailArrived { node: key.parse().ok()? },
            "missed" => ClusterMessage::MessagesLost,
            _ => return None,
        })
    }
}

/// Receives the messages of the bus in order.
pub(crate) struct BusReceiver {
    messages: mpsc::Receiver<Box<str>>,
    queue: Arc<BusQueue>,
    _subscribed: Box<dyn Any + Send + Sync>,
}

struct BusQueue {
    messages: mpsc::Sender<Box<str>>,
    missed: AtomicBool,
}

impl BusReceiver {
    pub(crate) fn new(bus: &dyn Bus) -> Self {
        let (sender, messages) = mpsc::channel(QUEUE_CAPACITY);
        let queue = Arc::new(BusQueue { messages: sender, missed: AtomicBool::new(false) });
        let _subscribed = bus.subscribe(TOPIC, queue.clone());
        BusReceiver { messages, queue, _subscribed }
    }

    /// Returns the next encoded message.
    pub(crate) async fn next(&mut self) -> Box<str> {
        if self.queue.missed.swap(false, Ordering::AcqRel) {
            return "missed".into();
        }
        self.messages.recv().await.unwrap_or_default()
    }
}

impl BusQueue {
    fn put(&self, text: &str) {
        if self.messages.try_send(text.into()).is_err() {
            self.missed.store(true, Ordering::Release);
        }
    }
}

impl BusSubscriber for BusQueue {
    fn receive(&self, _: &str, message: &[u8]) {
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
    fn encoded_messages_are_decoded_unchanged() {
        let key = "k";
        for message in [
            ClusterMessage::SessionChanged { key, version: 7 },
            ClusterMessage::SessionEnded { key },
            ClusterMessage::ReaderMoved { key, stream: u64::MAX, node: u32::MAX, ticket: 0 },
            ClusterMessage::StreamGrew { key, stream: 0 },
            ClusterMessage::MailArrived { node: 9 },
            ClusterMessage::MailArrived { node: ALL_NODES },
            ClusterMessage::MessagesLost,
        ] {
            let bytes = message.to_bytes();
            assert_eq!(ClusterMessage::parse(std::str::from_utf8(&bytes).unwrap()), Some(message));
        }
        for text in ["", "changed", "changed k x", "taken k 1 2", "mail x", "news k 1"] {
            assert_eq!(ClusterMessage::parse(text), None, "{text}");
        }
    }
}
