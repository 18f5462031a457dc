//! Tools that send client requests: during the call in the legacy era, with `input_required` in the modern era.

use rmcp::model::*;
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, ServiceError};
use serde_json::{Value, json};

use crate::tools::{done, failed, is_modern};

pub(crate) async fn call(
    request: CallToolRequestParams,
    arguments: &Value,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let question = question(&request.name, arguments);
    let answer = match request.input_responses {
        _ if !is_modern(&context) => ask(&context.peer, question)
            .await
            .map_err(|e| ErrorData::internal_error(format!("no answer: {e}"), None))?,
        Some(mut answers) => answers.remove("it").unwrap_or_default(),
        None => {
            let questions = InputRequests::from([("it".to_owned(), question)]);
            return Ok(InputRequiredResult::new(Some(questions), None).into());
        }
    };
    Ok(answered(&request.name, arguments, &answer))
}

fn question(tool: &str, arguments: &Value) -> InputRequest {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default();
    match tool {
        "deploy" => InputRequest::Elicitation(ElicitRequest::new(form(text("build")))),
        "sign_in" => InputRequest::Elicitation(ElicitRequest::new(page())),
        "poem" => {
            let wish = format!("Write one line about {}.", text("topic"));
            let params =
                CreateMessageRequestParams::new(vec![SamplingMessage::user_text(wish)], 100);
            InputRequest::CreateMessage(CreateMessageRequest::new(params))
        }
        _ => InputRequest::ListRoots(ListRootsRequest::default()),
    }
}

fn form(build: &str) -> ElicitRequestParams {
    let schema = json!({
        "type": "object",
        "properties": {
            "confirmed": { "type": "boolean" },
            "note": { "type": "string", "default": "none" },
        },
        "required": ["confirmed"],
    });
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!("Deploy {build}?"),
        requested_schema: serde_json::from_value(schema).expect("rmcp knows such schemas"),
    }
}

fn page() -> ElicitRequestParams {
    ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message: "Sign in to continue.".to_owned(),
        url: "https://example.com/sign-in".to_owned(),
        elicitation_id: "sign-in-1".to_owned(),
    }
}

async fn ask(peer: &Peer<RoleServer>, question: InputRequest) -> Result<Value, ServiceError> {
    let answer = match question {
        InputRequest::Elicitation(it) => json!(peer.create_elicitation(it.params).await?),
        InputRequest::CreateMessage(it) => json!(peer.create_message(it.params).await?),
        _ => json!(peer.list_roots().await?),
    };
    Ok(answer)
}

fn answered(tool: &str, arguments: &Value, answer: &Value) -> CallToolResponse {
    match (tool, answer["action"].as_str()) {
        (_, Some("decline")) => failed("declined"),
        (_, Some("cancel")) => failed("cancelled"),
        ("deploy", _) if answer["content"]["confirmed"] == true => {
            let (build, note) = (&arguments["build"], &answer["content"]["note"]);
            let text = |value: &Value| value.as_str().unwrap_or("undefined").to_owned();
            done(format!("deployed {}, note: {}", text(build), text(note)))
        }
        ("deploy", _) => done("kept".to_owned()),
        ("sign_in", _) => done("signed in".to_owned()),
        ("poem", _) => {
            let content = &answer["content"];
            let block = content.get(0).unwrap_or(content);
            done(block["text"].as_str().unwrap_or_default().to_owned())
        }
        _ => {
            let roots = answer["roots"].as_array().cloned().unwrap_or_default();
            let uris: Vec<_> = roots.iter().filter_map(|root| root["uri"].as_str()).collect();
            done(uris.join("\n"))
        }
    }
}
