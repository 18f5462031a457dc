//! What an authorization server sends back with the browser.

use std::fmt;

use url::form_urlencoded;

use crate::jose::same;

/// No answer is longer.
const LONGEST: usize = 8 << 10;

/// Nor has more parts.
const MOST: usize = 32;

/// What an authorization server sent back with the browser. It was asked for: its `state` is ours.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The query, as it came.
    pub query: String,
    /// Whether it says no.
    pub is_refusal: bool,
}

/// Codes are secret.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("is_refusal", &self.is_refusal).finish_non_exhaustive()
    }
}

/// Why something is no answer to what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// It is none at all: too long, or neither a code nor an error, or one of them twice.
    Form,
    /// It answers another question than ours.
    State,
}

/// Reads a query. Nothing in it is believed unless its `state` is the one that was sent.
pub(super) fn read(query: &str, state: &str) -> Result<Answer, NoAnswer> {
    if query.len() > LONGEST || state.is_empty() {
        return Err(NoAnswer::Form);
    }
    let parts: Vec<_> = form_urlencoded::parse(query.as_bytes()).take(MOST + 1).collect();
    if parts.len() > MOST {
        return Err(NoAnswer::Form);
    }
    // What stands there twice could be read in two ways.
    let only = |name: &str| {
        let mut found = parts.iter().filter(|(known, _)| known == name).map(|(_, value)| value);
        match (found.next(), found.next()) {
            (found, None) => Ok(found),
            _ => Err(NoAnswer::Form),
        }
    };
    if !only("state")?.is_some_and(|given| same(given.as_bytes(), state.as_bytes())) {
        return Err(NoAnswer::State);
    }
    only("iss")?;
    match (only("code")?, only("error")?) {
        (Some(code), None) if !code.is_empty() => {
            Ok(Answer { query: query.to_owned(), is_refusal: false })
        }
        (None, Some(_)) => Ok(Answer { query: query.to_owned(), is_refusal: true }),
        _ => Err(NoAnswer::Form),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_looked_at_before_anything_is_believed() {
        for query in ["code=c", "code=c&state=", "code=c&state=other", "error=access_denied", ""] {
            assert_eq!(read(query, "mine"), Err(NoAnswer::State), "{query}");
        }
        assert_eq!(read("code=c&state=", ""), Err(NoAnswer::Form));
        let answer = read("code=c%20d&state=mi%6ee&iss=https%3A%2F%2Fas", "mine").unwrap();
        assert!(!answer.is_refusal && answer.query.contains("code=c%20d"));
        assert!(!format!("{answer:?}").contains("c%20d"));
        assert!(read("error=access_denied&state=mine", "mine").unwrap().is_refusal);
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_not_read() {
        for query in [
            "state=mine",
            "state=mine&code=",
            "state=mine&code=a&code=b",
            "state=mine&code=a&error=b",
            "state=mine&state=mine&code=a",
            "state=mine&state=other&code=a",
            "state=mine&code=a&iss=x&iss=y",
        ] {
            assert_eq!(read(query, "mine"), Err(NoAnswer::Form), "{query}");
        }
        let long = format!("state=mine&code={}", "a".repeat(LONGEST));
        assert_eq!(read(&long, "mine"), Err(NoAnswer::Form));
        let many = format!("state=mine&code=a{}", "&x=1".repeat(MOST));
        assert_eq!(read(&many, "mine"), Err(NoAnswer::Form));
    }
}
