//! Parser of the Prometheus text format.

/// One sample: its name, labels and value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricSample {
    pub(super) name: String,
    labels: Vec<(String, String)>,
    pub(super) value: f64,
}

impl MetricSample {
    /// Returns the value of a label; empty if there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|label| label.0 == name).map_or("", |label| &label.1)
    }
}

/// Parses the samples of a page. Lines in another format are skipped.
pub(super) fn samples(page: &str) -> Vec<MetricSample> {
    page.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect()
}

fn sample(line: &str) -> Option<MetricSample> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(MetricSample { name: name.to_owned(), labels, value })
}

/// Parses labels up to the closing brace; also returns the rest of the line.
fn labels(mut text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = quoted.char_indices();
        text = loop {
            match chars.next()? {
                (at, '"') => break &quoted[at + 1..],
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, c) => value.push(c),
            }
        };
        labels.push((name.to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_may_have_every_character() {
        let page = "# HELP a A.\na{x=\"1\",y=\"say \\\"}\\\" \\\\ \\n\"} 2.5 1700000000\nb +Inf\nc{ 1\nd x\n\n";
        let samples = samples(page);
        assert_eq!(samples.len(), 2, "{samples:?}");
        assert_eq!((samples[0].label("x"), samples[0].label("y")), ("1", "say \"}\" \\ \n"));
        assert_eq!((samples[0].value, samples[0].label("z")), (2.5, ""));
        assert_eq!((&*samples[1].name, samples[1].value), ("b", f64::INFINITY));
    }
}
