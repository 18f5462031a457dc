//! Authentication of HTTP requests: runs the authenticator, adds its challenges, and enforces the expiry of
//! credentials.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, Method, Request, header, request::Parts};
use http_body::Body;
use tokio::time::Instant;
use wharf_model::{
    AuthRejection, AuthRequest, Authenticated, Authenticator, Error, RefusalReason, RemoteAddress,
    RequestExtensions,
};
use wharf_wire::HeaderField;

use crate::server::http::{
    HttpBody, cors, host_origin,
    options::AuthConfig,
    request_body::{discard_body, read_body},
    request_checks,
    request_headers::RequestHeaders,
    response,
    response::HttpResponse,
    service::HttpEndpoint,
};
use crate::server::{call_driver::expired, limits::message_memory::MessageCharge};

/// Largest body of a request to an authenticator's page: forms and client metadata.
const MAX_PAGE_BYTES: usize = 64 << 10;
/// Credentials that expire later than this count as unlimited.
const MAX_EXPIRY: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Time at which the credentials of a request expire. Waiting calls and streams end then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuthExpiry(pub(crate) Instant);

impl HttpEndpoint {
    /// Handles a request where an authenticator is configured.
    pub(crate) async fn dispatch_guarded<B: Body>(
        self: &Arc<Self>,
        guarded: &AuthConfig,
        parts: &Parts,
        parsed: &RequestHeaders<'_>,
        body: Pin<&mut B>,
        scope: RequestExtensions,
    ) -> HttpResponse {
        let authority = &guarded.authority;
        if guarded.has_page(parts.uri.path()) {
            return self.auth_page(authority, parts, parsed, body, &scope).await;
        }
        let mut reply = match host_origin::check(&self.http, parts, parsed) {
            Err(refusal) => return discard_body(*refusal, parts, body).await,
            Ok(()) => self.dispatch_authenticated(authority, parts, parsed, body, scope).await,
        };
        cors::expose(&self.http, parsed, &mut reply);
        reply
    }

    /// Handles a request if `authority` accepts its credentials.
    async fn dispatch_authenticated<B: Body>(
        self: &Arc<Self>,
        authority: &Arc<dyn Authenticator>,
        parts: &Parts,
        parsed: &RequestHeaders<'_>,
        body: Pin<&mut B>,
        mut scope: RequestExtensions,
    ) -> HttpResponse {
        // CORS preflight requests have no credentials.
        if let Some(reply) = self.preflight(parts, parsed) {
            return reply;
        }
        let (authenticated, until) = match authenticate(authority, parts, &scope).await {
            Ok(passed) => passed,
            Err(denied) => return discard_body(rejection_response(denied), parts, body).await,
        };
        let Authenticated { principal, headers, extensions, .. } = authenticated;
        scope.extend([extensions]);
        // Replaces a principal that the application has set.
        scope.insert(principal.clone());
        if let Some(until) = until {
            scope.insert(until);
        }
        let mut reply = self.dispatch(parts, parsed, body, scope).await;
        if let Some(error) = reply.extensions_mut().remove::<Error>() {
            let no_extensions = RequestExtensions::new();
            let auth_request =
                AuthRequest::new(&parts.method, &parts.uri, &parts.headers, &no_extensions);
            reply.headers_mut().remove(header::WWW_AUTHENTICATE);
            for challenge in authority.denied(&error, &auth_request, &principal) {
                reply.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
            }
        }
        // A stream opened with GET ends when the credentials expire.
        if let Some(AuthExpiry(until)) = until.filter(|_| parts.method == Method::GET) {
            reply.body_mut().end_at(until);
        }
        add(&headers, &mut reply);
        reply
    }

    /// Handles a request for one of the authenticator's pages, which need no credentials.
    async fn auth_page<B: Body>(
        &self,
        authority: &Arc<dyn Authenticator>,
        parts: &Parts,
        parsed: &RequestHeaders<'_>,
        body: Pin<&mut B>,
        scope: &RequestExtensions,
    ) -> HttpResponse {
        // Reading is allowed from any origin; other requests need the authenticator's own origin or an allowed
        // one (CSRF).
        let reads = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let checked = match reads || is_own(authority, parsed) {
            true => host_origin::check_host(&self.http, parts, parsed).map(drop),
            false => host_origin::check(&self.http, parts, parsed),
        };
        if let Err(refusal) = checked {
            return discard_body(*refusal, parts, body).await;
        }
        if !parsed.is_plain() {
            return discard_body(request_checks::unsupported_encoding(), parts, body).await;
        }
        let mut charge = MessageCharge::empty(&self.budget);
        let body = match read_body(
            body,
            MAX_PAGE_BYTES,
            self.context.http_limits.body,
            &mut charge,
            scope,
        )
        .await
        {
            Ok(body) => body,
            Err(body_error) => return self.body_error(body_error),
        };
        let mut request = Request::new(body);
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = parts.uri.clone();
        *request.headers_mut() = parts.headers.clone();
        if let Some(RemoteAddress(address)) = scope.get() {
            request.extensions_mut().insert(*address);
        }
        let (parts, body) = authority.page(request).await.into_parts();
        let status = parts.status;
        let reply = HttpResponse::from_parts(parts, HttpBody::whole(body));
        match status.is_client_error() || status.is_server_error() {
            true => response::refused(RefusalReason::of_status(status.as_u16()), reply),
            false => reply,
        }
    }
}

/// Returns true if a request comes from a page of the authenticator's own origin.
fn is_own(authority: &Arc<dyn Authenticator>, parsed: &RequestHeaders<'_>) -> bool {
    match (parsed.origin, authority.origin()) {
        (HeaderField::One(origin), Some(own)) => own.as_bytes().eq_ignore_ascii_case(origin),
        _ => false,
    }
}

/// Authenticates a request. Returns the principal and the expiry of the credentials, or a rejection.
async fn authenticate(
    authority: &Arc<dyn Authenticator>,
    parts: &Parts,
    scope: &RequestExtensions,
) -> Result<(Authenticated, Option<AuthExpiry>), AuthRejection> {
    let auth_request = AuthRequest::new(&parts.method, &parts.uri, &parts.headers, scope);
    let authenticated = authority.admit(&auth_request).resolve().await?;
    let left = authenticated
        .until
        .map(|until| until.duration_since(SystemTime::now()).unwrap_or_default());
    match left {
        Some(Duration::ZERO) => {
            let error = expired();
            let denied = AuthRejection::new(401, error.message.clone());
            let challenges = authority.denied(&error, &auth_request, &authenticated.principal);
            Err(challenges.into_iter().fold(denied, AuthRejection::challenge))
        }
        Some(left) if left < MAX_EXPIRY => {
            Ok((authenticated, Some(AuthExpiry(Instant::now() + left))))
        }
        Some(_) | None => Ok((authenticated, None)),
    }
}

fn rejection_response(denied: AuthRejection) -> HttpResponse {
    let mut reply = response::refuse(denied.status, &denied.message);
    add(&denied.headers, &mut reply);
    reply
}

fn add(headers: &HeaderMap, reply: &mut HttpResponse) {
    for (name, value) in headers {
        reply.headers_mut().append(name, value.clone());
    }
}
