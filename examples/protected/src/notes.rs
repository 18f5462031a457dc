//! Store of notes, and its tools.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use wharf::prelude::*;

/// Note with its author.
#[derive(Clone)]
struct Note {
    author: String,
    text: String,
}

/// All notes; clones share them.
#[derive(Clone)]
pub(crate) struct Notes(Arc<Mutex<BTreeMap<String, Note>>>);

impl Default for Notes {
    fn default() -> Self {
        let note = Note { author: "the harbour".to_owned(), text: "Low water at noon.".to_owned() };
        Notes(Arc::new(Mutex::new(BTreeMap::from([("tide".to_owned(), note)]))))
    }
}

impl Notes {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<String, Note>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Lists the notes by name. Requires authentication, but no scope.
#[tool(cheap)]
pub(crate) fn list_notes(State(notes): State<Notes>) -> String {
    notes.with(|notes| notes.keys().cloned().collect::<Vec<_>>().join("\n"))
}

/// Reads a note.
#[tool(cheap, scope = "notes:read")]
pub(crate) fn read_note(name: String, State(notes): State<Notes>) -> Result<String, ToolError> {
    let note = notes.with(|notes| notes.get(&name).cloned());
    let Note { author, text } =
        note.ok_or_else(|| ToolError::new(format!("There is no {name}.")))?;
    Ok(format!("{text} ({author})"))
}

/// Writes a note. Without the scope `notes:write`, the client receives a challenge that requests it.
#[tool(cheap, scope = "notes:write")]
pub(crate) fn write_note(
    name: String,
    text: String,
    author: Principal,
    State(notes): State<Notes>,
) -> String {
    let said = format!("{} wrote {name}", author.id());
    let note = Note { author: author.id().to_owned(), text };
    notes.with(|notes| notes.insert(name, note));
    said
}
