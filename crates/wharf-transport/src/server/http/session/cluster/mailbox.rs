//! Mailboxes of the processes of a cluster: forwards client responses and cancellations to the process that
//! waits for them.

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
    cluster::{
        record::{SessionRecord, SessionStoreError},
        sessions::SharedSession,
    },
    live_session::Session,
    table::SessionManager,
};

/// Retention of a mailbox. It must exceed the interval at which the owner polls it.
const MAILBOX_RETENTION: Retention =
    Retention::new(4096, 64 << 20, POLL_INTERVAL.saturating_mul(12));
/// Largest mail, in bytes.
const MAX_MAIL_BYTES: usize = 1 << 20;
/// Interval at which a process writes to its own mailbox. Without mail the store would drop the mailbox and
/// number it anew.
const RENEW_INTERVAL: Duration = POLL_INTERVAL.saturating_mul(3);
/// Number of mails in one read.
const READ_BATCH_SIZE: usize = 64;

impl SessionRecord {
    /// Forwards responses and cancellations that concern other processes. Leaves everything else in `received`.
    pub(super) async fn forward(
        &self,
        session: &Session,
        received: &mut Received,
    ) -> Result<(), StoreUnavailable> {
        let members = match received {
            Received::Batch(members) => &mut members[..],
            one => std::slice::from_mut(one),
        };
        for one in members {
            match one {
                Received::Answer(number, _) => {
                    if let Some(node) = self.cluster.request_owner(*number) {
                        // The client chose the number, and mail for a dead process would only fill the store.
                        if !self.cluster.is_gone(node).await {
                            let mail = encode_response(session, self, one);
                            send_mail(&self.cluster, &[node], mail).await?;
                        }
                        *one = Received::Ignore;
                    }
                }
                Received::Cancel(id)
                    if !session.calls_if_any().is_some_and(|calls| calls.contains_id(id)) =>
                {
                    cancel_elsewhere(self, id).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl SessionManager<SharedSession> {
    /// Receives and dispatches the messages of the cluster's bus.
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
                if let Some(shared) = self.local_by_key(key)
                    && shared.record.on_changed(version)
                {
                    refresh_in_use(cluster, vec![shared]);
                }
            }
            ClusterMessage::SessionEnded { key } => {
                self.remove_ended(key);
            }
            ClusterMessage::ReaderMoved { key, stream, node, ticket } => {
                if let Some(shared) = self.local_by_key(key) {
                    let elsewhere =
                        shared.record.on_reader_moved(stream, ticket) && node != cluster.node;
                    if let Some(log) = shared.stream(stream).filter(|_| elsewhere) {
                        log.detach_for_store();
                    }
                }
            }
            ClusterMessage::StreamGrew { key, stream } => {
                if let Some(shared) = self.local_by_key(key) {
                    shared.record.on_stream_grew(stream);
                }
            }
            ClusterMessage::MailArrived { node } if [cluster.node, ALL_NODES].contains(&node) => {
                cluster.mail_arrived.notify_one();
            }
            ClusterMessage::MessagesLost => {
                cluster.mail_arrived.notify_one();
                let sessions = self.all_local();
                sessions.iter().for_each(|shared| shared.record.mark_stale());
                refresh_in_use(cluster, sessions);
            }
            ClusterMessage::MailArrived { .. } => {}
        }
    }

    /// Reads this process's mailbox and delivers its mail.
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
            // A store that was unavailable may have lost the mailbox and numbers it anew. Reading mail twice
            // does no harm.
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
            for (number, mail) in read.events {
                seen = number;
                let mail = String::from_utf8(mail).unwrap_or_default();
                if let Some((key, message)) = mail.split_once(' ') {
                    sessions.deliver(key, message);
                }
            }
        }
    }

    /// Handles a message that a client sent to another process.
    fn deliver(&self, key: &str, message: &str) {
        let Some(session) = self.local_by_key(key) else { return };
        let message = Bytes::copy_from_slice(message.as_bytes());
        let received = session.connection().receive(message);
        match (received, session.calls_if_any()) {
            (Received::Answer(number, answer), Some(calls)) => calls.answer(number, answer),
            (Received::Cancel(id), Some(calls)) => calls.cancel(&id),
            _ => {}
        }
    }
}

/// Refreshes sessions in use that another process changed. Idle sessions are refreshed on their next use.
fn refresh_in_use(cluster: &Arc<Cluster>, mut sessions: Vec<SharedSession>) {
    sessions.retain(|session| session.is_in_use());
    if sessions.is_empty() {
        return;
    }
    cluster.spawn(async move {
        for session in sessions {
            match session.record.refresh_if_stale(&session).await {
                Err(SessionStoreError::Gone) => session.end(),
                _ => session.record.wake_readers(),
            }
        }
    });
}

/// Writes to the mailboxes of other processes and notifies them.
async fn send_mail(
    cluster: &Cluster,
    nodes: &[u32],
    mail: Vec<u8>,
) -> Result<(), StoreUnavailable> {
    for node in nodes {
        cluster
            .store_call(cluster.stores.events.append(
                &mailbox(*node),
                mail.clone(),
                MAILBOX_RETENTION,
            ))
            .await?;
    }
    let node = match nodes {
        [] => return Ok(()),
        [node] => *node,
        _ => ALL_NODES,
    };
    // The owners also poll their mailboxes.
    let _ = cluster.publish(&ClusterMessage::MailArrived { node }).await;
    Ok(())
}

/// Cancels a call of another process. The mail goes to all of them, because the owner of the call is not known.
async fn cancel_elsewhere(
    shared_record: &SessionRecord,
    id: &CallId,
) -> Result<(), StoreUnavailable> {
    let params = format!(r#"{{"requestId":{}}}"#, id.as_json());
    let message =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
    let mail = format!("{} {message}", shared_record.key).into_bytes();
    // A call with such a long id cannot exist.
    if mail.len() > MAX_MAIL_BYTES {
        return Ok(());
    }
    send_mail(&shared_record.cluster, &shared_record.cluster.other_nodes().await?, mail).await
}

/// Keeps this process's mailbox alive with an empty mail. Returns the number of the last mail that was read.
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

/// Encodes a client response as the client would send it, or an error in its place if it is too long.
fn encode_response(session: &Session, shared_record: &SessionRecord, answer: &Received) -> Vec<u8> {
    let mut mail = format!("{} ", shared_record.key).into_bytes();
    let start = mail.len();
    match answer {
        Received::Answer(number, Ok(result)) => mail.extend_from_slice(
            format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{result}}}"#).as_bytes(),
        ),
        Received::Answer(number, Err(error)) => {
            session.connection().fail(&number.to_string(), error, &mut mail);
        }
        _ => {}
    }
    if let (true, Received::Answer(number, _)) = (mail.len() > MAX_MAIL_BYTES, answer) {
        mail.truncate(start);
        let error = Error::new(ErrorKind::InvalidRequest).with_message(
            "The client's response is too long to be forwarded to the process that sent the request",
        );
        session.connection().fail(&number.to_string(), &error, &mut mail);
    }
    mail
}

fn mailbox(node: u32) -> String {
    format!("node.{node:08x}")
}
