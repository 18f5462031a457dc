//! Which scopes to ask for.

/// Gives tokens that outlive the person's presence, where an issuer knows the word.
const OFFLINE: &str = "offline_access";
/// How many scopes are asked for at most, whatever a server names.
const MOST: usize = 200;

/// The scopes in a text, each once, in their order.
pub(super) fn split(text: &str) -> Vec<String> {
    union([text.split_ascii_whitespace().map(str::to_owned).collect()])
}

/// All scopes of all lists, each once, in their order.
pub(super) fn union(lists: impl IntoIterator<Item = Vec<String>>) -> Vec<String> {
    let mut all = Vec::new();
    for scope in lists.into_iter().flatten().filter(|it| is_scope(it)) {
        if !all.contains(&scope) && all.len() < MOST {
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
pub(super) struct Known<'a> {
    /// What the user wants.
    pub(super) wished: Option<&'a [String]>,
    /// What the refused request needs.
    pub(super) demanded: Option<&'a [String]>,
    /// What was asked for before, of the same issuer.
    pub(super) asked: &'a [String],
    /// What the server has.
    pub(super) supported: Option<&'a [String]>,
    /// What the issuer has.
    pub(super) issued: Option<&'a [String]>,
    /// Whether there is a person who may go away.
    pub(super) for_person: bool,
}

/// The scopes to ask for; none if the issuer shall choose.
pub(super) fn choose(known: &Known<'_>) -> Vec<String> {
    let list = |scopes: Option<&[String]>| scopes.unwrap_or_default().to_vec();
    let needed = match (known.demanded, known.asked) {
        // What the user wished is as good as what a server has in general.
        (None, []) if known.wished.is_some() => Vec::new(),
        (None, []) => list(known.supported),
        (demanded, asked) => union([asked.to_vec(), list(demanded)]),
    };
    let is_offline = known.issued.unwrap_or_default().iter().any(|it| it == OFFLINE);
    let needed = needed.into_iter().filter(|it| it != OFFLINE || is_offline).collect();
    let mut chosen = union([list(known.wished), needed]);
    // Alone, it would stand for no scope at all instead of those an issuer gives by itself.
    if known.for_person && is_offline && !chosen.is_empty() {
        chosen = union([chosen, vec![OFFLINE.to_owned()]]);
    }
    chosen
}

/// Whether a person has to be asked again for what outlives their presence.
pub(super) fn is_offline(scopes: &[String]) -> bool {
    scopes.iter().any(|it| it == OFFLINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        split(text)
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
        for (wished, demanded, asked, supported, issued, expected) in cases {
            let [wished, demanded, supported, issued] =
                [wished, demanded, supported, issued].map(|it: Option<&str>| it.map(texts));
            let known = Known {
                wished: wished.as_deref(),
                demanded: demanded.as_deref(),
                asked: &texts(asked),
                supported: supported.as_deref(),
                issued: issued.as_deref(),
                for_person: true,
            };
            assert_eq!(choose(&known).join(" "), expected);
        }
    }

    #[test]
    fn what_is_no_scope_is_not_asked_for() {
        assert_eq!(split("a  a b\"c \u{7f} d\\ e\u{e9} f"), ["a", "f"]);
        let many = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(union([many]).len(), MOST);
    }
}
