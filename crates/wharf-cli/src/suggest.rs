//! "Did you mean …?" suggestions.

/// Minimum similarity of two names for a suggestion.
const MIN_SIMILARITY: f64 = 0.75;

/// Most similar of `names` to the misspelt `wrong`.
pub(crate) fn nearest<'a>(
    wrong: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = wrong.to_lowercase();
    let scored = names.into_iter().map(|name| (similarity(&lower, &name.to_lowercase()), name));
    let best = scored.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (best.0 >= MIN_SIMILARITY).then_some(best.1)
}

fn similarity(wrong: &str, name: &str) -> f64 {
    // Long names are not typing errors. The bound limits work, as names come from a server.
    if name.len() > 256 || wrong.len() > 256 {
        return 0.0;
    }
    let slip = wrong.len() > 2 && strsim::osa_distance(wrong, name) <= 1;
    strsim::jaro(wrong, name).max(if slip { MIN_SIMILARITY } else { 0.0 })
}

/// Sentence that suggests the correct name.
pub(crate) fn did_you_mean<'a>(
    wrong: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(wrong, names)
        .map(|name| format!("Did you mean `{}`?", crate::terminal::clean_line(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_recognized() {
        let names = ["add", "echo", "weather", "countdown"];
        assert_eq!(nearest("wether", names), Some("weather"));
        assert_eq!(nearest("Countdwn", names), Some("countdown"));
        assert_eq!(nearest("dad", names), Some("add"));
        assert_eq!(nearest("frobnicate", names), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(did_you_mean("ad", names).as_deref(), Some("Did you mean `add`?"));
    }
}
