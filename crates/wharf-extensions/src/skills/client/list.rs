//! List of a server's skills.

use std::{
    collections::HashSet,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use serde_json::value::RawValue;
use wharf_client::{ClientHandle, RequestList};
use wharf_model::CallError;

use super::ListedSkill;
use crate::skills::format::{LIST_METHOD, SKILLS_EXTENSION};

/// Stream of the skills that a server lists, over all pages. It reads no file, and is empty if the server does not
/// declare the extension. A server may have skills that it does not list: their URIs come from its instructions, for example.
///
/// ```
/// # mod wharf { pub mod skills { pub use wharf_extensions::skills::*; } pub use wharf_client::ClientHandle as Client; }
/// use wharf::skills::SkillList;
///
/// # async fn example(client: wharf::Client) -> Result<(), wharf_model::Error> {
/// let mut skills = SkillList::new(&client); // `client.skills()` in applications
/// while let Some(skill) = skills.next().await {
///     let skill = skill?;
///     println!("{}: {}", skill.name(), skill.description());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a list requests nothing until it is read"]
pub struct SkillList {
    client: ClientHandle,
    /// `None` if the server does not declare the extension.
    entries: Option<RequestList<Box<RawValue>>>,
    seen: HashSet<String>,
}

impl SkillList {
    /// Creates the list of the skills of a server.
    pub fn new(client: &ClientHandle) -> Self {
        let is_declared = client.capabilities().extensions.contains_key(SKILLS_EXTENSION);
        let entries = is_declared.then(|| client.request_list(LIST_METHOD, (), "skills"));
        SkillList { client: client.clone(), entries, seen: HashSet::new() }
    }

    /// Returns the next skill; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<ListedSkill, CallError>> {
        std::future::poll_fn(|cx| self.poll_skill(cx)).await
    }

    /// Reads the whole list.
    ///
    /// # Errors
    /// If a page cannot be read, or the list exceeds a limit of the client.
    pub async fn all(mut self) -> Result<Vec<ListedSkill>, CallError> {
        let mut all = Vec::new();
        while let Some(skill) = self.next().await {
            all.push(skill?);
        }
        Ok(all)
    }

    fn poll_skill(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ListedSkill, CallError>>> {
        let Some(entries) = &mut self.entries else { return Poll::Ready(None) };
        loop {
            let entry = match ready!(Pin::new(&mut *entries).poll_next(cx)) {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            let skill = ListedSkill::read(&self.client, &entry);
            if skill.uri().is_empty() || self.seen.insert(skill.uri().to_owned()) {
                return Poll::Ready(Some(Ok(skill)));
            }
            tracing::warn!(uri = skill.uri(), "ignored a listed skill with a duplicate URI");
        }
    }
}

impl Stream for SkillList {
    type Item = Result<ListedSkill, CallError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_skill(cx)
    }
}
