//! What clients said about themselves of late.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use wharf_model::{ClientCapabilities, Introduction};

use crate::{Revision, members::Slot, message::Message, revision::Feature};

/// How many are remembered: servers have many sessions, but of few programs.
const REMEMBERED: usize = 16;

/// What clients said about themselves of late, for as long as one of them is there.
#[derive(Debug, Default)]
pub(crate) struct Introductions(Mutex<VecDeque<Weak<Introduction>>>);

impl Introductions {
    /// The same words, shared with a client that said them before.
    pub(crate) fn share(&self, said: Introduction) -> Arc<Introduction> {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = remembered.iter().filter_map(Weak::upgrade).find(|it| **it == said);
        same.unwrap_or_else(|| {
            let said = Arc::new(said);
            remembered.retain(|it| it.strong_count() > 0);
            remembered.truncate(REMEMBERED - 1);
            remembered.push_front(Arc::downgrade(&said));
            said
        })
    }
}

/// What the client said about itself, as far as its revision has it.
pub(crate) fn introduction(message: &Message, revision: Revision) -> Introduction {
    let info = message.raw(Slot::ClientInfo).and_then(|json| serde_json::from_str(json).ok());
    let declared = message.raw(Slot::Capabilities).and_then(|json| serde_json::from_str(json).ok());
    let mut capabilities: ClientCapabilities = declared.unwrap_or_default();
    if !revision.has(Feature::Elicitation) {
        capabilities.elicitation = None;
    }
    if let Some(elicitation) = &mut capabilities.elicitation
        && !revision.has(Feature::ElicitationModes)
    {
        (elicitation.form, elicitation.url) = (true, false);
    }
    if let Some(sampling) = &mut capabilities.sampling
        && !revision.has(Feature::SamplingTools)
    {
        // There, whoever samples may include context without saying so.
        (sampling.tools, sampling.context) = (false, true);
    }
    Introduction { info, capabilities }
}

#[cfg(test)]
mod tests {
    use wharf_model::Implementation;

    use super::*;

    fn from(name: &str) -> Introduction {
        let info = Some(Implementation::new(name, "1"));
        Introduction { info, capabilities: ClientCapabilities::default() }
    }

    #[test]
    fn equal_words_are_kept_once_and_only_while_somebody_needs_them() {
        let introductions = Introductions::default();
        let first = introductions.share(from("a"));
        assert!(Arc::ptr_eq(&first, &introductions.share(from("a"))));
        assert!(!Arc::ptr_eq(&first, &introductions.share(from("b"))));
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
        let kept: Vec<_> =
            (0..100).map(|number| introductions.share(from(&number.to_string()))).collect();
        assert_eq!(introductions.0.lock().unwrap().len(), REMEMBERED);
        assert!(Arc::ptr_eq(&kept[99], &introductions.share(from("99"))));
    }
}
