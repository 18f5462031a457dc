//! Fills in a form, field by field.

use serde_json::{Map, Value};
use wharf::model::{ElicitForm, ElicitResult};

use super::field::{FormField, fields};
use crate::terminal::{Dialog, clean, clean_line};

const DECLINE: &str = ":decline";
const CANCEL: &str = ":cancel";

/// Actions of the user other than an answer.
enum FormExit {
    Declined,
    Cancelled,
}

impl From<FormExit> for ElicitResult {
    fn from(left: FormExit) -> Self {
        match left {
            FormExit::Declined => ElicitResult::decline(),
            FormExit::Cancelled => ElicitResult::cancel(),
        }
    }
}

/// Shows the form of the server `server` to the user.
pub(crate) fn fill(server: &str, form: &ElicitForm, dialog: &mut dyn Dialog) -> ElicitResult {
    let paint = dialog.paint();
    let asks = paint.bold(&format!("{} asks:", clean_line(server)));
    dialog.print(&format!("{asks} {}", clean(&form.message)));
    dialog.print(&paint.dim(&format!("({DECLINE} declines, {CANCEL} or Ctrl-D cancels)")));
    let fields = fields(&form.schema);
    loop {
        match fill_once(&fields, dialog) {
            Ok(Some(content)) => return ElicitResult::accept(Value::from(content)),
            Ok(None) => {}
            Err(left) => return left.into(),
        }
    }
}

/// Fills in all fields once; `None` if the user restarts.
fn fill_once(
    fields: &[FormField<'_>],
    dialog: &mut dyn Dialog,
) -> Result<Option<Map<String, Value>>, FormExit> {
    let mut content = Map::new();
    for field in fields {
        if let Some(value) = ask(field, dialog)? {
            content.insert(field.name.to_owned(), value);
        }
    }
    // A single answer is still visible and needs no review.
    if fields.len() == 1 || confirm(fields, &content, dialog)? {
        Ok(Some(content))
    } else {
        Ok(None)
    }
}

/// Prompts until the input is valid.
fn ask(field: &FormField<'_>, dialog: &mut dyn Dialog) -> Result<Option<Value>, FormExit> {
    let paint = dialog.paint();
    let title = paint.cyan(&clean_line(field.title()));
    let about = field.description().map(|text| format!(": {}", clean_line(text)));
    dialog.print(&format!("{title}{}", about.unwrap_or_default()));
    for line in field.menu() {
        dialog.print(&line);
    }
    let prompt = format!("  {} > ", paint.dim(&field.input_hint()));
    loop {
        let line = read_line(dialog.ask(&prompt))?;
        match field.read(&line) {
            Ok(value) => return Ok(value),
            Err(why) => dialog.print(&format!("  {}", paint.yellow(&why))),
        }
    }
}

fn confirm(
    fields: &[FormField<'_>],
    content: &Map<String, Value>,
    dialog: &mut dyn Dialog,
) -> Result<bool, FormExit> {
    for field in fields {
        if let Some(value) = content.get(field.name) {
            dialog.print(&format!("  {} = {}", clean_line(field.title()), field.shown(value)));
        }
    }
    loop {
        let line = read_line(dialog.ask("Send this? [Y]es, [e]dit, [d]ecline > "))?;
        match line.trim().to_lowercase().as_str() {
            "" | "y" | "yes" => return Ok(true),
            "e" | "edit" | "n" | "no" => return Ok(false),
            "d" | "decline" => return Err(FormExit::Declined),
            _ => {}
        }
    }
}

fn read_line(line: Option<String>) -> Result<String, FormExit> {
    match line {
        None => Err(FormExit::Cancelled),
        Some(line) if line.trim() == DECLINE => Err(FormExit::Declined),
        Some(line) if line.trim() == CANCEL => Err(FormExit::Cancelled),
        Some(line) => Ok(line),
    }
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
