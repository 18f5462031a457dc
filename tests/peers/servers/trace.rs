//! Last messages on the wire, printed for a failed check.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use wharf::client::TraceEvent;

const LINES: usize = 60;
/// Maximum length of a printed message.
const WIDTH: usize = 600;

#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<VecDeque<String>>>);

impl Trace {
    pub(crate) fn see(&self, traced: &TraceEvent<'_>) {
        let line = match traced {
            TraceEvent::Sent(message) => format!("-> {}", shown(message)),
            TraceEvent::Received(message) => format!("<- {}", shown(message)),
            TraceEvent::Note(note) => format!("   {note}"),
            _ => return,
        };
        let mut lines = self.0.lock().unwrap();
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Prints and removes the recorded messages.
    pub(crate) fn print(&self) {
        self.0.lock().unwrap().drain(..).for_each(|line| println!("{line}"));
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

fn shown(message: &[u8]) -> String {
    String::from_utf8_lossy(&message[..message.len().min(WIDTH)]).into_owned()
}
