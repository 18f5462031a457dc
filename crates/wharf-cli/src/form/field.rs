//! Field of an elicitation form, and the conversion of its input.

use serde_json::Value;

use crate::{
    arguments::{Schema, boolean, integer, number, plain},
    terminal::{clean_line, cut},
};

/// Maximum number of choices in a menu.
const MAX_CHOICES: usize = 200;

/// Field of an elicitation form.
#[derive(Debug)]
pub(crate) struct FormField<'a> {
    pub(crate) name: &'a str,
    pub(crate) required: bool,
    pub(crate) default: Option<&'a Value>,
    kind: FieldKind,
    schema: Schema<'a>,
}

#[derive(Debug)]
enum FieldKind {
    Text,
    Integer,
    Number,
    YesNo,
    /// One of several choices, each with its title.
    One(Vec<(Value, String)>),
    /// Any number of choices.
    Many(Vec<(Value, String)>),
}

/// Fields of a form, in its own order.
pub(crate) fn fields(schema: &Value) -> Vec<FormField<'_>> {
    let root = Schema::new(schema);
    let required = root.required();
    let mut fields = Vec::new();
    for (name, schema) in root.fields() {
        let (required, default) = (required.contains(name), schema.value("default"));
        fields.push(FormField { name, required, default, kind: kind(schema), schema });
    }
    fields
}

fn kind(schema: Schema<'_>) -> FieldKind {
    if schema.types().contains(&"array") {
        return FieldKind::Many(choices(schema.items()).unwrap_or_default());
    }
    if let Some(choices) = choices(schema) {
        return FieldKind::One(choices);
    }
    match schema.types().into_iter().find(|kind| *kind != "null") {
        Some("integer") => FieldKind::Integer,
        Some("number") => FieldKind::Number,
        Some("boolean") => FieldKind::YesNo,
        _ => FieldKind::Text,
    }
}

/// Choices: an `enum`, with `enumNames` in older forms, or titled constants.
fn choices(schema: Schema<'_>) -> Option<Vec<(Value, String)>> {
    let titled: Vec<(Value, String)> = schema
        .alternatives()
        .into_iter()
        .filter_map(|one| {
            let value = one.value("const")?;
            Some((value.clone(), one.text("title").map_or_else(|| plain(value), str::to_owned)))
        })
        .collect();
    if !titled.is_empty() {
        return Some(titled);
    }
    let names = schema.value("enumNames").and_then(Value::as_array);
    let name = |at: usize| names.and_then(|names| names.get(at)).and_then(Value::as_str);
    let values = schema.choices()?.into_iter().take(MAX_CHOICES).enumerate();
    let named = values
        .map(|(at, value)| (value.clone(), name(at).map_or_else(|| plain(value), str::to_owned)));
    Some(named.collect())
}

impl FormField<'_> {
    /// Title of the field.
    pub(crate) fn title(&self) -> &str {
        self.schema.text("title").unwrap_or(self.name)
    }

    /// Description of the field.
    pub(crate) fn description(&self) -> Option<&str> {
        self.schema.text("description")
    }

    /// Lines of the menu, one per choice, if there is one.
    pub(crate) fn menu(&self) -> Vec<String> {
        let (FieldKind::One(choices) | FieldKind::Many(choices)) = &self.kind else {
            return Vec::new();
        };
        let line = |(at, (_, name)): (usize, &(Value, String))| {
            format!("  {}) {}", at + 1, cut(&clean_line(name), 100))
        };
        choices.iter().enumerate().map(line).collect()
    }

    /// Short description of the accepted input, and the effect of Enter alone.
    pub(crate) fn input_hint(&self) -> String {
        let what = self.what();
        match (self.default, self.required) {
            (Some(default), _) => format!("{what}; Enter for {}", self.shown(default)),
            (None, true) => what,
            (None, false) => format!("{what}; Enter to leave it out"),
        }
    }

    fn what(&self) -> String {
        match &self.kind {
            FieldKind::Text => match self.schema.text("format") {
                Some("email") => "an email address".to_owned(),
                Some("uri") => "a URL".to_owned(),
                Some("date") => "a date, as 2030-01-31".to_owned(),
                Some("date-time") => "a time, as 2030-01-31T12:00:00Z".to_owned(),
                _ => "text".to_owned(),
            },
            FieldKind::Integer => self.bounded("a whole number"),
            FieldKind::Number => self.bounded("a number"),
            FieldKind::YesNo => "yes or no".to_owned(),
            FieldKind::One(_) => "one of these, by number or name".to_owned(),
            FieldKind::Many(_) => "any of these, with commas between".to_owned(),
        }
    }

    fn bounded(&self, what: &str) -> String {
        // Only numbers are valid bounds; other values could contain terminal control characters.
        let bound = |keyword| self.schema.value(keyword).and_then(Value::as_number);
        match (bound("minimum"), bound("maximum")) {
            (Some(least), Some(most)) => format!("{what} from {least} to {most}"),
            (Some(least), None) => format!("{what}, at least {least}"),
            (None, Some(most)) => format!("{what}, at most {most}"),
            (None, None) => what.to_owned(),
        }
    }

    /// Value with the title that the menu shows.
    pub(crate) fn shown(&self, value: &Value) -> String {
        let one = |value: &Value| match &self.kind {
            FieldKind::One(choices) | FieldKind::Many(choices) => {
                let named = choices.iter().find(|(known, _)| known == value);
                named.map_or_else(|| plain(value), |(_, name)| name.clone())
            }
            FieldKind::YesNo => if value == &Value::Bool(true) { "yes" } else { "no" }.to_owned(),
            _ => plain(value),
        };
        let text = match value {
            Value::Array(values) => values.iter().map(one).collect::<Vec<_>>().join(", "),
            value => one(value),
        };
        cut(&clean_line(&text), 100)
    }

    /// Converts the typed line, or returns why it is invalid. `None`: the field is left out.
    pub(crate) fn read(&self, line: &str) -> Result<Option<Value>, String> {
        if line.trim().is_empty() {
            return match (self.default, self.required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, false) => Ok(None),
                (None, true) => Err("A value is required.".to_owned()),
            };
        }
        self.value(line).map(Some)
    }

    fn value(&self, line: &str) -> Result<Value, String> {
        let trimmed = line.trim();
        match &self.kind {
            FieldKind::Text => self.text(line),
            FieldKind::Integer => self.number(integer(trimmed), "This is not a whole number."),
            FieldKind::Number => self.number(number(trimmed), "This is not a number."),
            FieldKind::YesNo => {
                boolean(trimmed).ok_or_else(|| "Please enter yes or no.".to_owned())
            }
            FieldKind::One(choices) => choose(choices, trimmed),
            FieldKind::Many(choices) => {
                let words = trimmed.split(',').map(str::trim).filter(|word| !word.is_empty());
                let all: Result<Vec<Value>, String> = match choices.as_slice() {
                    [] => words.map(|word| Ok(word.into())).collect(),
                    choices => words.map(|word| choose(choices, word)).collect(),
                };
                self.counted(all?)
            }
        }
    }

    fn text(&self, line: &str) -> Result<Value, String> {
        let bound = |keyword| self.schema.value(keyword).and_then(Value::as_u64);
        let length = line.chars().count() as u64;
        if let Some(least) = bound("minLength").filter(|least| length < *least) {
            return Err(format!("At least {least} characters, please."));
        }
        if let Some(most) = bound("maxLength").filter(|most| length > *most) {
            return Err(format!("At most {most} characters, please."));
        }
        let fits = match self.schema.text("format") {
            Some("email") => {
                line.split_once('@').is_some_and(|(who, host)| !who.is_empty() && !host.is_empty())
            }
            Some("uri") => line.contains(':') && !line.contains(' '),
            Some("date") => is_date(line),
            Some("date-time") => line.get(..10).is_some_and(is_date) && line.len() > 11,
            _ => true,
        };
        if fits { Ok(line.into()) } else { Err(format!("This is not {}.", self.what())) }
    }

    fn number(&self, value: Option<Value>, refusal: &str) -> Result<Value, String> {
        let value = value.ok_or_else(|| refusal.to_owned())?;
        let bound = |keyword| self.schema.value(keyword).and_then(Value::as_f64);
        let number = value.as_f64().unwrap_or_default();
        let low = bound("minimum").is_some_and(|least| number < least);
        let high = bound("maximum").is_some_and(|most| number > most);
        if low || high {
            Err(format!("Please give {}.", self.bounded("a number")))
        } else {
            Ok(value)
        }
    }

    fn counted(&self, mut values: Vec<Value>) -> Result<Value, String> {
        let mut seen: Vec<Value> = Vec::new();
        values.retain(|value| {
            !seen.contains(value) && {
                seen.push(value.clone());
                true
            }
        });
        let bound = |keyword| self.schema.value(keyword).and_then(Value::as_u64);
        let count = values.len() as u64;
        match (bound("minItems"), bound("maxItems")) {
            (Some(least), _) if count < least => Err(format!("At least {least} of them, please.")),
            (_, Some(most)) if count > most => Err(format!("At most {most} of them, please.")),
            _ => Ok(values.into()),
        }
    }
}

/// Finds the choice with this number, title or value.
fn choose(choices: &[(Value, String)], word: &str) -> Result<Value, String> {
    let named = choices.iter().find(|(value, name)| name == word || plain(value) == word);
    let lower = word.to_lowercase();
    let nearly = || choices.iter().find(|(_, name)| name.to_lowercase() == lower);
    let numbered = || choices.get(word.parse::<usize>().ok()?.checked_sub(1)?);
    let found = named.or_else(numbered).or_else(nearly);
    found.map(|(value, _)| value.clone()).ok_or_else(|| {
        format!(
            "`{}` is not one of them: enter a number from 1 to {}.",
            clean_line(word),
            choices.len()
        )
    })
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let within = |part: &str, digits, most| {
        part.len() == digits && part.parse::<u16>().is_ok_and(|number| (1..=most).contains(&number))
    };
    within(year, 4, 9999) && within(month, 2, 12) && within(day, 2, 31)
}
