//! Masks possible credentials in output.

/// Replacement for a value that may be secret.
pub(super) const MASK: &str = "***";

/// Names that contain one of these have secret values.
const SECRET_WORDS: [&str; 10] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "authorization",
    "bearer",
    "cookie",
];

/// Names that are one of these, or contain one between separators, have secret values.
const SECRET_NAMES: [&str; 6] = ["auth", "jwt", "pass", "pat", "pwd", "pw"];

/// Prefixes of tokens of well-known issuers.
const TOKEN_PREFIXES: [&str; 20] = [
    "AIza",
    "AKIA",
    "ASIA",
    "Basic ",
    "Bearer ",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "npm_",
    "sk-",
    "sk_",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
];

/// Masks possible credentials of a URL: user and password, the values of its query, its fragment.
/// Variables (`${NAME}`) stay.
///
/// ```
/// use wharf::client::config::masked_url;
///
/// let url = "https://ann:hunter2@example.com/mcp?token=hunter3&team=${TEAM}";
/// assert_eq!(masked_url(url), "https://***@example.com/mcp?token=***&team=${TEAM}");
/// ```
#[must_use]
pub fn masked_url(url: &str) -> String {
    let (url, fragment) = parts(url, '#');
    let (address, query) = parts(url, '?');
    let ends_later = [query, fragment].into_iter().flatten().any(|it| it.contains('@'));
    let mut masked = match address.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            // A password may contain any character, including slashes: then it ends at the last
            // `@`.
            match (host.rsplit_once('@'), rest.rsplit_once('@')) {
                (Some((_, host)), _) => format!("{scheme}://{MASK}@{host}{path}"),
                (None, Some((user, rest))) if has_password(host) => match host.contains("${") {
                    // A variable may be the host, and the text after `@` a path: neither must pass
                    // for the other.
                    true => format!("{scheme}://{}:{MASK}", parts(user, ':').0),
                    false => format!("{scheme}://{MASK}@{rest}"),
                },
                // The password contains `?` or `#`, or the text is the host: it is shown up to the port.
                (None, None) if has_password(host) && ends_later => {
                    return format!("{scheme}://{}:{MASK}", parts(host, ':').0);
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
        Some(fragment) => format!("{masked}#{}", mask_value(fragment)),
        None => masked,
    }
}

/// Masks the value of an environment variable if it looks like a credential: by the name of the variable, or because
/// the value is a token of a well-known issuer, or a URL with a credential. Variables (`${NAME}`) stay.
///
/// No part of any other text is masked: a variable may contain the arguments of a program, and a mask could hide some.
///
/// ```
/// use wharf::client::config::masked_variable;
///
/// assert_eq!(masked_variable("API_KEY", "hunter2"), "***");
/// assert_eq!(masked_variable("DB", "postgres://ann:hunter2@db/shop"), "postgres://***@db/shop");
/// assert_eq!(masked_variable("NODE_OPTIONS", "--require ./x.js"), "--require ./x.js");
/// ```
#[must_use]
pub fn masked_variable(name: &str, value: &str) -> String {
    let is_made_of =
        |signs: &str| value.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c));
    if is_secret(name) {
        return mask_value(value);
    }
    let is_word = ["Basic ", "Bearer "].iter().any(|scheme| value.starts_with(scheme))
        || !value.contains(' ');
    if is_token(value) && is_word && is_made_of("-_.=+ ") {
        return MASK.to_owned();
    }
    // A shell would run what follows a lone `&`.
    let is_url = || {
        let query = parts(parts(value, '#').0, '?').1;
        is_made_of("-._~:/?#[]@!+,=%&${}")
            && query.is_none_or(|query| query.split('&').all(|pair| pair.contains('=')))
    };
    match value.contains("://") && is_url() {
        true => masked_url(value),
        false => value.to_owned(),
    }
}

/// True if the text before the first slash is a user with the start of a password, not a host with
/// its port.
fn has_password(text: &str) -> bool {
    let after = text.split_once(':').map(|(_, after)| after);
    !text.starts_with('[') && after.is_some_and(|it| !it.bytes().all(|byte| byte.is_ascii_digit()))
}

fn parts(text: &str, sign: char) -> (&str, Option<&str>) {
    text.split_once(sign).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn query_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value)) => format!("{name}={}", mask_value(value)),
        None => mask_value(pair),
    }
}

/// Masks possible credentials in arguments.
pub(super) fn args(args: &[String]) -> Vec<String> {
    let mut follows = false;
    let mut masked = Vec::with_capacity(args.len());
    for arg in args {
        masked.push(if follows { mask_value(arg) } else { argument(arg) });
        // `--api-key VALUE`
        follows = arg.starts_with('-') && !arg.contains(['=', ':', ' ']) && is_secret(arg);
    }
    masked
}

fn argument(text: &str) -> String {
    if is_token(text) {
        return MASK.to_owned();
    }
    if let Some((before, value)) = named_secret(text) {
        return format!("{before}{}", mask_value(value));
    }
    // `--url=https://…` and `-H 'Referer: https://…'` contain a URL.
    let start = text.find("://").map(|at| {
        let scheme = text[..at].rfind(|c: char| !c.is_ascii_alphanumeric());
        scheme.map_or(0, |at| at + 1)
    });
    match start.and_then(|start| text.split_at_checked(start)) {
        Some((before, url)) => format!("{before}{}", masked_url(url)),
        None => text.to_owned(),
    }
}

/// Splits a string such as `--api-key=x`, `X-Api-Key: x` or `{"token": "x"}` before its secret
/// value.
fn named_secret(text: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    while let Some(sign) = text[from..].find(['=', ':']).map(|at| from + at) {
        let quotes: &[char] = &['"', '\'', ' '];
        let name = text[..sign].trim_end_matches(quotes);
        let start = name.rfind(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c));
        let value = text[sign + 1..].trim_start_matches(quotes);
        if is_secret(&name[start.map_or(0, |at| at + 1)..]) || is_token(value) {
            return Some(text.split_at(text.len() - value.len()));
        }
        from = sign + 1;
    }
    None
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
        || name.split(['-', '_', '.']).any(|part| SECRET_NAMES.contains(&part))
}

/// True if a string looks like a token of a well-known issuer.
fn is_token(text: &str) -> bool {
    TOKEN_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// Masks a value. A variable stays, because it names a secret but does not contain it.
fn mask_value(value: &str) -> String {
    let variable = value.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
    match variable {
        Some(name) if !name.contains(['$', '}']) && !name.contains(":-") => value.to_owned(),
        _ if value.is_empty() => String::new(),
        _ => MASK.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_masked() {
        for (given, shown) in [
            ("https://example.com/mcp", "https://example.com/mcp"),
            ("https://u:hunter2@h:1/a@b?token=hunter3&x=", "https://***@h:1/a@b?token=***&x="),
            ("tcp://u:hunter2@h:1", "tcp://***@h:1"),
            ("http://u:hun/ter2@h/a", "http://***@h/a"),
            ("http://u:hun#ter2@h:1/a", "http://u:***"),
            ("http://u:hun?ter2@h:1/a", "http://u:***"),
            ("http://h/?hunter2", "http://h/?***"),
            ("http://h/#hunter2", "http://h/#***"),
            ("http://h/?key=${KEY}", "http://h/?key=${KEY}"),
            ("http://h/?key=${KEY:-hunter2}", "http://h/?key=***"),
            ("unix:/run/s", "unix:/run/s"),
            // A path is not a host, or a file could hide the real host.
            ("http://evil.example:80/x@good.example/", "http://evil.example:80/x@good.example/"),
            ("http://evil.example:${P:-80}/x@good.example/", "http://evil.example:***"),
            ("http://${H:-evil.example}/x@good.example/", "http://${H:***"),
            ("http://[::1]:80/x@good.example/", "http://[::1]:80/x@good.example/"),
        ] {
            assert_eq!(masked_url(given), shown);
        }
    }

    #[test]
    fn only_credentials_of_variables_are_masked() {
        for (name, value, shown) in [
            ("GITHUB_TOKEN", "hunter2", "***"),
            ("GITHUB_TOKEN", "${GITHUB_TOKEN}", "${GITHUB_TOKEN}"),
            ("GITHUB_TOKEN", "${GITHUB_TOKEN:-hunter2}", "***"),
            ("GITHUB_TOKEN", "", ""),
            ("A", "ghp_hunter2", "***"),
            ("A", "Bearer hunter2", "***"),
            ("A", "https://u:hunter2@h/?a=hunter2&b=${B}", "https://***@h/?a=***&b=${B}"),
            ("DEBUG", "1", "1"),
            ("PATH", "/evil:${PATH}", "/evil:${PATH}"),
            ("LD_PRELOAD", "./evil.so", "./evil.so"),
            // A mask must not hide what a program or a shell would run.
            ("NODE_OPTIONS", "--key=a --require ./evil.js", "--key=a --require ./evil.js"),
            ("PATH", "sk-a:./evil", "sk-a:./evil"),
            ("GIT_SSH_COMMAND", "sk-a evil", "sk-a evil"),
            ("BASH_ENV", "eyJ/../evil", "eyJ/../evil"),
            ("PROMPT_COMMAND", "curl http://h/?a=$(evil)", "curl http://h/?a=$(evil)"),
            ("GIT_SSH_COMMAND", "x://h/?a=b;evil", "x://h/?a=b;evil"),
            ("GIT_SSH_COMMAND", "x://h/?a=b&evil", "x://h/?a=b&evil"),
        ] {
            assert_eq!(masked_variable(name, value), shown, "{name}");
        }
    }

    #[test]
    fn secret_arguments_are_masked() {
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
            (&["--x=ghp_hunter5", "-e", "GH=github_pat_hunter5"], "--x=*** -e GH=***"),
            (&["--pat", "hunter5", "--auth=hunter5"], "--pat *** --auth=***"),
            (
                &["-H", "X-Auth: hunter5", "-H", "Cookie: a=hunter5"],
                "-H X-Auth: *** -H Cookie: ***",
            ),
            (&["--any=Bearer hunter5"], "--any=***"),
            (&["--path=/srv", "--author", "me", "sk/x"], "--path=/srv --author me sk/x"),
        ] {
            let given: Vec<String> = given.iter().map(|&arg| arg.to_owned()).collect();
            assert_eq!(args(&given).join(" "), shown);
        }
    }
}
