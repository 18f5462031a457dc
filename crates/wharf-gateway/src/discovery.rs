//! Capabilities and instructions of the gateway.

use std::{sync::Arc, time::Duration};

use wharf_model::{
    Discovery, ListCapability, Outcome, Reply, ResourcesCapability, ServerCapabilities,
};

use crate::gateway::GatewayState;

/// Time that a client waits for servers that were not tried yet.
const DISCOVERY_WAIT: Duration = Duration::from_millis(100);
/// Maximum length of the instructions of one server, and of all.
const MAX_INSTRUCTIONS: usize = 2 << 10;
const MAX_ALL_INSTRUCTIONS: usize = 8 << 10;

/// Returns the union of what the servers declare. A server that was never reached counts as one with tools, prompts and
/// resources, because a client does not learn of capabilities later.
pub(crate) async fn discover(gateway: Arc<GatewayState>) -> Outcome {
    gateway.settled(DISCOVERY_WAIT).await;
    let mut all = ServerCapabilities::default();
    let mut instructions = String::new();
    for server in &gateway.servers {
        let snapshot = server.state.borrow().snapshot.clone();
        let Some(snapshot) = snapshot else {
            let assumed = ServerCapabilities::default()
                .tools(ListCapability::default())
                .prompts(ListCapability::default())
                .resources(ResourcesCapability::default())
                .completions(true)
                .logging(true);
            add(&mut all, &assumed);
            continue;
        };
        add(&mut all, &snapshot.discovery.capabilities);
        if let Some(text) = &snapshot.discovery.instructions {
            append(&mut instructions, &server.name, text);
        }
    }
    let merged = Some(instructions).filter(|text| !text.is_empty());
    let instructions = gateway.instructions.clone().or(merged);
    let discovery = Discovery::default().capabilities(all).instructions(instructions);
    Reply::Discover(Box::new(discovery)).into()
}

/// Adds capabilities. Change notifications are the gateway's own.
fn add(all: &mut ServerCapabilities, of: &ServerCapabilities) {
    let list = ListCapability::default().list_changed(true);
    if of.tools.is_some() {
        all.tools = Some(list.clone());
    }
    if of.prompts.is_some() {
        all.prompts = Some(list);
    }
    if of.resources.is_some() {
        let resources = ResourcesCapability::default().subscribe(true).list_changed(true);
        all.resources = Some(resources);
    }
    all.completions |= of.completions;
    all.logging |= of.logging;
}

/// Adds the instructions of one server under a heading, cut to the limits.
fn append(all: &mut String, name: &str, text: &str) {
    let heading = format!("{}## {name}\n\n", if all.is_empty() { "" } else { "\n\n" });
    let room = MAX_ALL_INSTRUCTIONS.saturating_sub(all.len() + heading.len());
    let text = cut(text.trim(), MAX_INSTRUCTIONS.min(room));
    if !text.is_empty() {
        all.push_str(&heading);
        all.push_str(text);
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_cut_at_characters() {
        let mut all = String::new();
        for name in ["a", "b", "c", "d", "e"] {
            append(&mut all, name, &"é".repeat(3000));
        }
        assert!(all.len() <= MAX_ALL_INSTRUCTIONS && all.len() > MAX_ALL_INSTRUCTIONS - 2);
        assert!(all.starts_with("## a\n\né"));
        let first = all.split("\n\n## ").next().unwrap_or_default();
        assert_eq!(first.len(), "## a\n\n".len() + MAX_INSTRUCTIONS);
        assert_eq!(all.matches("\n\n## ").count(), 3);
    }
}
