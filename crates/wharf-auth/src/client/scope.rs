//! Which scopes to ask for.

/// Gives tokens that outlive the person's presence, where an issuer knows the word.
const OFFLINE_ACCESS: &str = "offline_access";
/// How many scopes are asked for at most, whatever a server names.
const MAX_SCOPES: usize = 200;

/// The scopes in a text, each once, in their order.
pub(super) fn parse(text: &str) -> Vec<String> {
    union([text.split_ascii_whitespace().map(str::to_owned).collect()])
}

/// All scopes of all lists, each once, in their order.
pub(super) fn union(lists: impl IntoIterator<Item = Vec<String>>) -> Vec<String> {
    let mut all = Vec::new();
    for scope in lists.into_iter().flatten().filter(|it| is_scope(it)) {
        if !all.contains(&scope) && all.len() < MAX_SCOPES {
            all.push(scope);
        }
    }
    all
}

/// Whether it is a scope as RFC 6749 writes one.
fn is_scope(scope: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    !scope.is_empty() && scope.len() <= 1024 && scope.bytes().all(allowed)
}

/// What is known before a choice.
pub(super) struct ScopeInputs<'a> {
    /// What the user wants.
    pub(super) configured: Option<&'a [String]>,
    /// What the refused request needs.
    pub(super) required: Option<&'a [String]>,
    /// What was asked for before, of the same issuer.
    pub(super) asked: &'a [String],
    /// What the server has.
    pub(super) supported: Option<&'a [String]>,
    /// What the issuer has.
    pub(super) issuer_supported: Option<&'a [String]>,
    /// Whether there is a person who may go away.
    pub(super) for_user: bool,
}

/// The scopes to ask for; none if the issuer shall choose.
pub(super) fn select(inputs: &ScopeInputs<'_>) -> Vec<String> {
    let list = |scopes: Option<&[String]>| scopes.unwrap_or_default().to_vec();
    let needed = match (inputs.required, inputs.asked) {
        // What the user wished is as good as what a server has in general.
        (None, []) if inputs.configured.is_some() => Vec::new(),
        (None, []) => list(inputs.supported),
        (required, asked) => union([asked.to_vec(), list(required)]),
    };
    let requests_offline_access = inputs.issuer_supported.unwrap_or_default().iter().any(|it| it == OFFLINE_ACCESS);
    let needed = needed.into_iter().filter(|it| it != OFFLINE_ACCESS || requests_offline_access).collect();
    let mut chosen = union([list(inputs.configured), needed]);
    // Alone, it would stand for no scope at all instead of those an issuer gives by itself.
    if inputs.for_user && requests_offline_access && !chosen.is_empty() {
        chosen = union([chosen, vec![OFFLINE_ACCESS.to_owned()]]);
    }
    chosen
}

/// Whether a person has to be asked again for what outlives their presence.
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
    fn scopes_are_chosen_as_specified() {
        // Wished, demanded, asked, supported, issued: what is asked for.
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
                [configured, required, supported, issuer_supported].map(|it: Option<&str>| it.map(texts));
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
    fn what_is_no_scope_is_not_asked_for() {
        assert_eq!(parse("a  a b\"c \u{7f} d\\ e\u{e9} f"), ["a", "f"]);
        let many = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(union([many]).len(), MAX_SCOPES);
    }
}
