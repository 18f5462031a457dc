//! A gateway between clients and servers of every pair of eras.

use serde::Deserialize;
use serde_json::json;
use wharf::{
    Client, Ctx, Endpoint, Era, Prompt, Resource, Server, Tool,
    client::{ClientHandlerBuilder, Target},
    gateway::{Gateway, UpstreamConnector},
    model::{
        ClientCapabilities, ElicitResult, ElicitationCapability, Notification, PromptMessage,
        SubscriptionFilter,
    },
    server::ClientRequestError,
};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[derive(Deserialize, schemars::JsonSchema)]
struct ConfirmForm {
    sure: bool,
}

async fn confirmed(ctx: Ctx) -> Result<String, ClientRequestError> {
    let confirm: ConfirmForm = ctx.ask("confirm", "Sure?").await?;
    Ok(format!("sure: {}", confirm.sure))
}

fn server() -> Endpoint {
    Server::new("upstream", "1.0.0")
        .add(Tool::new("confirm", confirmed))
        .add(Resource::new("mem:a", async || "text of a"))
        .add(Prompt::new("greet", async || PromptMessage::user("hello")))
        .build()
        .unwrap()
}

fn connector(server: &Endpoint, era: Era) -> UpstreamConnector {
    let server = server.clone();
    UpstreamConnector::new(move || {
        let elicitation = ElicitationCapability::default().form(true);
        let capabilities = ClientCapabilities::default().elicitation(elicitation);
        let builder = Client::builder().era(era).capabilities(capabilities);
        builder.connect(server.clone())
    })
}

async fn connect(gateway: Gateway, era: Era) -> Client {
    let gateway = Server::new("gateway", "1.0.0").upstream(gateway).build().unwrap();
    let handler = ClientHandlerBuilder::new()
        .elicit(async |_| Ok(ElicitResult::accept(json!({"sure": true}))));
    Client::builder().era(era).handler(handler).connect(gateway).await.unwrap()
}

#[tokio::test]
async fn calls_and_requests_pass_in_every_pair_of_eras() {
    for front in ERAS {
        for back in ERAS {
            let (one, two) = (server(), server());
            let gateway = Gateway::builder()
                .upstream("one", connector(&one, back))
                .upstream("two", connector(&two, back))
                .upstream("away", Target::from("http://127.0.0.1:9/mcp"));
            let client = connect(gateway.build().unwrap(), front).await;
            assert_eq!(client.about().info.name, "gateway");
            let tools = client.tools().all().await.unwrap();
            let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
            assert_eq!(names, ["one_confirm", "two_confirm"]);
            let answer: String = client.call_as("two_confirm", ()).await.unwrap();
            assert_eq!(answer, "sure: true", "{front:?} {back:?}");
            let read = client.read("two+mem:a").await.unwrap();
            assert_eq!(read.contents[0].uri, "two+mem:a");
            assert_eq!(client.prompt("one_greet", ()).await.unwrap().messages.len(), 1);
        }
    }
}

#[tokio::test]
async fn changes_pass_in_every_pair_of_eras() {
    for front in ERAS {
        for back in ERAS {
            let (one, two) = (server(), server());
            let gateway = Gateway::builder()
                .upstream("one", connector(&one, back))
                .upstream("two", connector(&two, back));
            let client = connect(gateway.build().unwrap(), front).await;
            assert_eq!(client.tools().all().await.unwrap().len(), 2);
            let filter = SubscriptionFilter::default().tools(true).uris(["one+mem:a"]);
            let mut changes = client.listen(filter).await.unwrap();
            two.registry().add(Tool::new("late", async || "late")).unwrap();
            loop {
                match changes.next().await.unwrap().unwrap() {
                    Notification::ToolsChanged => {
                        let tools = client.tools().all().await.unwrap();
                        if tools.iter().any(|tool| tool.name == "two_late") {
                            break;
                        }
                    }
                    // The server may have changed it before it knew of the subscription.
                    Notification::ResourceUpdated { uri } if &*uri == "one+mem:a" => {}
                    other => panic!("{other:?}"),
                }
            }
            let answer: String = client.call_as("two_late", ()).await.unwrap();
            assert_eq!(answer, "late", "{front:?} {back:?}");
        }
    }
}
