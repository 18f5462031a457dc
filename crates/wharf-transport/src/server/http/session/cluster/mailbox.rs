//! What reached this process and concerns another, and the other way round.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use wharf_model::{Error, ErrorKind, Events, Retention};
use wharf_wire::{CallId, Received};

use crate::server::http::cluster::{
    ALL_NODES, BusReceiver, Cluster, ClusterMessage, POLL_INTERVAL, StoreUnavailable,
};
use crate::server::http::session::{
    SessionManager,
    cluster::record::{SessionRecord, SessionStoreError},
    session::{Session, SessionGuard},
};

/// How much of its mail a process finds, at least as long as it may take to look.
const MAILBOX_RETENTION: Retention =
    Retention { events: 4096, bytes: 64 << 20, ttl: POLL_INTERVAL.saturating_mul(12) };
/// How long a letter may be.
const MAX_LETTER_BYTES: usize = 1 << 20;
/// How often a process writes to itself, so that its mailbox is not forgotten for want of mail and
/// numbered anew.
const RENEW_INTERVAL: Duration = POLL_INTERVAL.saturating_mul(3);
/// How many letters are read at once.
const READ_BATCH_SIZE: usize = 64;

impl SessionManager {
    /// Brings answers and cancellations that concern other processes there, and leaves the rest.
    pub(crate) async fn forward(
        &self,
        guard: &SessionGuard,
        shared_record: &SessionRecord,
        received: &mut Received,
    ) -> Result<(), StoreUnavailable> {
        let members = match received {
            Received::Batch(members) => &mut members[..],
            one => std::slice::from_mut(one),
        };
        for one in members {
            match one {
                Received::Answer(number, _) => {
                    if let Some(node) = shared_record.cluster.request_owner(*number) {
                        // The client says who asked: mail for nobody would only fill the store.
                        if !shared_record.cluster.is_gone(node).await {
                            let letter = encode_response(guard, shared_record, one);
                            send_mail(&shared_record.cluster, &[node], letter).await?;
                        }
                        *one = Received::Ignore;
                    }
                }
                Received::Cancel(id)
                    if !guard.in_flight_calls().is_some_and(|calls| calls.contains_id(id)) =>
                {
                    cancel_elsewhere(shared_record, id).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Hears what other processes say.
    pub(crate) async fn receive_bus(
        sessions: Weak<Self>,
        cluster: Arc<Cluster>,
        mut receiver: BusReceiver,
    ) {
        loop {
            let text = receiver.next().await;
            let Some(sessions) = sessions.upgrade() else { return };
            if let Some(message) = ClusterMessage::parse(&text) {
                sessions.dispatch(&cluster, message);
            }
        }
    }

    fn dispatch(&self, cluster: &Arc<Cluster>, message: ClusterMessage<'_>) {
        match message {
            ClusterMessage::SessionChanged { key, version } => {
                if let Some((session, shared_record)) =
                    self.local_by_key(key).as_ref().and_then(with_record)
                    && shared_record.on_changed(version)
                {
                    refresh_in_use(cluster, vec![session.clone()]);
                }
            }
            ClusterMessage::SessionEnded { key } => {
                self.remove_ended(key);
            }
            ClusterMessage::ReaderMoved { key, stream, node, ticket } => {
                if let Some((session, shared_record)) =
                    self.local_by_key(key).as_ref().and_then(with_record)
                {
                    let elsewhere =
                        shared_record.on_reader_moved(stream, ticket) && node != cluster.node;
                    if let Some(log) = session.stream(stream).filter(|_| elsewhere) {
                        log.detach_for_store();
                    }
                }
            }
            ClusterMessage::StreamGrew { key, stream } => {
                if let Some((_, shared_record)) =
                    self.local_by_key(key).as_ref().and_then(with_record)
                {
                    shared_record.on_stream_grew(stream);
                }
            }
            ClusterMessage::MailArrived { node } if [cluster.node, ALL_NODES].contains(&node) => {
                cluster.mail_arrived.notify_one();
            }
            ClusterMessage::MessagesLost => {
                cluster.mail_arrived.notify_one();
                let sessions = self.all_local();
                sessions
                    .iter()
                    .filter_map(with_record)
                    .for_each(|(_, shared_record)| shared_record.mark_stale());
                refresh_in_use(cluster, sessions);
            }
            ClusterMessage::MailArrived { .. } => {}
        }
    }

    /// Reads this process's mail.
    pub(crate) async fn read_mail(sessions: Weak<Self>, cluster: Arc<Cluster>) {
        let name = mailbox(cluster.node);
        let (mut seen, mut renewed) = (0, Instant::now());
        loop {
            if renewed.elapsed() >= RENEW_INTERVAL {
                renewed = Instant::now();
                seen = renew(&cluster, &name, seen).await;
            }
            let read =
                cluster.store_call(cluster.stores.events.read(&name, seen, READ_BATCH_SIZE)).await;
            // A store that was gone may have forgotten the mail and number it anew; a letter that
            // is read twice does no harm.
            let read = read.unwrap_or_else(|StoreUnavailable| {
                seen = 0;
                Events::default()
            });
            if read.newest < seen {
                seen = 0;
                continue;
            }
            if read.events.is_empty() {
                tokio::select! {
                    () = cluster.mail_arrived.notified() => {}
                    () = sleep(POLL_INTERVAL) => {}
                }
            }
            let Some(sessions) = sessions.upgrade() else { return };
            for (number, letter) in read.events {
                seen = number;
                let letter = String::from_utf8(letter).unwrap_or_default();
                if let Some((key, message)) = letter.split_once(' ') {
                    sessions.deliver(key, message);
                }
            }
        }
    }

    /// Treats what a client sent to another process.
    fn deliver(&self, key: &str, message: &str) {
        let Some(session) = self.local_by_key(key) else { return };
        let message = Bytes::copy_from_slice(message.as_bytes());
        let received = session.connection().receive(message);
        match (received, session.in_flight_calls()) {
            (Received::Answer(number, answer), Some(calls)) => calls.answer(number, answer),
            (Received::Cancel(id), Some(calls)) => calls.cancel(&id),
            _ => {}
        }
    }
}

/// A session with what it is to other processes.
fn with_record(session: &Arc<Session>) -> Option<(&Arc<Session>, &SessionRecord)> {
    session.shared_record.as_deref().map(|shared_record| (session, shared_record))
}

/// Catches up with what others changed, where anybody would notice before the session is used again.
fn refresh_in_use(cluster: &Arc<Cluster>, mut sessions: Vec<Arc<Session>>) {
    sessions.retain(|session| session.is_in_use());
    if sessions.is_empty() {
        return;
    }
    cluster.spawn(async move {
        for session in sessions {
            let Some(shared_record) = &session.shared_record else { continue };
            match shared_record.refresh_or_mark_stale(&session).await {
                Err(SessionStoreError::Gone) => session.end(),
                _ => shared_record.wake_readers(),
            }
        }
    });
}

/// Brings a letter to the mailboxes of other processes, and tells them.
async fn send_mail(
    cluster: &Cluster,
    nodes: &[u32],
    letter: Vec<u8>,
) -> Result<(), StoreUnavailable> {
    for node in nodes {
        cluster
            .store_call(cluster.stores.events.append(
                &mailbox(*node),
                letter.clone(),
                MAILBOX_RETENTION,
            ))
            .await?;
    }
    let node = match nodes {
        [] => return Ok(()),
        [node] => *node,
        _ => ALL_NODES,
    };
    // They look there now and then, too.
    let _ = cluster.publish(&ClusterMessage::MailArrived { node }).await;
    Ok(())
}

/// Cancels a call that another process runs; nobody knows which.
async fn cancel_elsewhere(
    shared_record: &SessionRecord,
    id: &CallId,
) -> Result<(), StoreUnavailable> {
    let params = format!(r#"{{"requestId":{}}}"#, id.as_json());
    let message =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
    let letter = format!("{} {message}", shared_record.key).into_bytes();
    // What no mail takes is the id of no call.
    if letter.len() > MAX_LETTER_BYTES {
        return Ok(());
    }
    send_mail(&shared_record.cluster, &shared_record.cluster.other_nodes().await?, letter).await
}

/// Keeps a process's own mailbox, with a letter that says nothing. Gives how far it has been read.
async fn renew(cluster: &Cluster, name: &str, seen: u64) -> u64 {
    match cluster
        .store_call(cluster.stores.events.append(name, Vec::new(), MAILBOX_RETENTION))
        .await
    {
        Ok(number) if number == seen + 1 => number,
        Ok(number) if number > seen => seen,
        _ => 0,
    }
}

/// An answer, as the client could have written it; if that is too long, one that says so.
fn encode_response(
    guard: &SessionGuard,
    shared_record: &SessionRecord,
    answer: &Received,
) -> Vec<u8> {
    let mut letter = format!("{} ", shared_record.key).into_bytes();
    let start = letter.len();
    match answer {
        Received::Answer(number, Ok(result)) => letter.extend_from_slice(
            format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{result}}}"#).as_bytes(),
        ),
        Received::Answer(number, Err(error)) => {
            guard.connection().fail(&number.to_string(), error, &mut letter);
        }
        _ => {}
    }
    if let (true, Received::Answer(number, _)) = (letter.len() > MAX_LETTER_BYTES, answer) {
        letter.truncate(start);
        let error = Error::new(ErrorKind::InvalidRequest).with_message(
            "The client's answer is too long for another process than the one that asked",
        );
        guard.connection().fail(&number.to_string(), &error, &mut letter);
    }
    letter
}

fn mailbox(node: u32) -> String {
    format!("node.{node:08x}")
}
