//! Implementations of the tools.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::{CLOCK, Change, Demo, client_requests};

pub(crate) async fn call(
    demo: &Demo,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
    let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let said = match request.name.as_ref() {
        "add" => {
            let [a, b] = ["a", "b"].map(|name| arguments[name].as_i64().unwrap_or_default());
            (a + b).to_string()
        }
        "echo" => text("text"),
        "fail" => return Ok(failed(&text("reason"))),
        "weather" => {
            let weather = json!({ "city": text("city"), "celsius": 21.5, "sky": "clear" });
            return Ok(CallToolResult::structured(weather).into());
        }
        "countdown" => count_down(arguments["steps"].as_u64().unwrap_or_default(), &context).await,
        "sleep" => sleep(demo, arguments["seconds"].as_f64().unwrap_or_default(), context).await,
        "cancelled" => demo.shared.cancelled.load(Ordering::SeqCst).to_string(),
        "set_bonus" => set_bonus(demo, arguments["on"] == true, &context).await,
        "touch" => touch(demo, &context).await,
        "bonus" if *demo.shared.bonus.lock().unwrap() => "a bonus".to_owned(),
        "deploy" | "sign_in" | "poem" | "workspace" => {
            return client_requests::call(request, &arguments, context).await;
        }
        other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
    };
    Ok(done(said))
}

pub(crate) fn done(said: String) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(said)]).into()
}

pub(crate) fn failed(why: &str) -> CallToolResponse {
    CallToolResult::error(vec![ContentBlock::text(why)]).into()
}

/// In the modern era the tool itself must check the log level that the client set.
async fn count_down(steps: u64, context: &RequestContext<RoleServer>) -> String {
    let wanted = !is_modern(context) || context.meta.log_level().is_some();
    for step in 1..=steps {
        progress(context, step, steps).await;
        if wanted {
            let mut log = LoggingMessageNotificationParam::new(
                LoggingLevel::Info,
                json!({ "left": steps - step }),
            );
            log.logger = Some("countdown".to_owned());
            let _ = context.peer.notify_logging_message(log).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    "lift-off".to_owned()
}

async fn sleep(demo: &Demo, seconds: f64, context: RequestContext<RoleServer>) -> String {
    // Progress shows the client that the call runs and can be cancelled.
    progress(&context, 0, 1).await;
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs_f64(seconds)) => {}
        () = context.ct.cancelled() => {
            demo.shared.cancelled.fetch_add(1, Ordering::SeqCst);
        }
    }
    "slept".to_owned()
}

async fn progress(context: &RequestContext<RoleServer>, step: u64, of: u64) {
    let Some(token) = context.meta.get_progress_token() else { return };
    let progress = ProgressNotificationParam::new(token, step as f64).with_total(of as f64);
    let _ = context.peer.notify_progress(progress).await;
}

async fn set_bonus(demo: &Demo, on: bool, context: &RequestContext<RoleServer>) -> String {
    *demo.shared.bonus.lock().unwrap() = on;
    let _ = demo.shared.changes.send(Change::Tools);
    if !is_modern(context) {
        let _ = context.peer.notify_tool_list_changed().await;
    }
    if on { "on".to_owned() } else { "off".to_owned() }
}

async fn touch(demo: &Demo, context: &RequestContext<RoleServer>) -> String {
    demo.shared.touches.fetch_add(1, Ordering::SeqCst);
    let _ = demo.shared.changes.send(Change::Clock);
    let subscribed = demo.shared.subscribed.lock().unwrap().contains(CLOCK);
    if subscribed && !is_modern(context) {
        let clock = ResourceUpdatedNotificationParam::new(CLOCK);
        let _ = context.peer.notify_resource_updated(clock).await;
    }
    "touched".to_owned()
}

pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}
