//! What reached this process and concerns another, and the other way round.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use wharf_model::{Error, ErrorKind, Events, Retention};
use wharf_wire::{CallId, Received};

use crate::server::http::cluster::{Away, EVERYBODY, Fleet, Hearing, LOOK, Word};
use crate::server::http::session::{
    Sessions,
    cluster::record::{Member, Unkept},
    session::{Session, Visit},
};

/// How much of its mail a process finds, at least as long as it may take to look.
const KEEP: Retention = Retention { events: 4096, bytes: 64 << 20, ttl: LOOK.saturating_mul(12) };
/// How long a letter may be.
const LONGEST: usize = 1 << 20;
/// How often a process writes to itself, so that its mailbox is not forgotten for want of mail and
/// numbered anew.
const RENEW: Duration = LOOK.saturating_mul(3);
/// How many letters are read at once.
const BATCH: usize = 64;

impl Sessions {
    /// Brings answers and cancellations that concern other processes there, and leaves the rest.
    pub(crate) async fn forward(
        &self,
        visit: &Visit,
        member: &Member,
        received: &mut Received,
    ) -> Result<(), Away> {
        let members = match received {
            Received::Batch(members) => &mut members[..],
            one => std::slice::from_mut(one),
        };
        for one in members {
            match one {
                Received::Answer(number, _) => {
                    if let Some(node) = member.fleet.asked_elsewhere(*number) {
                        // The client says who asked: mail for nobody would only fill the store.
                        if !member.fleet.is_gone(node).await {
                            let letter = letter(visit, member, one);
                            post(&member.fleet, &[node], letter).await?;
                        }
                        *one = Received::Ignore;
                    }
                }
                Received::Cancel(id) if !visit.under_way().is_some_and(|calls| calls.has(id)) => {
                    cancel_elsewhere(member, id).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Hears what other processes say.
    pub(crate) async fn hear(sessions: Weak<Self>, fleet: Arc<Fleet>, mut hearing: Hearing) {
        loop {
            let text = hearing.next().await;
            let Some(sessions) = sessions.upgrade() else { return };
            if let Some(word) = Word::parse(&text) {
                sessions.heed(&fleet, word);
            }
        }
    }

    fn heed(&self, fleet: &Arc<Fleet>, word: Word<'_>) {
        match word {
            Word::Changed { key, version } => {
                if let Some((session, member)) = self.held(key).as_ref().and_then(with_member)
                    && member.changed(version)
                {
                    look_again(fleet, vec![session.clone()]);
                }
            }
            Word::Gone { key } => {
                self.forget(key);
            }
            Word::Taken { key, stream, node, ticket } => {
                if let Some((session, member)) = self.held(key).as_ref().and_then(with_member) {
                    let elsewhere = member.taken(stream, ticket) && node != fleet.node;
                    if let Some(log) = session.stream(stream).filter(|_| elsewhere) {
                        log.follow_elsewhere();
                    }
                }
            }
            Word::Grown { key, stream } => {
                if let Some((_, member)) = self.held(key).as_ref().and_then(with_member) {
                    member.grown(stream);
                }
            }
            Word::Mail { node } if [fleet.node, EVERYBODY].contains(&node) => {
                fleet.mail.notify_one();
            }
            Word::Missed => {
                fleet.mail.notify_one();
                let sessions = self.all_held();
                sessions.iter().filter_map(with_member).for_each(|(_, member)| member.doubt());
                look_again(fleet, sessions);
            }
            Word::Mail { .. } => {}
        }
    }

    /// Reads this process's mail.
    pub(crate) async fn read_mail(sessions: Weak<Self>, fleet: Arc<Fleet>) {
        let name = mailbox(fleet.node);
        let (mut seen, mut renewed) = (0, Instant::now());
        loop {
            if renewed.elapsed() >= RENEW {
                renewed = Instant::now();
                seen = renew(&fleet, &name, seen).await;
            }
            let read = fleet.ask(fleet.stores.events.read(&name, seen, BATCH)).await;
            // A store that was gone may have forgotten the mail and number it anew; a letter that
            // is read twice does no harm.
            let read = read.unwrap_or_else(|Away| {
                seen = 0;
                Events::default()
            });
            if read.newest < seen {
                seen = 0;
                continue;
            }
            if read.events.is_empty() {
                tokio::select! {
                    () = fleet.mail.notified() => {}
                    () = sleep(LOOK) => {}
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
        let Some(session) = self.held(key) else { return };
        let message = Bytes::copy_from_slice(message.as_bytes());
        let received = session.connection().receive(message);
        match (received, session.under_way()) {
            (Received::Answer(number, answer), Some(calls)) => calls.answer(number, answer),
            (Received::Cancel(id), Some(calls)) => calls.cancel(&id),
            _ => {}
        }
    }
}

/// A session with what it is to other processes.
fn with_member(session: &Arc<Session>) -> Option<(&Arc<Session>, &Member)> {
    session.member.as_deref().map(|member| (session, member))
}

/// Catches up with what others changed, where anybody would notice before the session is used again.
fn look_again(fleet: &Arc<Fleet>, mut sessions: Vec<Arc<Session>>) {
    sessions.retain(|session| session.is_in_use());
    if sessions.is_empty() {
        return;
    }
    fleet.spawn(async move {
        for session in sessions {
            let Some(member) = &session.member else { continue };
            match member.refresh(&session).await {
                Err(Unkept::Gone) => session.end(),
                _ => member.look(),
            }
        }
    });
}

/// Brings a letter to the mailboxes of other processes, and tells them.
async fn post(fleet: &Fleet, nodes: &[u32], letter: Vec<u8>) -> Result<(), Away> {
    for node in nodes {
        fleet.ask(fleet.stores.events.append(&mailbox(*node), letter.clone(), KEEP)).await?;
    }
    let node = match nodes {
        [] => return Ok(()),
        [node] => *node,
        _ => EVERYBODY,
    };
    // They look there now and then, too.
    let _ = fleet.say(&Word::Mail { node }).await;
    Ok(())
}

/// Cancels a call that another process runs; nobody knows which.
async fn cancel_elsewhere(member: &Member, id: &CallId) -> Result<(), Away> {
    let params = format!(r#"{{"requestId":{}}}"#, id.as_json());
    let message =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
    let letter = format!("{} {message}", member.key).into_bytes();
    // What no mail takes is the id of no call.
    if letter.len() > LONGEST {
        return Ok(());
    }
    post(&member.fleet, &member.fleet.others().await?, letter).await
}

/// Keeps a process's own mailbox, with a letter that says nothing. Gives how far it has been read.
async fn renew(fleet: &Fleet, name: &str, seen: u64) -> u64 {
    match fleet.ask(fleet.stores.events.append(name, Vec::new(), KEEP)).await {
        Ok(number) if number == seen + 1 => number,
        Ok(number) if number > seen => seen,
        _ => 0,
    }
}

/// An answer, as the client could have written it; if that is too long, one that says so.
fn letter(visit: &Visit, member: &Member, answer: &Received) -> Vec<u8> {
    let mut letter = format!("{} ", member.key).into_bytes();
    let start = letter.len();
    match answer {
        Received::Answer(number, Ok(result)) => letter.extend_from_slice(
            format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{result}}}"#).as_bytes(),
        ),
        Received::Answer(number, Err(error)) => {
            visit.connection().fail(&number.to_string(), error, &mut letter);
        }
        _ => {}
    }
    if let (true, Received::Answer(number, _)) = (letter.len() > LONGEST, answer) {
        letter.truncate(start);
        let error = Error::new(ErrorKind::InvalidRequest).with_message(
            "The client's answer is too long for another process than the one that asked",
        );
        visit.connection().fail(&number.to_string(), &error, &mut letter);
    }
    letter
}

fn mailbox(node: u32) -> String {
    format!("node.{node:08x}")
}
