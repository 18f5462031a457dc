//! HTTP client with one connection.

use std::fmt::Write;
use std::net::SocketAddr;

use memchr::memmem;

use super::connection::Connection;
use super::message::{Check, INITIALIZE, INITIALIZED, Operation, Protocol, Template};
use crate::command_line::Mode;

/// Connected client, with a session if its mode has one.
#[derive(Debug)]
pub struct Client {
    pub(super) connection: Connection,
    address: SocketAddr,
    mode: Mode,
    session: Option<String>,
    pub(super) requests: Vec<Prepared>,
    next: usize,
}

#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) template: Template,
    pub(super) check: Check,
    streams: bool,
}

/// Values of the `Mcp-Method` and `Mcp-Name` headers.
type Mirrored<'a> = (&'a str, Option<&'a str>);

/// Result of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// Notifications before the reply.
    pub notifications: u64,
    /// Number of polls of a task.
    pub looks: u64,
}

impl Client {
    /// Connects and, in a mode with sessions, opens one.
    pub async fn open(address: SocketAddr, mode: Mode) -> Result<Self, String> {
        let connection = Connection::open(address).await.map_err(|e| format!("connect: {e}"))?;
        let (requests, session) = (Vec::new(), None);
        let mut client = Client { connection, address, mode, session, requests, next: 0 };
        if mode == Mode::Stateful {
            client.open_session().await?;
        }
        Ok(client)
    }

    /// Prepares the requests that are sent in turn.
    pub fn prepare(&mut self, operations: &[Operation]) {
        let prepared = operations.iter().map(|operation| {
            let body = operation.request(self.mode.protocol());
            let template = Template::new(self.request("POST", Some(mirrored(*operation)), &body));
            let streams = operation.notifications() > 0;
            Prepared { template, check: operation.check(), streams }
        });
        self.requests = prepared.collect();
        self.next = 0;
    }

    /// Sends the next request and checks the reply.
    pub async fn turn(&mut self, id: u64) -> Result<Turn, String> {
        let at = self.next;
        self.next = (at + 1) % self.requests.len();
        let Prepared { template, check, streams } = &mut self.requests[at];
        let reply =
            self.connection.exchange(template.with_id(id)).await.map_err(|e| e.to_string())?;
        if reply.status != 200 || !check.is_met(reply.body, id) {
            return Err(wrong(reply.status, reply.body));
        }
        let notifications = if *streams {
            memmem::find_iter(reply.body, b"notifications/progress").count() as u64
        } else {
            0
        };
        Ok(Turn { notifications, looks: 0 })
    }

    /// Opens a session; the previous one stays open.
    pub async fn open_session(&mut self) -> Result<(), String> {
        self.session = None;
        let reply = self.send("POST", INITIALIZE).await?;
        self.session = reply;
        if self.session.is_none() {
            return Err("the reply to initialize has no session id".to_owned());
        }
        self.send("POST", INITIALIZED).await.map(|_| ())
    }

    /// Closes the session.
    pub async fn close_session(&mut self) -> Result<(), String> {
        self.send("DELETE", "").await?;
        self.session = None;
        Ok(())
    }

    /// Opens an endless stream: `subscriptions/listen` or, with a session, GET.
    pub async fn listen(&mut self) -> Result<(), String> {
        let request = match self.mode.protocol() {
            Protocol::Modern => {
                let body = Operation::Listen.request(Protocol::Modern);
                self.request("POST", Some(mirrored(Operation::Listen)), &body)
            }
            Protocol::Legacy => self.request("GET", None, ""),
        };
        self.connection.open_stream(&request).await.map_err(|e| e.to_string())
    }

    async fn send(&mut self, verb: &str, body: &str) -> Result<Option<String>, String> {
        let request = self.request(verb, None, body);
        let reply = self.connection.exchange(&request).await.map_err(|e| e.to_string())?;
        if !(200..300).contains(&reply.status) {
            return Err(wrong(reply.status, reply.body));
        }
        Ok(reply.session)
    }

    pub(super) fn request(
        &self,
        verb: &str,
        mirrored: Option<Mirrored<'_>>,
        body: &str,
    ) -> Vec<u8> {
        let mut head = format!(
            "{verb} /mcp HTTP/1.1\r\nhost: {}\r\naccept: application/json, text/event-stream\r\n",
            self.address
        );
        let version = self.mode.protocol().version();
        let mut header = |name: &str, value: &str| {
            let _ = write!(head, "{name}: {value}\r\n");
        };
        header("mcp-protocol-version", version);
        if let (Protocol::Modern, Some((method, name))) = (self.mode.protocol(), mirrored) {
            header("mcp-method", method);
            if let Some(name) = name {
                header("mcp-name", name);
            }
        }
        if let Some(session) = &self.session {
            header("mcp-session-id", session);
        }
        if !body.is_empty() {
            header("content-type", "application/json");
            header("content-length", &body.len().to_string());
        }
        [head.as_bytes(), b"\r\n", body.as_bytes()].concat()
    }
}

fn mirrored(operation: Operation) -> Mirrored<'static> {
    (operation.method(), operation.name())
}

pub(super) fn wrong(status: u16, body: &[u8]) -> String {
    let body = &body[..body.len().min(300)];
    format!("unexpected reply with status {status}: {}", String::from_utf8_lossy(body))
}
