//! `wharf inspect --card`: server cards, compared with what the server says.

mod discover;

use serde::Serialize;
use url::Url;
use wharf::{
    Client,
    auth::fetch::Fetch,
    client::Target,
    server_card::{CardDifference, CardRemote, ServerCard},
};

use crate::{
    commands::card::discover::{FoundCard, discover},
    context::Context,
    error::CliError,
    terminal::{Paint, clean, clean_line, labelled},
};

/// JSON output of `wharf inspect --card`.
#[derive(Serialize)]
struct CardsReport<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    catalog: Option<&'a str>,
    cards: &'a [CardReport],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    problems: &'a [String],
}

/// One card in the output.
#[derive(Serialize)]
struct CardReport {
    url: String,
    card: ServerCard,
    /// Violations of the specification.
    problems: Vec<String>,
    /// Server that the card was compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<String>,
    differences: Vec<CardDifference>,
    /// Reason why the card was not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip)]
    is_at_named_origin: bool,
}

/// Width of the labels.
const LABEL_WIDTH: usize = 14;

/// Runs `wharf inspect --card WORD`: with `target` if the user names a server, else with the server of the card.
pub(super) async fn inspect_card(
    word: &str,
    target: Option<Target>,
    context: &Context,
) -> Result<(), CliError> {
    let fetch = match context.shared.allow_private {
        true => Fetch::new().allow_private(),
        false => Fetch::new(),
    };
    let fetch = context.shared.connection.apply_to_fetch(fetch)?;
    let found = discover(word, &fetch).await?;
    let mut reports: Vec<CardReport> = found.cards.into_iter().map(CardReport::of).collect();
    // The card is printed even if its server cannot be reached.
    let compared = compare(&mut reports, target, context).await;
    let out = context.out;
    if out.is_json() {
        let catalog = found.catalog.as_deref();
        out.json(&CardsReport { catalog, cards: &reports, problems: &found.problems })?;
    } else {
        let (columns, paint) = (out.columns(), out.paint());
        let row =
            |name: &str, text: &str| labelled(name, &clean(text), LABEL_WIDTH, columns, paint);
        let mut lines: Vec<String> =
            found.catalog.iter().flat_map(|it| row("Catalog", it)).collect();
        lines.extend(found.problems.iter().flat_map(|it| row("Problem", it)));
        for report in &reports {
            lines.extend(report.lines(columns, paint));
        }
        out.lines(&lines)?;
    }
    compared?;
    let problems = reports.iter().map(|it| it.problems.len()).sum::<usize>() + found.problems.len();
    let differences: usize = reports.iter().map(|it| it.differences.len()).sum();
    match (problems, differences) {
        (0, 0) => Ok(()),
        (0, count) => {
            Err(CliError::card(format!("The card differs from the server in {count} values"))
                .hint("The server is right: correct its card.".to_owned()))
        }
        (count, _) => Err(CliError::card(format!("The card or catalog has {count} problems"))),
    }
}

/// Compares one card with its server: that of `target`, or the endpoint of a card at the card's own origin.
async fn compare(
    reports: &mut [CardReport],
    target: Option<Target>,
    context: &Context,
) -> Result<(), CliError> {
    let named = target.as_ref().map(ToString::to_string);
    let secrets = !context.shared.header.is_empty() || context.shared.connection.is_set();
    let choice = match &named {
        Some(name) => {
            let is_named = |it: &CardReport| it.card.remotes.iter().any(|it| it.url == *name);
            let position = reports.iter().position(is_named).unwrap_or_default();
            Some((position, name.clone()))
        }
        None => {
            reports.iter().enumerate().find_map(|(at, it)| Some((at, it.own_endpoint(secrets)?)))
        }
    };
    let compared = choice.as_ref().map(|it| it.0);
    for (_, report) in reports.iter_mut().enumerate().filter(|(at, _)| Some(*at) != compared) {
        report.note = Some(match compared {
            Some(_) => {
                "another card was compared; name the endpoint to compare this one".to_owned()
            }
            None => report.not_comparable(),
        });
    }
    if let Some((report, endpoint)) = choice.and_then(|(at, url)| Some((reports.get_mut(at)?, url)))
    {
        let client = context.connect(target.unwrap_or_else(|| endpoint.as_str().into())).await?;
        report.compare_with(client, endpoint);
    }
    Ok(())
}

impl CardReport {
    fn of(found: FoundCard) -> CardReport {
        let FoundCard { url, card, is_at_named_origin } = found;
        CardReport {
            url: url.into(),
            problems: card.problems(),
            card,
            compared: None,
            differences: Vec::new(),
            note: None,
            is_at_named_origin,
        }
    }

    /// URL of the endpoint that is compared unless the user names another: one at the origin of the card, whose address was
    /// checked when the card was read (SSRF). Headers and certificates of the command line go only to an origin that the
    /// user named.
    fn own_endpoint(&self, sends_secrets: bool) -> Option<String> {
        if sends_secrets && !self.is_at_named_origin {
            return None;
        }
        let origin = Url::parse(&self.url).ok()?.origin();
        let is_own = |remote: &&CardRemote| {
            let url = Url::parse(&remote.url);
            !remote.needs_input() && url.is_ok_and(|url| url.origin() == origin)
        };
        let http = |it: &&CardRemote| it.transport == "streamable-http";
        self.card.remotes.iter().filter(http).find(is_own).map(|it| it.url.clone())
    }

    fn not_comparable(&self) -> String {
        match self.card.remotes.first() {
            Some(remote) => format!(
                "the endpoint {} is at another origin or needs values: compare with \
                 `wharf inspect --card {} TARGET`",
                remote.url, self.url
            ),
            None => "the card has no endpoint".to_owned(),
        }
    }

    fn compare_with(&mut self, client: &Client, endpoint: String) {
        let about = client.about();
        let remote = self.card.remotes.iter().find(|it| it.url == endpoint);
        let remote = remote.or(self.card.remotes.first());
        self.differences = self.card.differences(&about.info, &about.supported, remote);
        self.compared = Some(endpoint);
    }

    fn lines(&self, columns: usize, paint: Paint) -> Vec<String> {
        let card = &self.card;
        let name = clean_line(&card.name);
        let title = clean_line(card.title.as_deref().unwrap_or_default()).into_owned();
        let heading = format!("{} {}  {title}", paint.bold(&name), clean_line(&card.version));
        let mut lines = vec![heading.trim_end().to_owned()];
        let mut row = |name: &str, text: &str| {
            lines.extend(labelled(name, &clean(text), LABEL_WIDTH, columns, paint));
        };
        row("Card", &self.url);
        row("Description", &card.description);
        card.website_url.iter().for_each(|url| row("Website", url));
        card.repository.iter().for_each(|it| row("Repository", &it.url));
        for remote in &card.remotes {
            let versions = remote.supported_protocol_versions.join(", ");
            let versions = if versions.is_empty() { versions } else { format!(" ({versions})") };
            row("Endpoint", &format!("{} {}{versions}", remote.transport, remote.url));
        }
        self.problems.iter().for_each(|it| row("Problem", it));
        for CardDifference { field, card, server, .. } in &self.differences {
            row("Difference", &format!("{field}: card says {card:?}, server says {server:?}"));
        }
        match (&self.compared, &self.note) {
            (Some(server), _) if self.differences.is_empty() => {
                row("Compared", &format!("the same as at {server}"));
            }
            (Some(server), _) => row("Compared", server),
            (None, Some(note)) => row("Compared", &format!("no: {note}")),
            (None, None) => {}
        }
        lines
    }
}
