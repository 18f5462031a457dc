//! `wharf auth status`.

use serde_json::{Value, json};
use wharf::auth::client::{FileTokenStore, Login, LoginKey, TokenStore};

use super::{args::Status, kept_at, server_of, vault};
use crate::auth::relative_time::{from_now, now};
use crate::error::Fail;
use crate::{
    context::Context,
    terminal::{Paint, clean_line, table},
};

impl Status {
    pub(super) async fn run(&self, context: &Context) -> Result<(), Fail> {
        let vault = vault()?;
        let Some(word) = &self.target else { return all(context, &vault).await };
        let server = server_of(word)?;
        let logins = logins(&vault, |key| key.server == server).await?;
        if logins.is_empty() {
            let hint = format!("`wharf auth login {word}` logs you in.");
            let message = format!("You are not logged in at {server}");
            return Err(Fail::unauthorized(message).hint(hint));
        }
        show(context, &vault, &logins)
    }
}

/// Lists the logins that match `wanted`.
pub(super) async fn logins(
    vault: &FileTokenStore,
    wanted: impl Fn(&LoginKey) -> bool,
) -> Result<Vec<Login>, Fail> {
    let mut logins = Vec::new();
    for key in vault.list().await?.into_iter().filter(|key| wanted(key)) {
        logins.extend(vault.load(&key).await?);
    }
    // Records without tokens hold only server metadata and are not shown.
    logins.retain(|login| login.tokens.is_some());
    Ok(logins)
}

async fn all(context: &Context, vault: &FileTokenStore) -> Result<(), Fail> {
    let logins = logins(vault, |_| true).await?;
    let out = context.out;
    if out.is_json() {
        let logins: Vec<Value> = logins.iter().map(json).collect();
        return out.json(&json!({"logins": logins, "kept": kept_at(vault)}));
    }
    if logins.is_empty() {
        context.screen.line("You are logged in nowhere. `wharf auth login TARGET` logs you in.");
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
    context.tell(&format!("Kept in {}.", place(vault)));
    Ok(())
}

/// Shows the logins for one server.
pub(super) fn show(
    context: &Context,
    vault: &FileTokenStore,
    logins: &[Login],
) -> Result<(), Fail> {
    let out = context.out;
    if out.is_json() {
        let logins: Vec<Value> = logins.iter().map(json).collect();
        return out.json(&json!({"logins": logins, "kept": kept_at(vault)}));
    }
    let lines: Vec<String> =
        logins.iter().flat_map(|login| lines(login, vault, out.paint())).collect();
    out.lines(&lines)
}

fn lines(login: &Login, vault: &FileTokenStore, paint: Paint) -> Vec<String> {
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
    row("kept", &place(vault));
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

fn place(vault: &FileTokenStore) -> String {
    let sealed =
        if vault.is_sealed() { "sealed by a key in the keychain" } else { "readable only by you" };
    format!("{} ({sealed})", vault.path().display())
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
