//! Cursors and sealed state: what the server did not encrypt is never accepted.

use std::{
    pin::pin,
    sync::LazyLock,
    task::{Context, Poll, Waker},
};

use serde_json::{Value, json};
use wharf::{
    Ctx, Endpoint, Server, Tool,
    model::RequestExtensions,
    server::{CallLimits, ClientRequestError, KeyRing, Limits},
};
use wharf_model::StateCipher;

use crate::input::byte;

/// A server, with a cursor and a state that it encrypted.
struct Issuer {
    keys: KeyRing,
    endpoint: Endpoint,
    cursor: String,
    state: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Confirm {
    confirmed: bool,
}

async fn confirm(ctx: Ctx) -> Result<String, ClientRequestError> {
    let answer: Confirm = ctx.ask("confirm", "Really?").await?;
    Ok(answer.confirmed.to_string())
}

static ISSUER: LazyLock<Issuer> = LazyLock::new(|| {
    let keys: KeyRing = "07".repeat(32).parse().unwrap();
    let endpoint = Server::new("issuer", "1.0.0")
        .state_cipher(keys.clone())
        .limits(Limits::default().calls(CallLimits::default().page(1)))
        .add(Tool::new("confirm", confirm))
        .add(Tool::new("other", async || "other"))
        .build()
        .unwrap();
    let list = handle(&endpoint, "tools/list", json!({}));
    let cursor = list["result"]["nextCursor"].as_str().expect("a second page").to_owned();
    let asked = handle(&endpoint, "tools/call", json!({"name": "confirm", "arguments": {}}));
    let state = asked["result"]["requestState"].as_str().expect("a state").to_owned();
    let issuer = Issuer { keys, endpoint, cursor, state };
    assert!(issuer.takes_cursor(&issuer.cursor) && issuer.takes_state(&issuer.state));
    issuer
});

impl Issuer {
    fn takes_cursor(&self, cursor: &str) -> bool {
        let reply = handle(&self.endpoint, "tools/list", json!({"cursor": cursor}));
        reply.get("result").is_some()
    }

    fn takes_state(&self, state: &str) -> bool {
        let params = json!({
            "name": "confirm", "arguments": {}, "requestState": state,
            "inputResponses": {"confirm": {"action": "accept", "content": {"confirmed": true}}},
        });
        handle(&self.endpoint, "tools/call", params).get("result").is_some()
    }
}

/// The first byte selects a cursor, a state or a sealed message, and whether the rest replaces it or changes some of
/// its bytes.
pub fn sealed(data: &[u8]) {
    let issuer = &*ISSUER;
    let (kind, data) = byte(data);
    let replaces = kind & 4 != 0;
    match kind & 3 {
        0 => check(&issuer.cursor, data, replaces, |cursor| issuer.takes_cursor(cursor)),
        1 => check(&issuer.state, data, replaces, |state| issuer.takes_state(state)),
        _ => {
            let (context, plain) = data.split_at(data.len() / 2);
            let sealed = issuer.keys.seal(context, plain);
            assert_eq!(issuer.keys.open(context, &sealed).as_deref(), Some(plain));
            check(&sealed, data, replaces, |it| issuer.keys.open(context, it).is_some());
            let other = [context, b"x"].concat();
            assert!(issuer.keys.open(&other, &sealed).is_none(), "opened for another context");
        }
    }
}

/// Panics if `accepts` accepts anything but the original.
fn check(original: &str, data: &[u8], replaces: bool, accepts: impl Fn(&str) -> bool) {
    let changed = if replaces { data.to_vec() } else { change(original, data) };
    let changed = String::from_utf8_lossy(&changed);
    assert!(changed == original || !accepts(&changed), "{changed} was accepted for {original}");
}

/// Changes, inserts or removes some bytes.
fn change(original: &str, data: &[u8]) -> Vec<u8> {
    let mut changed = original.as_bytes().to_vec();
    for edit in data.chunks_exact(4).take(8) {
        let at = usize::from(u16::from_le_bytes([edit[1], edit[2]])) % changed.len().max(1);
        match edit[0] % 4 {
            0 => changed.insert(at, edit[3]),
            1 if !changed.is_empty() => drop(changed.remove(at)),
            2 => changed.truncate(at),
            _ => changed.iter_mut().skip(at).take(1).for_each(|byte| *byte = edit[3]),
        }
    }
    changed
}

/// Handles a request of a client that can be asked.
fn handle(endpoint: &Endpoint, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut reply = pin!(endpoint.handle(message.to_string(), RequestExtensions::new()));
    // Nothing here waits.
    let Poll::Ready(reply) = reply.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("{message} waits");
    };
    serde_json::from_slice(&reply.expect("a reply")).expect("a message")
}
