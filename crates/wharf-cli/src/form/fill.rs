//! Fills in a form, field by field.

use serde_json::{Map, Value};
use wharf::model::{ElicitForm, ElicitResult};

use super::field::{Field, fields};
use crate::terminal::{Dialog, clean, clean_line};

const DECLINE: &str = ":decline";
const CANCEL: &str = ":cancel";

/// Actions of the user other than an answer.
enum Left {
    Declined,
    Gone,
}

impl From<Left> for ElicitResult {
    fn from(left: Left) -> Self {
        match left {
            Left::Declined => ElicitResult::decline(),
            Left::Gone => ElicitResult::cancel(),
        }
    }
}

/// Shows the form of the server `server` to the user.
pub(crate) fn fill(server: &str, form: &ElicitForm, dialog: &mut dyn Dialog) -> ElicitResult {
    let paint = dialog.paint();
    let asks = paint.bold(&format!("{} asks:", clean_line(server)));
    dialog.say(&format!("{asks} {}", clean(&form.message)));
    dialog.say(&paint.dim(&format!("({DECLINE} says no, {CANCEL} or Ctrl-D leaves it)")));
    let fields = fields(&form.schema);
    loop {
        match once(&fields, dialog) {
            Ok(Some(content)) => return ElicitResult::accept(Value::from(content)),
            Ok(None) => {}
            Err(left) => return left.into(),
        }
    }
}

/// Fills in all fields once; `None` if the user restarts.
fn once(fields: &[Field<'_>], dialog: &mut dyn Dialog) -> Result<Option<Map<String, Value>>, Left> {
    let mut content = Map::new();
    for field in fields {
        if let Some(value) = ask(field, dialog)? {
            content.insert(field.name.to_owned(), value);
        }
    }
    // A single answer is still visible and needs no review.
    if fields.len() == 1 || agreed(fields, &content, dialog)? {
        Ok(Some(content))
    } else {
        Ok(None)
    }
}

/// Prompts until the input is valid.
fn ask(field: &Field<'_>, dialog: &mut dyn Dialog) -> Result<Option<Value>, Left> {
    let paint = dialog.paint();
    let title = paint.cyan(&clean_line(field.title()));
    let about = field.description().map(|text| format!(": {}", clean_line(text)));
    dialog.say(&format!("{title}{}", about.unwrap_or_default()));
    for line in field.menu() {
        dialog.say(&line);
    }
    let prompt = format!("  {} > ", paint.dim(&field.wants()));
    loop {
        let line = heard(dialog.ask(&prompt))?;
        match field.read(&line) {
            Ok(value) => return Ok(value),
            Err(why) => dialog.say(&format!("  {}", paint.yellow(&why))),
        }
    }
}

fn agreed(
    fields: &[Field<'_>],
    content: &Map<String, Value>,
    dialog: &mut dyn Dialog,
) -> Result<bool, Left> {
    for field in fields {
        if let Some(value) = content.get(field.name) {
            dialog.say(&format!("  {} = {}", clean_line(field.title()), field.shown(value)));
        }
    }
    loop {
        let line = heard(dialog.ask("Send this? [Y]es, [e]dit, [d]ecline > "))?;
        match line.trim().to_lowercase().as_str() {
            "" | "y" | "yes" => return Ok(true),
            "e" | "edit" | "n" | "no" => return Ok(false),
            "d" | "decline" => return Err(Left::Declined),
            _ => {}
        }
    }
}

fn heard(line: Option<String>) -> Result<String, Left> {
    match line {
        None => Err(Left::Gone),
        Some(line) if line.trim() == DECLINE => Err(Left::Declined),
        Some(line) if line.trim() == CANCEL => Err(Left::Gone),
        Some(line) => Ok(line),
    }
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
