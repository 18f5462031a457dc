//! Server requests and their responses.

use serde_json::json;
use wharf::{
    ErrorKind, args,
    client::ClientHandlerBuilder,
    model::{Body, ElicitResult},
};

use crate::harness::{Harness, answers, in_time};

pub async fn a_form_is_filled_in(harness: Harness) {
    let client = harness.client().await;
    let said: String = in_time(client.call_as("confirm", args! { what: "go" })).await.unwrap();
    assert_eq!(said, "confirmed: true");
}

pub async fn a_form_may_be_declined(harness: Harness) {
    for (answer, expected) in
        [(ElicitResult::decline(), "declined"), (ElicitResult::cancel(), "cancelled")]
    {
        let answers = ClientHandlerBuilder::new().elicit(move |form| {
            let answer = answer.clone();
            assert_eq!(form.message, "Really go?");
            async move { Ok(answer) }
        });
        let client = harness.connect(harness.builder().handler(answers)).await;
        let said: String = in_time(client.call_as("confirm", args! { what: "go" })).await.unwrap();
        assert_eq!(said, expected);
    }
}

pub async fn two_questions_at_once_are_answered(harness: Harness) {
    let client = harness.client().await;
    let said: String = in_time(client.call_as("both", ())).await.unwrap();
    assert_eq!(said, "true 2");
}

pub async fn an_effect_happens_once_however_many_rounds(harness: Harness) {
    let client = harness.client().await;
    assert_eq!(in_time(client.call_as::<u64>("effect", ())).await.unwrap(), 1);
    assert_eq!(in_time(client.call_as::<u64>("effect", ())).await.unwrap(), 2);
}

pub async fn resources_and_prompts_may_ask(harness: Harness) {
    let client = harness.client().await;
    let read = in_time(client.read("test://secret")).await.unwrap();
    assert!(matches!(&read.contents[0].body, Body::Text(text) if **text == *"secret: true"));
    let prompt = in_time(client.prompt("interview", ())).await.unwrap();
    assert!(format!("{prompt:?}").contains("ready: true"));
}

pub async fn a_page_is_visited(harness: Harness) {
    let client = harness.client().await;
    let said: String = in_time(client.call_as("sign_in", ())).await.unwrap();
    assert_eq!(said, "signed in");
}

pub async fn a_model_is_asked(harness: Harness) {
    let client = harness.client().await;
    let said: String = in_time(client.call_as("poem", args! { topic: "ships" })).await.unwrap();
    assert_eq!(said, "a line after 1");
}

pub async fn roots_are_listed(harness: Harness) {
    let client = harness.client().await;
    let said: String = in_time(client.call_as("workspace", ())).await.unwrap();
    assert_eq!(said, "file:///work file:///play");
}

pub async fn no_consent_prompt_without_a_terminal(harness: Harness) {
    let client = harness.connect(harness.builder()).await;
    let called = in_time(client.call("confirm", args! { what: "go" })).await;
    assert!(called.is_err() || called.is_ok_and(|result| result.is_error));
}

pub async fn an_answer_that_does_not_fit_its_form_fails_the_call(harness: Harness) {
    let wrong = answers().elicit(|_| async { Ok(ElicitResult::accept(json!({"confirmed": 7}))) });
    let client = harness.connect(harness.builder().handler(wrong)).await;
    let called = in_time(client.call("confirm", args! { what: "go" })).await;
    let told = match called {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidParams);
            error.message().to_owned()
        }
        Ok(result) => {
            assert!(result.is_error);
            format!("{result:?}")
        }
    };
    assert!(told.contains("confirmed"), "{told}");
}
