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
    }
}
