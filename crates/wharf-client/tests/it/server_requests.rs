//! Answers to requests of the server during a call.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::support::{FakeTransport, SECOND, answering};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use wharf_client::{CallError, ClientHandler, ClientHandlerBuilder, answer_to};
use wharf_model::{
    BoxFuture, ClientCapabilities, ClientRequest, ElicitForm, ElicitResult, ElicitUrl, Error,
    ErrorKind, Outbox, Outcome, Root, SamplingRequest, SamplingResult, ToolInfo, ToolResult,
};

fn form(properties: Value) -> ClientRequest {
    let schema = json!({"type": "object", "properties": properties});
    ClientRequest::Elicit(Box::new(ElicitForm::new("?", schema)))
}

fn page() -> ClientRequest {
    ClientRequest::ElicitUrl(Box::new(ElicitUrl::new("?", "https://x.test/a")))
}

fn sample() -> ClientRequest {
    ClientRequest::Sample(Box::new(SamplingRequest::new(10).user("?")))
}

fn sample_with_tools() -> ClientRequest {
    let request = SamplingRequest::new(10).user("?").tool(ToolInfo::without_parameters("t"));
    ClientRequest::Sample(Box::new(request))
}

/// A server that sends a request during its call, and returns the answer or its error.
async fn delivered(answers: impl ClientHandler, ask: ClientRequest) -> Result<Value, CallError> {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| match outbox.ask(ask).await {
            Ok(answer) => ToolResult::text(answer).into(),
            Err(error) => {
                ToolResult::error(json!([error.kind.name(), error.data]).to_string()).into()
            }
        })
        .transport();
    let result = answering(&transport, answers).call("t", ()).await?;
    Ok(serde_json::from_str(result.content[0].as_text().unwrap()).unwrap())
}

fn accepting(content: Value) -> ClientHandlerBuilder {
    ClientHandlerBuilder::new().elicit(move |_| {
        let content = content.clone();
        async move { Ok(ElicitResult::accept(content)) }
    })
}

#[tokio::test]
async fn every_kind_is_answered() {
    let answers = accepting(json!({"a": 1}))
        .elicit_url(async |page| {
            assert_eq!(page.url, "https://x.test/a");
            Ok(ElicitResult::accept(json!({"secret": 1})))
        })
        .sample_with_tools(async |_| Ok(SamplingResult::new("m", "Paris")))
        .fixed_roots([Root::new("file:///a")]);
    let ask = async |ask| delivered(answers.clone(), ask).await.unwrap();
    let filled = ask(form(json!({"a": {"type": "integer"}}))).await;
    assert_eq!(filled, json!({"action": "accept", "content": {"a": 1}}));
    // Input on the web page never passes through the client.
    assert_eq!(ask(page()).await, json!({"action": "accept"}));
    assert_eq!(ask(sample()).await["content"]["text"], "Paris");
    assert_eq!(ask(sample_with_tools()).await["model"], "m");
    assert_eq!(ask(ClientRequest::Roots).await, json!({"roots": [{"uri": "file:///a"}]}));
}

#[tokio::test]
async fn undeclared_requests_are_rejected() {
    let none = ClientHandlerBuilder::new();
    for ask in [form(json!({})), page(), sample(), sample_with_tools(), ClientRequest::Roots] {
        let (method, refused) = (ask.method().name(), delivered(none.clone(), ask).await.unwrap());
        assert_eq!(refused, json!(["method_not_found", {"method": method}]));
    }
    let forms = accepting(json!({}));
    let pages = ClientHandlerBuilder::new().elicit_url(async |_| Ok(ElicitResult::decline()));
    let plain = ClientHandlerBuilder::new().sample(async |_| Ok(SamplingResult::new("m", "x")));
    for (answers, ask, needed) in [
        (&forms, page(), json!({"elicitation": {"url": {}}})),
        (&pages, form(json!({})), json!({"elicitation": {}})),
        (&plain, sample_with_tools(), json!({"sampling": {"tools": {}}})),
    ] {
        let refused = delivered(answers.clone(), ask).await.unwrap();
        let data = json!({"requiredCapabilities": needed});
        assert_eq!(refused, json!(["missing_client_capability", data]));
    }
    for answers in [none, forms, pages, plain] {
        let declared = serde_json::to_value(answers.capabilities()).unwrap();
        assert!(declared.as_object().unwrap().len() <= 1, "{declared}");
    }
}

#[tokio::test]
async fn a_custom_handler_answers_the_requests_it_declares() {
    struct OnlyRoots;
    impl ClientHandler for OnlyRoots {
        fn capabilities(&self) -> ClientCapabilities {
            let all = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
            serde_json::from_value(all).unwrap()
        }
        fn roots(&self) -> BoxFuture<Result<Vec<Root>, Error>> {
            Box::pin(async { Ok(vec![]) })
        }
    }
    assert_eq!(delivered(OnlyRoots, ClientRequest::Roots).await.unwrap(), json!({"roots": []}));
    for ask in [form(json!({})), page(), sample()] {
        assert_eq!(delivered(OnlyRoots, ask).await.unwrap()[0], "method_not_found");
    }
}

#[tokio::test]
async fn defaults_fill_missing_form_fields() {
    let fields = json!({"name": {"type": "string", "default": "x"},
        "age": {"type": "integer", "default": 30}, "sure": {"type": "boolean"},
        "size": {"type": "string", "enum": ["s", "l"], "default": "l"}});
    let filled = delivered(accepting(json!({"age": 5})), form(fields.clone())).await.unwrap();
    assert_eq!(filled["content"], json!({"name": "x", "age": 5, "size": "l"}));
    let nothing =
        ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::accept(Value::Null)));
    let declined = ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()));
    assert_eq!(
        delivered(declined, form(fields.clone())).await.unwrap(),
        json!({"action": "decline"})
    );
    let error = delivered(nothing, form(fields)).await.unwrap_err();
    assert!(error.message().contains("object"), "{error}");
}

#[tokio::test]
async fn an_invalid_answer_fails_the_call_and_names_the_field() {
    for (field, bad) in [
        (json!({"type": "string", "format": "email"}), json!("no mail")),
        (json!({"type": "string", "format": "uri"}), json!("no link")),
        (json!({"type": "string", "format": "date"}), json!("28.7.2026")),
        (json!({"type": "string", "format": "date-time"}), json!("2026-07-28")),
        (json!({"type": "string", "maxLength": 1}), json!("ab")),
        (json!({"type": "integer", "minimum": 1}), json!(0)),
        (json!({"type": "integer"}), json!("1")),
        (json!({"type": "number", "maximum": 1}), json!(1.5)),
        (json!({"type": "boolean"}), json!("true")),
        (json!({"type": "string", "enum": ["a"]}), json!("b")),
        (json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}), json!("A")),
        (json!({"type": "array", "items": {"type": "string", "enum": ["a"]}}), json!(["b"])),
        (
            json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}),
            json!(["A"]),
        ),
        (json!({"type": "array", "minItems": 1, "items": {"enum": ["a"]}}), json!([])),
    ] {
        let ask = form(json!({ "field": field }));
        let error = delivered(accepting(json!({ "field": bad })), ask.clone()).await.unwrap_err();
        assert!(error.kind().is_invalid_params() && error.message().contains("`field`"), "{error}");
        let transport = FakeTransport::default()
            .then(crate::support::required(vec![("k", ask)], None))
            .transport();
        let caller = answering(&transport, accepting(json!({ "field": bad })));
        let called = caller.call("t", ()).await.unwrap_err();
        assert_eq!((called.kind(), called.message()), (error.kind(), error.message()));
        assert_eq!(transport.count(), 1, "an answer that does not fit is never sent");
    }
}

#[tokio::test]
async fn server_requests_are_answered_concurrently_during_the_call() {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            let asks = (0..10).map(|_| outbox.ask(sample()));
            let answers = futures_util::future::join_all(asks).await;
            ToolResult::text(answers.into_iter().filter(Result::is_ok).count().to_string()).into()
        })
        .transport();
    // All ten must be open before any is answered.
    let (gate, here) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let answers = ClientHandlerBuilder::new().sample(move |_| {
        let (gate, here) = (gate.clone(), here.clone());
        async move {
            if here.fetch_add(1, Ordering::SeqCst) == 9 {
                gate.add_permits(10);
            }
            gate.acquire().await.unwrap().forget();
            Ok(SamplingResult::new("m", "x"))
        }
    });
    let all: u8 = answering(&transport, answers).call_as("t", ()).await.unwrap();
    assert_eq!(all, 10);
}

#[tokio::test]
async fn server_requests_beyond_the_limit_are_rejected() {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            let mut asks: Vec<_> =
                (0..70).map(|_| Box::pin(outbox.ask(ClientRequest::Roots))).collect();
            let (error, ..) = futures_util::future::select_all(asks.drain(..)).await;
            error.unwrap_err().into()
        })
        .transport();
    let never = ClientHandlerBuilder::new().roots(std::future::pending::<Result<Vec<Root>, Error>>);
    let error = answering(&transport, never).call("t", ()).await.unwrap_err();
    assert!(error.kind().is_overloaded() && error.message().contains("64"), "{error}");
}

struct DropCounter(Arc<AtomicUsize>);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("a destructor may panic as well");
    }
}

#[tokio::test]
async fn a_withdrawn_server_request_is_not_answered() {
    let transport = FakeTransport::default()
        .play(async |_, outbox: Outbox| {
            let mut ask = Box::pin(outbox.ask(ClientRequest::Roots));
            tokio::select! { biased; _ = &mut ask => (), () = tokio::task::yield_now() => () }
            drop(ask);
            tokio::task::yield_now().await;
            ToolResult::text("went on").into()
        })
        .transport();
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let answers = ClientHandlerBuilder::new().roots(move || {
        let guard = DropCounter(count.clone());
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            Ok(vec![])
        }
    });
    let result = answering(&transport, answers).call("t", ()).await.unwrap();
    assert_eq!((result, dropped.load(Ordering::SeqCst)), (ToolResult::text("went on"), 1));
}

#[tokio::test]
async fn a_panic_of_the_handler_is_an_error_response() {
    let at_once =
        ClientHandlerBuilder::new().roots(|| -> std::future::Ready<_> { panic!("secret") });
    let later = ClientHandlerBuilder::new().roots(async || panic!("secret"));
    for answers in [at_once, later] {
        let told = delivered(answers, ClientRequest::Roots).await.unwrap();
        assert_eq!(told[0], "internal_error");
        assert!(!told.to_string().contains("secret"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_arrives_ends_with_the_total_timeout() {
    let asking = async |_, outbox: Outbox| -> Outcome {
        outbox.ask(ClientRequest::Roots).await.unwrap_err().into()
    };
    let suspended = crate::support::required(vec![("k", ClientRequest::Roots)], None);
    let transport = FakeTransport::default().play(asking).then(suspended).transport();
    let never = ClientHandlerBuilder::new().roots(std::future::pending::<Result<Vec<Root>, Error>>);
    let caller = answering(&transport, never);
    for _ in 0..2 {
        let error = caller.call("t", ()).timeout(SECOND).await.unwrap_err();
        assert!(error.kind().is_request_timeout() && error.message().contains("600s"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_server_request_pauses_the_idle_timeout() {
    let asking = async |_, outbox: Outbox| {
        ToolResult::text(outbox.ask(ClientRequest::Roots).await.unwrap()).into()
    };
    let transport = FakeTransport::default().play(asking).transport();
    let slow = ClientHandlerBuilder::new().roots(async || {
        tokio::time::sleep(300 * SECOND).await;
        Ok(vec![])
    });
    answering(&transport, slow).call("t", ()).await.unwrap();
}

#[tokio::test]
async fn an_error_of_the_handler_is_sent_to_the_server() {
    let answers = ClientHandlerBuilder::new()
        .sample(async |_| Err(Error::new(ErrorKind::RefusedPolicy).with_message("not today")));
    assert_eq!(delivered(answers, sample()).await.unwrap(), json!(["refused_policy", null]));
}

#[tokio::test]
async fn unsolicited_requests_are_answered_by_the_same_rules() {
    let answers: Arc<dyn ClientHandler> = Arc::new(accepting(json!({})));
    let fields = json!({"a": {"type": "string", "default": "x"}});
    let filled = answer_to(&answers, form(fields)).await.unwrap();
    assert_eq!(filled, r#"{"action":"accept","content":{"a":"x"}}"#);
    assert!(
        answer_to(&answers, ClientRequest::Roots).await.unwrap_err().kind.is_method_not_found()
    );
    let error = answer_to(&answers, page()).await.unwrap_err();
    assert!(error.kind.is_missing_client_capability());
}

#[tokio::test]
async fn a_panic_in_elicitation_complete_does_not_propagate() {
    let transport = FakeTransport::default().transport();
    let _caller = answering(
        &transport,
        ClientHandlerBuilder::new().on_elicitation_complete(|_| panic!("oh")),
    );
    transport.notify(wharf_model::Notification::ElicitationComplete { id: "e-1".into() });
}

#[tokio::test]
async fn completed_elicitations_are_reported_once() {
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let answers = ClientHandlerBuilder::new().on_elicitation_complete(move |id| {
        assert_eq!(id, "e-1");
        count.fetch_add(1, Ordering::SeqCst);
    });
    let transport = FakeTransport::default().transport();
    let _caller = answering(&transport, answers);
    for _ in 0..2 {
        transport.notify(wharf_model::Notification::ElicitationComplete { id: "e-1".into() });
    }
    assert_eq!(told.load(Ordering::SeqCst), 1);
}
