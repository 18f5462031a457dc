//! A panic of a handler ends only its own call.

use serde_json::json;

use crate::advisories::{
    harness::Harness,
    http_client::{self, HttpClient},
    web,
};

/// rust-sdk#106, go-sdk#1180: the client waited for ever, or the process ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_ends_only_its_call_without_its_message() {
    let harness = Harness::start().await;
    for pool in [web::http1, web::http2] {
        for caller in HttpClient::both(&harness).await {
            let caller = HttpClient { pool: pool(), ..caller };
            for late in [false, true] {
                let reply = caller.messages("crash", json!({"late": late})).await.pop().unwrap();
                assert_eq!(reply["result"]["isError"], true, "{reply}");
                assert!(!reply.to_string().contains("secret"), "{reply}");
                caller.works().await;
            }
            for (method, params) in [
                ("resources/read", json!({"uri": "test://broken"})),
                ("prompts/get", json!({"name": "confused"})),
            ] {
                let response = caller.send(&caller.message(method, params)).await;
                assert_eq!(response.status(), 200);
                let reply = http_client::reply(response).await;
                assert_eq!(reply["error"]["code"], -32603, "{reply}");
                assert!(!reply.to_string().contains("secret"), "{reply}");
                caller.works().await;
            }
        }
    }
    harness.stop().await;
}
