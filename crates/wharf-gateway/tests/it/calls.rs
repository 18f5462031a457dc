//! Calls of tools, prompts, completions and resources.

use serde_json::json;
use std::sync::Arc;
use wharf_client::{CallOptions, ClientHandle, ClientHandlerBuilder, local};
use wharf_gateway::Gateway;
use wharf_model::{
    CompletionRef, Content, ElicitResult, Implementation, Method, PromptMessage, RequestBuilder,
    ResourceContents, ToolResult,
};
use wharf_server::{ClientRequestError, Ctx, Prompt, RawArgs, Resource, Router, Tool};
use wharf_testbed::TokioTimer;

use crate::support::{TestServer, error, result};

fn library() -> TestServer {
    let router = Router::builder()
        .add(Tool::dynamic(
            "echo",
            json!({"type": "object"}),
            async |RawArgs(arguments): RawArgs| arguments.get().to_owned(),
        ))
        .add(Tool::new("link", async || {
            let embedded = ResourceContents::text("mem:a", "text");
            ToolResult::new([Content::link("mem:a", "a"), Content::resource(embedded)])
        }))
        .add(Resource::new("mem:a", async || "text of a"))
        .add(Prompt::new("greet", async || PromptMessage::user(Content::link("mem:a", "a"))))
        .build();
    TestServer::new(router.unwrap())
}

fn gateway() -> Gateway {
    let other = Router::builder().add(Resource::new("mem:b", async || "text of b"));
    let other = TestServer::new(other.build().unwrap());
    Gateway::builder().upstream("lib", &library()).upstream("other", &other).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn uris_in_results_can_be_read() {
    let gateway = gateway();
    let found = result(&gateway, RequestBuilder::new(Method::CallTool).target("lib_link")).await;
    assert_eq!(found["content"][0]["uri"], "lib+mem:a");
    assert_eq!(found["content"][1]["resource"]["uri"], "lib+mem:a");
    let prompt = RequestBuilder::new(Method::GetPrompt).target("lib_greet");
    let found = result(&gateway, prompt).await;
    assert_eq!(found["messages"][0]["content"]["uri"], "lib+mem:a");
    let read = RequestBuilder::new(Method::ReadResource).target("lib+mem:a");
    let found = result(&gateway, read).await;
    assert_eq!(
        found["contents"][0],
        json!({"uri": "lib+mem:a", "text": "text of a", "mimeType": "text/plain"})
    );
    for unknown in ["mem:a", "x+mem:a", "other+mem:a"] {
        let read = RequestBuilder::new(Method::ReadResource).target(unknown);
        assert!(error(&gateway, read).await.kind.is_resource_not_found(), "{unknown}");
    }
}

async fn client(gateway: Gateway, handler: ClientHandlerBuilder) -> ClientHandle {
    let transport = local(Arc::new(gateway), Implementation::new("gateway", "1")).await.unwrap();
    let timer = Arc::new(TokioTimer);
    ClientHandle::new(transport, timer, CallOptions::default(), Arc::new(handler))
}

#[tokio::test(start_paused = true)]
async fn completions_reach_the_server_of_their_prompt() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Greeting {
        name: String,
    }
    let prompt =
        Prompt::new("greet", async |wharf_server::Args(it): wharf_server::Args<Greeting>| {
            PromptMessage::user(it.name)
        });
    let prompt = prompt.complete_from("name", ["ada", "alan", "grace"]);
    let server = TestServer::new(Router::builder().add(prompt).build().unwrap());
    let (one, builder) = (library(), Gateway::builder());
    let gateway = builder.upstream("lib", &one).upstream("people", &server).build().unwrap();
    let client = client(gateway, ClientHandlerBuilder::new()).await;
    let found = client.complete(CompletionRef::prompt("people_greet"), "name", "a").await.unwrap();
    assert_eq!(found.values, ["ada", "alan"]);
    let unknown = client.complete(CompletionRef::prompt("greet"), "name", "a").await;
    assert!(unknown.unwrap_err().kind().is_prompt_not_found());
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_server_reach_the_client_of_the_call() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct ConfirmForm {
        sure: bool,
    }
    async fn confirmed(ctx: Ctx) -> Result<String, ClientRequestError> {
        let confirm: ConfirmForm = ctx.ask("confirm", "Sure?").await?;
        Ok(format!("sure: {}", confirm.sure))
    }
    let router = Router::builder().add(Tool::new("confirm", confirmed)).build().unwrap();
    let (one, two) = (library(), TestServer::new(router));
    let gateway = Gateway::builder().upstream("lib", &one).upstream("two", &two).build().unwrap();
    let handler = ClientHandlerBuilder::new()
        .elicit(async |_| Ok(ElicitResult::accept(json!({"sure": true}))));
    let client = client(gateway, handler).await;
    let answer: String = client.call_as("two_confirm", ()).await.unwrap();
    assert_eq!(answer, "sure: true");
    let arguments = json!({"n": 1.5, "text": "\u{e9}"});
    let echoed: serde_json::Value = client.call_as("lib_echo", &arguments).await.unwrap();
    assert_eq!(echoed, arguments);
}
