//! Syntax of URIs (RFC 3986).

/// Checks the syntax of `uri`; the error describes the problem.
pub(crate) fn check(uri: &str, most: usize) -> Result<(), String> {
    if uri.len() > most {
        return Err(format!("its URI has {} bytes, and {most} is the limit", uri.len()));
    }
    let (scheme, rest) = uri.split_once(':').ok_or("a URI begins with a scheme, as in `file:`")?;
    let mut letters = scheme.bytes();
    let starts_well = letters.next().is_some_and(|first| first.is_ascii_alphabetic());
    if !starts_well || !letters.all(|it| it.is_ascii_alphanumeric() || b"+-.".contains(&it)) {
        return Err(format!(
            "`{scheme}` is not a URI scheme: use letters, digits, `+`, `-` and `.`"
        ));
    }
    let (before_fragment, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (hierarchy, query) = before_fragment.split_once('?').unwrap_or((before_fragment, ""));
    let (authority, path) = match hierarchy.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", hierarchy),
    };
    characters(path, b"/:@")?;
    characters(query, b"/:@?")?;
    characters(fragment, b"/:@?")?;
    check_authority(authority)
}

/// Checks the syntax of a URI template, whose expressions may expand to anything.
pub(crate) fn check_template(template: &str, most: usize) -> Result<(), String> {
    // An expression at the very beginning expands to a scheme.
    let mut literal = String::from(if template.starts_with('{') { "x" } else { "" });
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        literal.push_str(before);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    literal.push_str(rest);
    check(&literal, most)
}

fn check_authority(authority: &str) -> Result<(), String> {
    let (user, host_and_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    characters(user, b":")?;
    let (host, port) = match host_and_port.strip_prefix('[') {
        Some(rest) => {
            let (inside, after) = rest.split_once(']').ok_or("`[` of the host is not closed")?;
            characters(inside, b":")?;
            ("", after.strip_prefix(':').unwrap_or(after))
        }
        None => host_and_port.rsplit_once(':').unwrap_or((host_and_port, "")),
    };
    characters(host, b"")?;
    if port.bytes().all(|it| it.is_ascii_digit()) {
        Ok(())
    } else {
        Err(format!("`{port}` is not a port number"))
    }
}

/// Accepts unreserved characters, sub-delimiters, percent-encoded bytes and `also`.
fn characters(text: &str, also: &[u8]) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (index, &byte) in bytes.iter().enumerate() {
        let encoded = || {
            let digits = bytes.get(index + 1..index + 3);
            digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
        };
        let allowed = byte.is_ascii_alphanumeric()
            || b"-._~!$&'()*+,;=".contains(&byte)
            || also.contains(&byte)
            || (byte == b'%' && encoded());
        if !allowed {
            let character = text[index..].chars().next().unwrap_or('\u{fffd}');
            return Err(format!("{character:?} is not allowed there in a URI: percent-encode it"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check, check_template};

    #[test]
    fn templates_are_checked_outside_of_their_expressions() {
        for good in ["x://{a}/{+b}{?q}", "{scheme}://y", "http://{host}:{port}/", "x:{a}"] {
            assert_eq!(check_template(good, 8192), Ok(()), "{good}");
        }
        for bad in ["notes/{name}", "x://a b/{c}", "1x:{a}"] {
            assert!(check_template(bad, 8192).is_err(), "{bad}");
        }
    }

    #[test]
    fn any_scheme_is_accepted_and_invalid_syntax_is_rejected() {
        let good = [
            "file:///a/b%20c",
            "urn:isbn:123",
            "demo://readme",
            "http://[::1]:80/x?q=1#f",
            "x:",
            "mailto:a@b.c",
            "git+ssh://user@host:22/repo",
            "screen://localhost/display1",
        ];
        for uri in good {
            assert_eq!(check(uri, 8192), Ok(()), "{uri}");
        }
        let bad = [
            "readme",
            "",
            "1a://x",
            ":x",
            "a b:c",
            "file:///a b",
            "x:%zz",
            "x:%2",
            "http://h:x/",
            "http://[::1/",
            "x:{y}",
            "x:é",
            "x:#a#b",
        ];
        for uri in bad {
            assert!(check(uri, 8192).is_err(), "{uri}");
        }
        assert_eq!(check("x:12", 4), Ok(()));
        assert!(check("x:123", 4).is_err());
    }
}
