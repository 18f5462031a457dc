//! The variables of a URI template (RFC 6570), read from the literal.

/// Returns the names of the template's variables in order, or the syntax error of the literal.
pub(crate) fn variables(uri: &str) -> Result<Vec<&str>, String> {
    check_scheme(uri)?;
    let mut names = Vec::new();
    let mut rest = uri;
    while let Some(start) = rest.find(['{', '}']) {
        if rest[start..].starts_with('}') {
            return Err("this `}` has no matching `{`".into());
        }
        let inner = &rest[start + 1..];
        let end = inner.find(['{', '}']).filter(|&end| inner[end..].starts_with('}'));
        let Some(end) = end else { return Err("this `{` is never closed".into()) };
        for name in expression(&inner[..end])? {
            if names.contains(&name) {
                return Err(format!("the variable `{name}` appears twice"));
            }
            names.push(name);
        }
        rest = &inner[end + 1..];
    }
    Ok(names)
}

fn check_scheme(uri: &str) -> Result<(), String> {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let well_formed = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !well_formed {
        return Err(
            "a resource URI starts with a scheme, as in `notes://today` or `file:///etc/hosts`"
                .into(),
        );
    }
    if uri.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("a URI cannot contain white space; write `%20`".into());
    }
    Ok(())
}

/// The names inside one pair of braces.
fn expression(text: &str) -> Result<Vec<&str>, String> {
    text.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']).split(',').map(name).collect()
}

fn name(spec: &str) -> Result<&str, String> {
    let without_prefix = spec.split_once(':').map_or(spec, |(name, _)| name);
    let name = without_prefix.strip_suffix('*').unwrap_or(without_prefix);
    let well_formed =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.%".contains(c));
    if well_formed { Ok(name) } else { Err(format!("`{{{spec}}}` does not name a variable")) }
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn every_operator_is_read() {
        assert_eq!(
            variables("a+b://{host}/{+path}{/more*}{.ext}{;p}{?q,lang}{&x}{#frag}").unwrap(),
            ["host", "path", "more", "ext", "p", "q", "lang", "x", "frag"]
        );
        assert_eq!(variables("urn:isbn:1").unwrap(), [""; 0]);
        assert_eq!(variables("a:{first:3}").unwrap(), ["first"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (uri, text) in [
            ("", "starts with a scheme"),
            ("notes", "starts with a scheme"),
            ("{scheme}://x", "starts with a scheme"),
            ("a://b c", "cannot contain white space"),
            ("a://{b", "never closed"),
            ("a://{b{c}}", "never closed"),
            ("a://b}", "no matching"),
            ("a://{}", "does not name"),
            ("a://{b-c}", "does not name"),
            ("a://{b}/{b}", "appears twice"),
        ] {
            let error = variables(uri).unwrap_err();
            assert!(error.contains(text), "{uri}: {error}");
        }
    }
}
