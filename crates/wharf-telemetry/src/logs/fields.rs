//! Fields of an event or a span.

use std::{error::Error, fmt};

use tracing::field::{Field, Visit};
use wharf_model::CurrentTrace;

/// Fields by name, in the order in which they were recorded. A field that is recorded again is replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct LogFields(Vec<(&'static str, FieldValue)>);

#[derive(Clone, Debug)]
pub(super) struct FieldValue {
    pub(super) text: String,
    /// True for a number or a Boolean value, whose text is JSON.
    pub(super) is_literal: bool,
}

/// Name of the field that `tracing` stores the message of an event in.
const MESSAGE: &str = "message";

impl LogFields {
    pub(super) fn message(text: &str) -> Self {
        LogFields(vec![(MESSAGE, FieldValue { text: text.to_owned(), is_literal: false })])
    }

    pub(super) fn get(&self, name: &str) -> Option<&FieldValue> {
        self.0.iter().find(|field| field.0 == name).map(|field| &field.1)
    }

    /// Returns the message, and the fields besides it.
    pub(super) fn split_message(
        &self,
    ) -> (&str, impl Iterator<Item = (&'static str, &FieldValue)> + Clone) {
        let message = self.get(MESSAGE).map_or("", |message| &message.text);
        (message, self.0.iter().filter(|it| it.0 != MESSAGE).map(|(name, value)| (*name, value)))
    }

    pub(super) fn add_all(&mut self, outer: &LogFields) {
        outer.0.iter().for_each(|(name, value)| self.set(name, value.clone()));
    }

    /// Adds the ids of the call within which the event happened, unless the event has ids of its own.
    pub(super) fn add_trace(&mut self, trace: CurrentTrace) {
        let (CurrentTrace::Context(trace), None) = (trace, self.get("trace_id")) else { return };
        let text = |text| FieldValue { text, is_literal: false };
        self.set("trace_id", text(format!("{:032x}", trace.trace_id())));
        self.set("span_id", text(format!("{:016x}", trace.span_id())));
    }

    fn set(&mut self, name: &'static str, value: FieldValue) {
        // These are instructions for an exporter of spans.
        if name.starts_with("otel.") {
            return;
        }
        match self.0.iter_mut().find(|field| field.0 == name) {
            Some(field) => field.1 = value,
            None => self.0.push((name, value)),
        }
    }

    fn literal(&mut self, field: &Field, value: impl fmt::Display) {
        self.set(field.name(), FieldValue { text: value.to_string(), is_literal: true });
    }

    fn text(&mut self, field: &Field, text: String) {
        self.set(field.name(), FieldValue { text, is_literal: false });
    }
}

impl Visit for LogFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        self.text(field, text);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.literal(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.literal(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.literal(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no other numbers.
        match value.is_finite() {
            true => self.literal(field, value),
            false => self.text(field, value.to_string()),
        }
    }
}
