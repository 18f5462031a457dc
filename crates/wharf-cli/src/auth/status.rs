//! `wharf auth status`.

use serde_json::{Value, json};
use wharf::auth::client::{FileTokenStore, Login, LoginKey, TokenStore};

use super::{args::Status, server_of, store_location, token_store};
use crate::auth::relative_time::{from_now, now};
use crate::error::CliError;
use crate::{
    context::Context,
    terminal::{Paint, clean_line, table},
};

impl Status {
    pub(super) async fn run(&self, context: &Context) -> Result<(), CliError> {
        let token_store = token_store()?;
        let Some(word) = &self.target else { return all(context, &token_store).await };
        let server = server_of(word)?;
        let logins = logins(&token_store, |key| key.server == server).await?;
        if logins.is_empty() {
            let hint = format!("`wharf auth login {word}` logs you in.");
            let message = format!("You are not logged in at {server}");
            return Err(CliError::unauthorized(message).hint(hint));
        }
        show(context, &token_store, &logins)
    }
}

/// Lists the logins that match `wanted`.
pub(super) async fn logins(
    token_store: &FileTokenStore,
    wanted: impl Fn(&LoginKey) -> bool,
) -> Result<Vec<Login>, CliError> {
    let mut logins = Vec::new();
    for key in token_store.list().await?.into_iter().filter(|key| wanted(key)) {
        logins.extend(token_store.load(&key).await?);
    }
    // Records without tokens hold only server metadata and are not shown.
    logins.retain(|login| login.tokens.is_some());
    Ok(logins)
}

async fn all(context: &Context, token_store: &FileTokenStore) -> Result<(), CliError> {
    let logins = logins(token_store, |_| true).await?;
    let out = context.out;
    if out.is_json() {
        let logins: Vec<Value> = logins.iter().map(json).collect();
        return out.json(&json!({"logins": logins, "token_store": store_location(token_store)}));
    }
    if logins.is_empty() {
        context
            .screen
            .line("You are not logged in anywhere. `wharf auth login TARGET` logs you in.");
        return Ok(());
    }
    let now = now();
    let row = |login: &Login| {
        let key = &login.key;
        let text = |text: &str| clean_line(text).into_owned();
        vec![text(&key.server), text(&key.issuer), text(&scopes(login)), expires(login, now)]
    };
    let rows: Vec<Vec<String>> = logins.iter().map(row).collect();
    let head = ["SERVER", "ISSUER", "SCOPES", "EXPIRES"];
    out.lines(&table(&head, &rows, out.columns(), out.paint()))?;
    context.note(&format!("Stored in {}.", place(token_store)));
    Ok(())
}

/// Shows the logins for one server.
pub(super) fn show(
    context: &Context,
    token_store: &FileTokenStore,
    logins: &[Login],
) -> Result<(), CliError> {
    let out = context.out;
    if out.is_json() {
        let logins: Vec<Value> = logins.iter().map(json).collect();
        return out.json(&json!({"logins": logins, "token_store": store_location(token_store)}));
    }
    let lines: Vec<String> =
        logins.iter().flat_map(|login| lines(login, token_store, out.paint())).collect();
    out.lines(&lines)
}

fn lines(login: &Login, token_store: &FileTokenStore, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let mut row = |name: &str, text: &str| {
        if !text.is_empty() {
            lines.push(format!("{} {}", paint.cyan(&format!("{name:<8}")), clean_line(text)));
        }
    };
    row("server", &login.key.server);
    row("issuer", &login.key.issuer);
    row("client", login.registration.as_ref().map_or("", |it| &it.client_id));
    row("scopes", &scopes(login));
    row("expires", &expires(login, now()));
    row("stored", &place(token_store));
    lines
}

/// Granted scopes, or the requested ones if the issuer omits them.
fn scopes(login: &Login) -> String {
    let granted = login.tokens.as_ref().and_then(|tokens| tokens.scope.clone());
    granted.unwrap_or_else(|| login.asked.join(" "))
}

/// Expiry of the tokens, and its consequence.
fn expires(login: &Login, now: u64) -> String {
    let Some(tokens) = &login.tokens else { return String::new() };
    let renewed = tokens.refresh.is_some() || login.grant.is_some();
    match (tokens.expires_at, renewed) {
        (Some(at), true) => format!("{}, then renewed", from_now(at, now)),
        (Some(at), false) => from_now(at, now),
        (None, _) => "unknown".to_owned(),
    }
}

fn place(token_store: &FileTokenStore) -> String {
    let sealed = if token_store.is_encrypted() {
        "encrypted with a key in the keychain"
    } else {
        "readable only by you"
    };
    format!("{} ({sealed})", token_store.path().display())
}

/// Login as JSON, without its tokens.
fn json(login: &Login) -> Value {
    let mut shown = json!({"server": login.key.server, "issuer": login.key.issuer});
    if let Some(registration) = &login.registration {
        shown["clientId"] = registration.client_id.as_str().into();
    }
    shown["scopes"] = scopes(login).split_whitespace().collect();
    if let Some(tokens) = &login.tokens {
        shown["expiresAt"] = tokens.expires_at.into();
        shown["expired"] = tokens.expires_at.is_some_and(|at| at <= now()).into();
        shown["renewed"] = (tokens.refresh.is_some() || login.grant.is_some()).into();
        shown["bound"] = tokens.bound.into();
    }
    shown
}
