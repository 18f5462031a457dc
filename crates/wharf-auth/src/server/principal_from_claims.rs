//! Principal of a token: its id, scopes and roles, from the claims.

use std::collections::BTreeSet;

use serde_json::Value;
use wharf_model::Principal;

use crate::jose::Claims;

/// Rules for mapping claims to a principal.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimsMapping {
    /// Scopes that include other scopes.
    pub(crate) implied: Vec<(String, String)>,
    /// Path of the claim with the roles.
    pub(crate) roles: Option<Vec<String>>,
}

impl ClaimsMapping {
    /// Builds the principal of a token. Its id contains the issuer, so that issuers cannot collide. None
    /// without a subject.
    pub(crate) fn principal(&self, issuer: &str, claims: &Claims) -> Option<Principal> {
        let text = |name: &str| claims.text(name).filter(|it| !it.is_empty());
        // An issuer contains neither space nor tab, so the separator is unambiguous.
        let id = match (text("sub"), text("client_id").or(text("azp"))) {
            (Some(subject), _) => format!("{issuer} {subject}"),
            (None, Some(client)) => format!("{issuer}\t{client}"),
            (None, None) => return None,
        };
        let mut principal = Principal::new(id);
        for scope in self.expand_scopes(scopes(claims)) {
            principal = principal.with_scope(scope);
        }
        for role in self.roles(claims) {
            principal = principal.with_role(role);
        }
        Some(principal)
    }

    /// The scopes, with all scopes that they include.
    fn expand_scopes<'a>(&'a self, scopes: Vec<&'a str>) -> BTreeSet<&'a str> {
        let mut all = BTreeSet::new();
        let mut rest = scopes;
        while let Some(scope) = rest.pop() {
            if all.insert(scope) {
                let implied = self.implied.iter().filter(|(broad, _)| broad == scope);
                rest.extend(implied.map(|(_, narrow)| narrow.as_str()));
            }
        }
        all
    }

    fn roles<'a>(&self, claims: &'a Claims) -> Vec<&'a str> {
        let Some((first, rest)) = self.roles.as_deref().and_then(<[_]>::split_first) else {
            return Vec::new();
        };
        let found = rest.iter().try_fold(claims.get(first), |at, name| Some(at?.get(name)));
        match found.flatten() {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

/// Scopes of a token: `scope`, or `scp` as some issuers write it.
fn scopes(claims: &Claims) -> Vec<&str> {
    let words = |text| str::split_ascii_whitespace(text);
    match claims.get("scope") {
        Some(_) => claims.texts("scope").into_iter().flat_map(words).collect(),
        None => claims.texts("scp").into_iter().flat_map(words).collect(),
    }
}
