//! Label sets as text.

use std::fmt::Write as _;

/// Labels of one series, as they are rendered between braces.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelText(pub(crate) String);

impl LabelText {
    /// Creates a set of one label.
    pub(crate) fn one(name: &str, value: &str) -> Self {
        let mut labels = LabelText::default();
        labels.add(name, value);
        labels
    }

    /// Adds a label. An empty value is the same as no label.
    pub(crate) fn add(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        if !self.0.is_empty() {
            self.0.push(',');
        }
        let _ = write!(self.0, "{name}=\"");
        for c in value.chars() {
            match c {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                c => self.0.push(c),
            }
        }
        self.0.push('"');
    }

    /// Returns names and values.
    #[cfg(feature = "otlp")]
    pub(crate) fn parse(&self) -> Vec<(String, String)> {
        let mut labels: Vec<(String, String)> = Vec::new();
        let (mut name, mut chars) = (String::new(), self.0.chars());
        while let Some(c) = chars.next() {
            match c {
                ',' => {}
                '=' => {
                    chars.next();
                    labels.push((std::mem::take(&mut name), unescape(&mut chars)));
                }
                c => name.push(c),
            }
        }
        labels
    }
}

/// Reads a value up to its closing quote.
#[cfg(feature = "otlp")]
fn unescape(chars: &mut std::str::Chars<'_>) -> String {
    let mut value = String::new();
    while let Some(c) = chars.next().filter(|c| *c != '"') {
        match c {
            '\\' => value.extend(chars.next().map(|c| if c == 'n' { '\n' } else { c })),
            c => value.push(c),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::LabelText;

    #[test]
    fn values_are_escaped_and_empty_ones_omitted() {
        let mut labels = LabelText::one("a", "x\\y\"z\n");
        labels.add("b", "");
        labels.add("c", "é");
        assert_eq!(labels.0, r#"a="x\\y\"z\n",c="é""#);
        #[cfg(feature = "otlp")]
        assert_eq!(
            labels.parse(),
            [("a", "x\\y\"z\n"), ("c", "é")].map(|(a, b)| (a.into(), b.into()))
        );
    }
}
