//! `wharf auth login`.

use serde_json::json;
use wharf::auth::client::{Auth, FileTokenStore, Login as Kept, TokenStore, server_key};

use super::{
    args::{Grant, Login},
    fetch, secret,
    status::{logins, show},
    token_store, url_of, wants_keychain,
};
use crate::auth::interactive::{LoginConsent, TerminalUser, browser, with_paste};
use crate::error::CliError;
use crate::{
    context::Context,
    terminal::{clean_url, is_interactive},
};

/// Grant of a login that a program obtained without a user.
pub(super) const AS_PROGRAM: &str = "client_credentials";

/// Client credentials from the command line.
struct ClientCredentials {
    id: String,
    secret: Option<String>,
}

impl Login {
    pub(super) async fn run(&self, context: &Context) -> Result<(), CliError> {
        let url = url_of(&self.target)?;
        let server = server_key(&url)?;
        let client = self.client()?;
        let token_store = token_store()?;
        let before = logins(&token_store, |key| key.server == server).await?;
        let auth =
            self.auth(context, client.as_ref())?.name("Wharf").token_store(token_store.clone());
        let auth = auth.fetch(fetch(context, self.allow_private, &before)?);
        let auth = match self.scopes() {
            scopes if scopes.is_empty() => auth,
            scopes => auth.scopes(scopes),
        };
        let auth = match &self.issuer {
            Some(issuer) => auth.issuer(issuer),
            None if is_interactive() => with_issuer_prompt(auth, context, &server),
            None => auth,
        };
        let login = match before.is_empty() {
            true => first_login(context, &url, &auth, &token_store).await?,
            false => auth.login(&url).await?,
        };
        let login = self.with_client_and_grant(login, client, &token_store).await?;
        show(context, &token_store, &[login])?;
        if wants_keychain() && !token_store.is_encrypted() {
            context
                .note("No system keychain is available: the login is stored unencrypted in a file that only you can read.");
        }
        Ok(())
    }

    /// Scopes of all options; each option may contain several.
    fn scopes(&self) -> Vec<String> {
        self.scope.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect()
    }

    fn client(&self) -> Result<Option<ClientCredentials>, CliError> {
        let secret = self.client_secret.as_deref();
        let secret = secret.map(|place| secret::read("--client-secret", place)).transpose()?;
        Ok(self.client_id.clone().map(|id| ClientCredentials { id, secret }))
    }

    fn auth(
        &self,
        context: &Context,
        client: Option<&ClientCredentials>,
    ) -> Result<Auth, CliError> {
        if self.grant == Grant::ClientCredentials {
            return match client {
                Some(ClientCredentials { id, secret: Some(secret) }) => {
                    Ok(Auth::client_credentials(id, secret))
                }
                _ => Err(CliError::usage("--grant client-credentials needs an id and a secret")
                    .hint("Give --client-id ID and --client-secret FILE.".to_owned())),
            };
        }
        let mut browser = browser(&context.screen);
        if let Some(port) = self.port {
            browser = browser.port(port);
        }
        if self.no_browser {
            browser = browser.by_hand();
        }
        if is_interactive() {
            browser = with_paste(browser, &context.questions, true);
        }
        let auth = Auth::code(TerminalUser::new(browser, LoginConsent::Given));
        Ok(match client {
            Some(ClientCredentials { id, secret: Some(secret) }) => auth.client_secret(id, secret),
            Some(ClientCredentials { id, secret: None }) => auth.client(id),
            None => auth,
        })
    }

    /// Stores the client credentials, if given, and the grant: the next process needs them to renew
    /// the login.
    async fn with_client_and_grant(
        &self,
        mut login: Kept,
        client: Option<ClientCredentials>,
        token_store: &FileTokenStore,
    ) -> Result<Kept, CliError> {
        let before = login.clone();
        if let Some(ClientCredentials { id, secret }) = client {
            let back = self.port.map(|port| format!("http://127.0.0.1:{port}/callback"));
            let said = json!({"client_id": id, "client_secret": secret, "redirect_uri": back});
            login.registration = serde_json::from_value(said).ok();
        }
        login.grant = (self.grant == Grant::ClientCredentials).then(|| AS_PROGRAM.to_owned());
        if login != before {
            token_store.save(&login).await?;
        }
        Ok(login)
    }
}

/// Requires consent before a secret is sent to an authorization server that only the MCP server
/// names.
fn with_issuer_prompt(auth: Auth, context: &Context, server: &str) -> Auth {
    let (questions, server) = (context.questions.clone(), clean_url(server).into_owned());
    auth.confirm_issuer(move |issuer| {
        let question = format!(
            "{server} says that its authorization server is {}. Send it your client secret?",
            clean_url(&issuer)
        );
        let questions = questions.clone();
        async move { matches!(questions.agree(question).await, Ok(true)) }
    })
}

/// First login. Sends a request so that the server returns its authorization challenge; a server
/// that accepts it without a login returns none.
async fn first_login(
    context: &Context,
    url: &str,
    auth: &Auth,
    token_store: &FileTokenStore,
) -> Result<Kept, CliError> {
    let server = server_key(url)?;
    let tried = context.probe(url, auth).await;
    let mut found = logins(token_store, |key| key.server == server).await?;
    match (found.pop(), tried) {
        (Some(login), _) => Ok(login),
        (None, Ok(())) => auth.login(url).await.map_err(|error| {
            let message = format!("{server} accepts requests without a login");
            CliError::unauthorized(message)
                .hint(format!("It does not support one either: {}", error.message))
        }),
        (None, Err(fail)) => Err(fail),
    }
}
