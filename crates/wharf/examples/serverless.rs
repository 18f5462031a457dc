//! One message in, one reply out: what a function on a serverless platform does.
//!
//! ```sh
//! echo '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shout","arguments":{"text":"ahoy"}}}' |
//!     cargo run -p wharf-mcp --example serverless
//! ```

use std::{io::Read, sync::LazyLock};

use wharf::{Endpoint, ProtocolVersion, model::RequestExtensions, prelude::*};

/// Says it louder.
#[tool(read_only)]
async fn shout(text: String) -> String {
    text.to_uppercase()
}

/// Built once for as long as the platform keeps the process.
static SERVER: LazyLock<Endpoint> = LazyLock::new(|| {
    let server = Server::new("shouter", "1.0.0").tool::<shout>();
    server.build().unwrap_or_else(|error| panic!("{error}"))
});

/// What the platform calls: the body of a request, its version header, and who is calling.
async fn function(body: Vec<u8>, version: Option<&str>, caller: Option<&str>) -> Option<Vec<u8>> {
    let mut scope = RequestExtensions::new();
    // Only messages that do not say it themselves need this.
    if let Some(pin) = version.and_then(|version| version.parse::<ProtocolVersion>().ok()) {
        scope.insert(pin);
    }
    if let Some(caller) = caller {
        scope.insert(Principal::new(caller));
    }
    SERVER.handle(body, scope).await
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body)?;
    match function(body, Some("2025-11-25"), None).await {
        Some(reply) => println!("{}", String::from_utf8_lossy(&reply)),
        None => eprintln!("(nothing to reply to)"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_gets_its_reply() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call",
            "params":{"name":"shout","arguments":{"text":"ahoy"}}}"#;
        let reply = function(call.into(), Some("2025-06-18"), Some("alice")).await.unwrap();
        let reply: serde_json::Value = serde_json::from_slice(&reply).unwrap();
        assert_eq!(reply["result"]["content"][0]["text"], "AHOY");
    }

    #[tokio::test]
    async fn nothing_that_needs_a_stream_is_offered() {
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
            "protocolVersion":"2025-11-25","capabilities":{},
            "clientInfo":{"name":"test","version":"1"}}}"#;
        let reply = function(hello.into(), None, None).await.unwrap();
        let reply: serde_json::Value = serde_json::from_slice(&reply).unwrap();
        let tools = &reply["result"]["capabilities"]["tools"];
        assert!(tools.is_object() && tools["listChanged"] != true, "{reply}");
    }
}
