//! Server card of a server: its documents beside the endpoint, and the checks when the server is built.

use wharf_extensions::server_card::{
    AiCatalog, CARD_MEDIA_TYPE, CARD_SUFFIX, CATALOG_MEDIA_TYPE, CATALOG_PATH, SCANNER_PATH,
    ServerCard,
};
use wharf_transport::server::http::PublicDocument;
use wharf_wire::ServerProtocol;

use crate::Server;

/// Solution for a card that needs authentication, which nothing does.
const NO_AUTHENTICATOR: &str = "only authenticated requests may read the card, and the server has no authenticator: add \
                                one with `.auth(…)`, or remove `ServerCard::authenticated()`";

/// Solution for a card without an endpoint.
const NO_URL: &str = "the card needs the URL of the endpoint as clients reach it: set it with \
                      `ServerCard::remote(\"https://…\")`, or as the resource of the authenticator";

impl Server {
    /// Serves a [server card](crate::server_card::ServerCard), by which clients find the server: at the path of the
    /// endpoint with `/server-card` after it, and in the catalog of the domain (`/.well-known/ai-catalog.json`). Both
    /// are public, also if the server has an authenticator.
    ///
    /// ```
    /// use wharf::{Server, server_card::ServerCard};
    ///
    /// let card = ServerCard::new("com.example/weather").remote("https://mcp.example.com/mcp");
    /// let server = Server::new("weather", "1.0.2").description("Forecasts for every harbour.").card(card);
    /// server.build()?;
    /// # Ok::<(), wharf::server::BuildError>(())
    /// ```
    pub fn card(mut self, card: impl Into<ServerCard>) -> Self {
        self.card = Some(card.into());
        self
    }

    /// Adds the documents of the card to the HTTP options, and its problems to those of the server.
    pub(super) fn with_card(mut self) -> Self {
        let Some(card) = self.card.take() else { return self };
        let url = self.authority.as_ref().and_then(|authority| authority.resource_url());
        let protocol = ServerProtocol::new(self.about.clone()).eras(self.eras);
        let card = card.complete(&self.about, url.as_deref(), &protocol.supported());
        let mut problems = card.problems();
        if card.remotes.is_empty() {
            problems.push(NO_URL.to_owned());
        }
        if card.needs_authentication() && self.authority.is_none() {
            problems.push(NO_AUTHENTICATOR.to_owned());
        }
        let item = format!("server card {:?}", card.name);
        for problem in problems {
            self = self.routing(|router| router.problem(&*item, problem));
        }
        for document in documents(&card) {
            self.http = self.http.document(document);
        }
        self
    }
}

/// Documents of a card: the card, the catalog, and the card again at the path of scanners.
fn documents(card: &ServerCard) -> impl Iterator<Item = PublicDocument> {
    let (text, catalog) = (card.to_json(), AiCatalog::of(card).to_json());
    let beside = PublicDocument::new(CARD_SUFFIX, CARD_MEDIA_TYPE, text.clone());
    let alias = PublicDocument::new(SCANNER_PATH, CARD_MEDIA_TYPE, text);
    let all = [
        beside.map(PublicDocument::beside_endpoint),
        PublicDocument::new(CATALOG_PATH, CATALOG_MEDIA_TYPE, catalog),
        alias.filter(|_| card.has_scanner_alias()),
    ];
    let needs_authentication = card.needs_authentication();
    all.into_iter().flatten().map(move |it| it.authenticated(needs_authentication))
}
