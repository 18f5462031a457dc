//! Table of completion functions, by argument.

use std::sync::Arc;

use wharf_model::CompletionRequest;

use crate::handler::{
    Endpoint,
    into_completion::{Completer, CompleterParts},
};

/// Completers of one prompt or template.
#[derive(Default)]
pub(crate) struct CompleterTable(Vec<(String, CompleterParts)>);

impl CompleterTable {
    pub(crate) fn add(&mut self, argument: String, completer: CompleterParts) {
        self.0.push((argument, completer));
    }

    pub(crate) fn add_values(
        &mut self,
        argument: String,
        values: impl IntoIterator<Item: Into<String>>,
    ) {
        let values: Vec<String> = values.into_iter().map(Into::into).collect();
        let complete = move |request: CompletionRequest| request.matching(values.iter().cloned());
        self.add(argument, complete.into_completer());
    }

    pub(crate) fn get(&self, argument: &str) -> Option<&dyn Endpoint> {
        self.0.iter().find(|(name, _)| name == argument).map(|(_, parts)| &*parts.endpoint)
    }

    pub(crate) fn endpoints(&mut self) -> impl Iterator<Item = &mut Arc<dyn Endpoint>> {
        self.0.iter_mut().map(|(_, parts)| &mut parts.endpoint)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, CompleterParts)> {
        self.0.iter()
    }
}
