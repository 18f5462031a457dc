//! Differences between a card and the server that it describes.

use std::collections::BTreeSet;

use serde::Serialize;
use wharf_model::Implementation;

use crate::server_card::{CardRemote, ServerCard};

/// Value of a card that is another at the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CardDifference {
    /// Field of the card.
    pub field: &'static str,
    /// Value in the card.
    pub card: String,
    /// Value at the server.
    pub server: String,
}

impl ServerCard {
    /// Compares the card with what the server says at run time: its identity, and the protocol versions of `remote`. The
    /// server may say less than the card. The names differ by nature: that of the card is in reverse DNS form, so only
    /// its last part is compared.
    ///
    /// ```
    /// # mod wharf {
    /// #     pub mod server_card { pub use wharf_extensions::server_card::*; }
    /// #     pub mod model { pub use wharf_model::*; }
    /// # }
    /// use wharf::{model::Implementation, server_card::ServerCard};
    ///
    /// let card = ServerCard::new("com.example/weather").version("1.0.2");
    /// let differences = card.differences(&Implementation::new("weather", "1.1.0"), &[], None);
    /// assert_eq!((differences.len(), differences[0].field), (1, "version"));
    /// ```
    #[must_use]
    pub fn differences(
        &self,
        server: &Implementation,
        versions: &[String],
        remote: Option<&CardRemote>,
    ) -> Vec<CardDifference> {
        let name = self.name.rsplit('/').next().unwrap_or_default();
        let own_name = if server.name == self.name { &*self.name } else { name };
        let optional = |field, card: &Option<String>, server: &Option<String>| {
            Some((field, card.clone()?, server.clone()?))
        };
        let description = Some(self.description.clone()).filter(|it| !it.is_empty());
        let pairs = [
            Some(("name", own_name.to_owned(), server.name.clone())),
            Some(("version", self.version.clone(), server.version.clone())),
            optional("title", &self.title, &server.title),
            optional("description", &description, &server.description),
            optional("websiteUrl", &self.website_url, &server.website_url),
            remote.and_then(|remote| version_pair(remote, versions)),
        ];
        let pairs = pairs.into_iter().flatten().filter(|(_, card, server)| card != server);
        pairs.map(|(field, card, server)| CardDifference { field, card, server }).collect()
    }
}

/// Protocol versions of an endpoint and of its server, in the same order. None if one of them is not known.
fn version_pair(
    remote: &CardRemote,
    versions: &[String],
) -> Option<(&'static str, String, String)> {
    let join = |versions: &[String]| {
        let sorted: BTreeSet<&str> = versions.iter().map(String::as_str).collect();
        sorted.into_iter().rev().collect::<Vec<_>>().join(", ")
    };
    let known = !remote.supported_protocol_versions.is_empty() && !versions.is_empty();
    known.then(|| {
        let card = join(&remote.supported_protocol_versions);
        ("supportedProtocolVersions", card, join(versions))
    })
}
