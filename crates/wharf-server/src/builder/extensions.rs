//! Extensions that parts bring, and what extensions do with the parts.

use std::{collections::BTreeSet, mem};

use crate::{
    builder::{Part, RouterBuilder, server_parts::ServerParts},
    notifications::custom,
    primitives::{
        custom_method::CustomMethod,
        extension::{PrepareParts, ProtocolExtension},
    },
};

impl RouterBuilder {
    /// Lets the extensions check and complete the parts.
    pub(super) fn prepare_parts(&mut self) {
        for (_, prepare) in mem::take(&mut self.prepare) {
            let (parts, problems) = (&mut self.parts, &mut self.problems);
            (prepare.run)(&mut ServerParts { parts, problems });
        }
    }

    /// Adds the extensions that parts bring, each once.
    pub(super) fn add_extensions_of_parts(self) -> Self {
        let brought = self.parts.iter().flat_map(Part::extensions).map(|make| make());
        let mut seen = BTreeSet::new();
        let brought: Vec<_> = brought.filter(|it| seen.insert(it.id.clone())).collect();
        brought.into_iter().fold(self, |this, it| match this.extensions.contains_key(&it.id) {
            true => this.complete_extension(it),
            false => this.extension(it),
        })
    }

    /// Completes an extension that the server added itself by one that a part brings: its settings and methods stay.
    fn complete_extension(mut self, brought: ProtocolExtension) -> Self {
        let ProtocolExtension { id, settings: _, methods, notifications, prepare } = brought;
        let is_new = |it: &PrepareParts| {
            !self.prepare.iter().any(|(known, own)| *known == id && own.function == it.function)
        };
        let prepare = prepare.filter(is_new);
        self.prepare.extend(prepare.map(|it| (id.clone(), it)));
        for name in notifications {
            if self.notifications.get(&name) != Some(&id) {
                custom::declare(&mut self.notifications, name, &id, &mut self.problems);
            }
        }
        let is_own = |method: &CustomMethod| {
            let mut parts = self.parts.iter();
            parts.any(|it| matches!(it, Part::Method(own) if own.name == method.name))
        };
        let missing: Vec<_> = methods.into_iter().filter(|it| !is_own(it)).collect();
        missing.into_iter().fold(self, RouterBuilder::add)
    }
}
