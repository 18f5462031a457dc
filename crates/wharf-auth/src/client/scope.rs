//! Selection of the scopes to request.

/// Scope for refresh tokens that outlive the user's session, where the issuer supports it.
const OFFLINE_ACCESS: &str = "offline_access";
/// Limit of requested scopes.
const MAX_SCOPES: usize = 200;

/// Parses a scope string: no duplicates, original order.
pub(super) fn parse(text: &str) -> Vec<String> {
    union([text.split_ascii_whitespace().map(str::to_owned).collect()])
}

/// Merges lists of scopes: no duplicates, original order.
pub(super) fn union(lists: impl IntoIterator<Item = Vec<String>>) -> Vec<String> {
    let mut all = Vec::new();
    for scope in lists.into_iter().flatten().filter(|it| is_scope(it)) {
        if !all.contains(&scope) && all.len() < MAX_SCOPES {
            all.push(scope);
        }
    }
    all
}

/// Returns true for a valid scope token (RFC 6749).
fn is_scope(scope: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !scope.is_empty() && scope.len() <= 1024 && scope.bytes().all(allowed)
}

/// Inputs of the selection.
pub(super) struct ScopeInputs<'a> {
    /// Scopes that the user configured.
    pub(super) configured: Option<&'a [String]>,
    /// Scopes of the challenge.
    pub(super) required: Option<&'a [String]>,
    /// Scopes that were requested from the same issuer before.
    pub(super) asked: &'a [String],
    /// Scopes that the resource publishes.
    pub(super) supported: Option<&'a [String]>,
    /// Scopes that the issuer publishes.
    pub(super) issuer_supported: Option<&'a [String]>,
    /// A user authorizes, and may be absent later.
    pub(super) for_user: bool,
}

/// Selects the scopes to request; an empty list leaves the choice to the issuer.
pub(super) fn select(inputs: &ScopeInputs<'_>) -> Vec<String> {
    let list = |scopes: Option<&[String]>| scopes.unwrap_or_default().to_vec();
    let needed = match (inputs.required, inputs.asked) {
        // Configured scopes replace the published ones.
        (None, []) if inputs.configured.is_some() => Vec::new(),
        (None, []) => list(inputs.supported),
        (required, asked) => union([asked.to_vec(), list(required)]),
    };
    let requests_offline_access =
        inputs.issuer_supported.unwrap_or_default().iter().any(|it| it == OFFLINE_ACCESS);
    let needed =
        needed.into_iter().filter(|it| it != OFFLINE_ACCESS || requests_offline_access).collect();
    let mut chosen = union([list(inputs.configured), needed]);
    // Requested alone, it would replace the issuer's default scopes.
    if inputs.for_user && requests_offline_access && !chosen.is_empty() {
        chosen = union([chosen, vec![OFFLINE_ACCESS.to_owned()]]);
    }
    chosen
}

/// Returns true if the user must be prompted for offline access.
pub(super) fn requests_offline_access(scopes: &[String]) -> bool {
    scopes.iter().any(|it| it == OFFLINE_ACCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        parse(text)
    }

    #[test]
    fn scopes_are_selected_as_specified() {
        // Configured, required, asked, supported, issuer supported: selected.
        let cases = [
            (None, Some("a"), "", Some("x y"), None, "a"),
            (None, None, "", Some("x y"), None, "x y"),
            (None, None, "", None, None, ""),
            (None, Some("w"), "a b", Some("x"), None, "a b w"),
            (Some("m"), None, "", Some("x"), None, "m"),
            (Some("m"), Some("a"), "", Some("x"), None, "m a"),
            (None, Some("a"), "", None, Some("a offline_access"), "a offline_access"),
            (None, None, "", None, Some("offline_access"), ""),
            (None, None, "", Some("x offline_access"), Some("x"), "x"),
            (None, None, "", Some("x offline_access"), None, "x"),
        ];
        for (configured, required, asked, supported, issuer_supported, expected) in cases {
            let [configured, required, supported, issuer_supported] =
                [configured, required, supported, issuer_supported]
                    .map(|it: Option<&str>| it.map(texts));
            let inputs = ScopeInputs {
                configured: configured.as_deref(),
                required: required.as_deref(),
                asked: &texts(asked),
                supported: supported.as_deref(),
                issuer_supported: issuer_supported.as_deref(),
                for_user: true,
            };
            assert_eq!(select(&inputs).join(" "), expected);
        }
    }

    #[test]
    fn invalid_scopes_are_not_requested() {
        assert_eq!(parse("a  a b\"c \u{7f} d\\ e\u{e9} f"), ["a", "f"]);
        let many = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(union([many]).len(), MAX_SCOPES);
    }
}
