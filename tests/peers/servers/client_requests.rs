//! Records server requests and answers them.

use std::sync::{Arc, Mutex};

use wharf::{
    client::ClientHandlerBuilder,
    model::{ElicitResult, Root, SamplingResult},
};

/// Recorded server requests, and the response to the next form.
#[derive(Default)]
pub(crate) struct RecordedRequests {
    next: Mutex<Option<ElicitResult>>,
    questions: Mutex<Vec<String>>,
}

impl RecordedRequests {
    /// Response to forms.
    pub(crate) fn answer_with(&self, answer: ElicitResult) {
        *self.next.lock().unwrap() = Some(answer);
    }

    /// Last server request.
    pub(crate) fn last(&self) -> String {
        self.questions.lock().unwrap().last().cloned().unwrap_or_default()
    }

    fn record(&self, question: String) {
        self.questions.lock().unwrap().push(question);
    }

    pub(crate) fn answers(self: &Arc<Self>) -> ClientHandlerBuilder {
        let [form, page, sample] = [self.clone(), self.clone(), self.clone()];
        ClientHandlerBuilder::new()
            .elicit(move |it| {
                form.record(it.message);
                let answer = form.next.lock().unwrap().clone();
                async move { Ok(answer.unwrap_or(ElicitResult::cancel())) }
            })
            .elicit_url(move |it| {
                page.record(it.url);
                async { Ok(ElicitResult::accept_url()) }
            })
            .sample(move |it| {
                sample.record(serde_json::to_string(&it.messages).unwrap());
                async { Ok(SamplingResult::new("none", "The sea, the sea.")) }
            })
            .fixed_roots([Root::new("file:///work/one"), Root::new("file:///work/two")])
    }
}
