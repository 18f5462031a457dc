//! Requests of the load generator, and the validation of replies.

use memchr::memmem::{self, Finder};

use crate::command_line::Mode;
use crate::work::{NOTIFICATIONS, prime_factors};

/// Era of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// 2025-11-25, after `initialize`.
    Legacy,
    /// 2026-07-28.
    Modern,
}

impl Mode {
    /// Era of the mode.
    pub fn protocol(self) -> Protocol {
        match self {
            Mode::Stateful | Mode::Stateless => Protocol::Legacy,
            Mode::Modern => Protocol::Modern,
        }
    }
}

impl Protocol {
    /// Value of the `MCP-Protocol-Version` header.
    pub fn version(self) -> &'static str {
        match self {
            Protocol::Legacy => "2025-11-25",
            Protocol::Modern => "2026-07-28",
        }
    }
}

/// `initialize` request of a legacy session.
pub(super) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"0.1.0"}}}"#;

/// `notifications/initialized`, which completes the handshake.
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"0.1.0"},"io.modelcontextprotocol/clientCapabilities":{}"#;

/// Type of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Calls `echo` with a text of this many bytes.
    Echo(usize),
    /// Calls `add`.
    Add,
    /// Lists at least this many tools.
    List(usize),
    /// Calls `progress` and counts its notifications.
    Progress,
    /// Calls `noop` with a number.
    Noop(u64),
    /// Calls `compute` with a number.
    Compute(u64),
    /// Calls `io` with a number.
    Io(u64),
    /// Calls `job` with a number, as a task (modern only).
    Job(u64),
    /// Subscribes to changes (modern only); the reply comes when the connection ends.
    Listen,
}

impl Operation {
    /// Method of the request.
    pub fn method(self) -> &'static str {
        match self {
            Operation::List(_) => "tools/list",
            Operation::Listen => "subscriptions/listen",
            _ => "tools/call",
        }
    }

    /// Name of the tool.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Operation::Echo(_) => "echo",
            Operation::Add => "add",
            Operation::Progress => "progress",
            Operation::Noop(_) => "noop",
            Operation::Compute(_) => "compute",
            Operation::Io(_) => "io",
            Operation::Job(_) => "job",
            Operation::List(_) | Operation::Listen => return None,
        })
    }

    fn arguments(self) -> String {
        match self {
            Operation::Echo(bytes) => format!(r#"{{"text":"{}"}}"#, text(bytes)),
            Operation::Add => r#"{"a":40,"b":2}"#.to_owned(),
            Operation::Noop(n) | Operation::Compute(n) | Operation::Io(n) | Operation::Job(n) => {
                format!(r#"{{"n":{n}}}"#)
            }
            Operation::List(_) | Operation::Progress | Operation::Listen => "{}".to_owned(),
        }
    }

    /// Request with a placeholder for the id.
    pub fn request(self, protocol: Protocol) -> String {
        let mut fields = Vec::new();
        if let Some(name) = self.name() {
            fields.push(format!(r#""name":"{name}","arguments":{}"#, self.arguments()));
        }
        if self == Operation::Listen {
            fields.push(r#""notifications":{"toolsListChanged":true}"#.to_owned());
        }
        let token = format!(r#""progressToken":{PLACE}"#);
        let meta = match (protocol, self) {
            (Protocol::Legacy, Operation::Progress) => token,
            (Protocol::Modern, Operation::Progress) => format!("{META},{token}"),
            (Protocol::Legacy, _) => String::new(),
            (Protocol::Modern, Operation::Job(_)) => follower(),
            (Protocol::Modern, _) => META.to_owned(),
        };
        if !meta.is_empty() {
            fields.push(format!(r#""_meta":{{{meta}}}"#));
        }
        message(PLACE, self.method(), &fields.join(","))
    }

    /// Validation of the reply.
    pub fn check(self) -> Check {
        // Servers of some languages write JSON with spaces.
        let number = |n: u64| vec![format!("\"result\":{n}}}"), format!("\"result\": {n}}}")];
        let (wanted, times) = match self {
            Operation::Echo(bytes) => (vec![format!("\"{}\"", text(bytes))], 1),
            Operation::Add => (number(42), 1),
            Operation::Noop(n) | Operation::Job(n) => (number(n), 1),
            Operation::Compute(n) | Operation::Io(n) => (number(prime_factors(n)), 1),
            Operation::List(tools) => (vec!["\"inputSchema\"".to_owned()], tools),
            Operation::Progress => (vec!["\"done\"".to_owned()], 1),
            Operation::Listen => (Vec::new(), 1),
        };
        Check::new(&wanted, times)
    }

    /// Number of notifications before the reply.
    pub fn notifications(self) -> u64 {
        if self == Operation::Progress { NOTIFICATIONS.into() } else { 0 }
    }
}

/// `tasks/get` request.
pub(super) fn get_task(id: u64, task: &str) -> String {
    let params = format!(r#""taskId":"{task}","_meta":{{{}}}"#, follower());
    message(&id.to_string(), "tasks/get", &params)
}

/// Client capabilities with task support.
fn follower() -> String {
    const FOLLOWS: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    META.strip_suffix("{}").map_or_else(String::new, |rest| format!("{rest}{FOLLOWS}"))
}

fn message(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

fn text(bytes: usize) -> String {
    "the quick brown fox jumps over a lazy dog. ".chars().cycle().take(bytes).collect()
}

/// Strings that a valid reply contains.
#[derive(Clone, Debug)]
pub struct Check {
    /// Alternative strings, and the required number of occurrences.
    wanted: Vec<Finder<'static>>,
    times: usize,
    result: Finder<'static>,
    failure: Finder<'static>,
    id: Finder<'static>,
}

impl Check {
    fn new(wanted: &[String], times: usize) -> Self {
        let finder = |text: &str| Finder::new(text).into_owned();
        Check {
            wanted: wanted.iter().map(|text| finder(text)).collect(),
            times,
            result: finder("\"result\""),
            failure: finder("\"isError\":true"),
            id: finder("\"id\":"),
        }
    }

    /// True if a reply, or a stream that ends with one, is a valid response to the request `id`.
    pub fn is_met(&self, reply: &[u8], id: u64) -> bool {
        self.id(reply) == Some(id) && self.is_well(reply)
    }

    /// True if the reply is valid, regardless of its id.
    pub fn is_well(&self, reply: &[u8]) -> bool {
        let often = |wanted: &Finder<'_>| match self.times {
            1 => wanted.find(reply).is_some(),
            times => wanted.find_iter(reply).count() >= times,
        };
        self.wanted.iter().any(often)
            && self.result.find(reply).is_some()
            && self.failure.find(reply).is_none()
    }

    /// Id of a reply.
    pub fn id(&self, reply: &[u8]) -> Option<u64> {
        let digits = reply[self.id.find(reply)? + 5..].trim_ascii_start();
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
    }
}

/// Placeholder for an id, as long as every id.
const PLACE: &str = "9000000000";

/// Message that is sent repeatedly, each time with another id.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: Vec<u8>,
    places: Vec<usize>,
}

impl Template {
    /// Lowest id.
    pub const FIRST_ID: u64 = 1_000_000_000;

    /// Finds the placeholders of a message.
    pub fn new(bytes: Vec<u8>) -> Self {
        let places = memmem::find_iter(&bytes, PLACE.as_bytes()).collect();
        Template { bytes, places }
    }

    /// Inserts an id of ten digits and returns the message.
    pub fn with_id(&mut self, mut id: u64) -> &[u8] {
        let mut digits = [b'0'; PLACE.len()];
        for digit in digits.iter_mut().rev() {
            *digit += (id % 10) as u8;
            id /= 10;
        }
        for place in &self.places {
            self.bytes[*place..place + PLACE.len()].copy_from_slice(&digits);
        }
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_needs_the_expected_text_and_id() {
        let check = Operation::Echo(9).check();
        let reply = br#"{"jsonrpc":"2.0","id":1000000007,"result":{"content":[{"type":"text","text":"the quick"}]}}"#;
        assert!(check.is_met(reply, 1_000_000_007));
        assert!(!check.is_met(reply, 1_000_000_008));
        assert!(!Operation::Echo(10).check().is_met(reply, 1_000_000_007));
    }

    #[test]
    fn a_failed_call_is_not_a_valid_reply() {
        let check = Operation::Echo(9).check();
        let reply =
            br#"{"id":1000000007,"result":{"content":[{"text":"the quick"}],"isError":true}}"#;
        assert!(!check.is_well(reply));
    }

    #[test]
    fn a_list_has_all_its_tools() {
        let reply = br#"{"id":1,"result":{"tools":[{"inputSchema":{}},{"inputSchema":{}}]}}"#;
        assert!(Operation::List(2).check().is_met(reply, 1));
        assert!(!Operation::List(3).check().is_met(reply, 1));
    }

    #[test]
    fn a_task_requires_the_client_capability() {
        let message: serde_json::Value = serde_json::from_str(&get_task(7, "t")).unwrap();
        let meta = &message["params"]["_meta"];
        let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
        assert!(capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object());
        assert!(Operation::Job(1).request(Protocol::Modern).contains(&capabilities.to_string()));
    }

    #[test]
    fn the_id_is_inserted_at_every_placeholder() {
        let request = Operation::Progress.request(Protocol::Legacy);
        let mut template = Template::new(request.into_bytes());
        let text = String::from_utf8(template.with_id(1_234_567_890).to_vec()).unwrap();
        assert_eq!(text.matches("1234567890").count(), 2);
        assert_eq!(text.matches(PLACE).count(), 0);
    }
}
