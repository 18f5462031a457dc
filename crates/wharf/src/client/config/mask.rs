//! What looks like a credential, hidden from those who look over the shoulder.

/// What stands for a value that may be secret.
pub(super) const HIDDEN: &str = "***";

/// Names that contain one of these have secret values.
const WORDS: [&str; 8] =
    ["key", "token", "secret", "password", "passwd", "credential", "authorization", "bearer"];

/// What tokens of well-known issuers begin with.
const PREFIXES: [&str; 12] = [
    "AKIA",
    "Bearer ",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "npm_",
    "sk-",
    "xoxb-",
    "xoxp-",
];

/// A URL without what may be a credential: user and password, the values of its query, its fragment.
/// Variables (`${NAME}`) stay.
///
/// ```
/// use wharf::config::masked_url;
///
/// let url = "https://ann:hunter2@example.com/mcp?token=hunter3&team=${TEAM}";
/// assert_eq!(masked_url(url), "https://***@example.com/mcp?token=***&team=${TEAM}");
/// ```
#[must_use]
pub fn masked_url(url: &str) -> String {
    let (url, fragment) = parts(url, '#');
    let (address, query) = parts(url, '?');
    let mut masked = match address.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            // A password may have any sign in it, slashes too: then its end is the last `@`.
            match (host.rsplit_once('@'), rest.rsplit_once('@')) {
                (Some((_, host)), _) => format!("{scheme}://{HIDDEN}@{host}{path}"),
                (None, Some((user, rest))) if user.contains(':') && !user.starts_with('[') => {
                    format!("{scheme}://{HIDDEN}@{rest}")
                }
                _ => address.to_owned(),
            }
        }
        None => address.to_owned(),
    };
    if let Some(query) = query {
        let pairs: Vec<String> = query.split('&').map(query_pair).collect();
        masked = format!("{masked}?{}", pairs.join("&"));
    }
    match fragment {
        Some(fragment) => format!("{masked}#{}", hidden(fragment)),
        None => masked,
    }
}

fn parts(text: &str, sign: char) -> (&str, Option<&str>) {
    text.split_once(sign).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn query_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value)) => format!("{name}={}", hidden(value)),
        None => hidden(pair),
    }
}

/// Arguments without what may be a credential.
pub(super) fn args(args: &[String]) -> Vec<String> {
    let mut follows = false;
    let mut masked = Vec::with_capacity(args.len());
    for arg in args {
        masked.push(if follows { hidden(arg) } else { argument(arg) });
        // `--api-key VALUE`
        follows = arg.starts_with('-') && !arg.contains(['=', ':', ' ']) && is_secret(arg);
    }
    masked
}

fn argument(text: &str) -> String {
    if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
        return HIDDEN.to_owned();
    }
    if let Some((before, value)) = named_secret(text) {
        return format!("{before}{}", hidden(value));
    }
    // `--url=https://…` and `-H 'Referer: https://…'` have an address in them.
    let start = text.find("://").map(|at| {
        let scheme = text[..at].rfind(|c: char| !c.is_ascii_alphanumeric());
        scheme.map_or(0, |at| at + 1)
    });
    match start.and_then(|start| text.split_at_checked(start)) {
        Some((before, url)) => format!("{before}{}", masked_url(url)),
        None => text.to_owned(),
    }
}

/// The value in a text such as `--api-key=x`, `X-Api-Key: x` or `{"token": "x"}`, and what stands
/// before it.
fn named_secret(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    while let Some(sign) = text[from..].find(['=', ':']).map(|at| from + at) {
        let quotes: &[char] = &['"', '\'', ' '];
        let name = text[..sign].trim_end_matches(quotes);
        let start = name.rfind(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c));
        if is_secret(&name[start.map_or(0, |at| at + 1)..]) {
            let value = text[sign + 1..].trim_start_matches(quotes);
            return Some(text.split_at(text.len() - value.len()));
        }
        from = sign + 1;
    }
    None
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// A variable says which secret it is, and not what it is.
fn hidden(value: &str) -> String {
    let variable = value.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
    match variable {
        Some(name) if !name.contains(['$', '}']) && !name.contains(":-") => value.to_owned(),
        _ if value.is_empty() => String::new(),
        _ => HIDDEN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_users_queries_and_fragments() {
        for (given, shown) in [
            ("https://example.com/mcp", "https://example.com/mcp"),
            ("https://u:hunter2@h:1/a@b?token=hunter3&x=", "https://***@h:1/a@b?token=***&x="),
            ("tcp://u:hunter2@h:1", "tcp://***@h:1"),
            ("http://u:hun/ter2@h/a", "http://***@h/a"),
            ("http://h/?hunter2", "http://h/?***"),
            ("http://h/#hunter2", "http://h/#***"),
            ("http://h/?key=${KEY}", "http://h/?key=${KEY}"),
            ("http://h/?key=${KEY:-hunter2}", "http://h/?key=***"),
            ("unix:/run/s", "unix:/run/s"),
        ] {
            assert_eq!(masked_url(given), shown);
        }
    }

    #[test]
    fn arguments_lose_what_follows_the_name_of_a_secret() {
        for (given, shown) in [
            (&["-y", "server", "/tmp"][..], "-y server /tmp"),
            (&["--key=hunter5", "x"], "--key=*** x"),
            (&["--api-key", "hunter5", "x"], "--api-key *** x"),
            (&["--API_KEY", "${KEY}"], "--API_KEY ${KEY}"),
            (&["-e", "GITHUB_TOKEN=hunter5"], "-e GITHUB_TOKEN=***"),
            (&["--header", "Authorization: Bearer hunter5"], "--header Authorization: ***"),
            (&["{\"apiKey\": \"hunter5\"}"], "{\"apiKey\": \"***"),
            (&["a=b,password:hunter5"], "a=b,password:***"),
            (&["--url=https://u:hunter5@h/?a=b"], "--url=https://***@h/?a=***"),
            (&["ghp_hunter5"], "***"),
        ] {
            let given: Vec<String> = given.iter().map(|&arg| arg.to_owned()).collect();
            assert_eq!(args(&given).join(" "), shown);
        }
    }
}
