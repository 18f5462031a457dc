//! Validates elicitation content against the form's `requestedSchema`.

use std::{cmp::Ordering, collections::BTreeSet};

use serde_json::{Map, Value};

use crate::lenient_json::whole_numbers;

/// Content of an accepted form: validated, with defaults filled in and unknown fields removed.
///
/// # Errors
/// Names the field that does not match, with the reason.
pub fn check(form: &Value, content: Option<Value>) -> Result<Value, String> {
    let Value::Object(mut content) = content.unwrap_or_else(|| Map::new().into()) else {
        return Err("the content of a form is an object".into());
    };
    let properties = form.get("properties").and_then(Value::as_object);
    let required = form.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: BTreeSet<&str> = required.filter_map(Value::as_str).collect();
    let mut filled = Map::new();
    for (name, property) in properties.into_iter().flatten() {
        let given = content.remove(name).filter(|value| !value.is_null());
        let Some(mut value) = given.or_else(|| property.get("default").cloned()) else {
            if required.contains(&**name) {
                return Err(format!("`{name}` is missing"));
            }
            continue;
        };
        whole_numbers(&mut value);
        fits(property, &value).map_err(|reason| format!("`{name}` {reason}"))?;
        filled.insert(name.clone(), value);
    }
    Ok(filled.into())
}

fn fits(property: &Value, value: &Value) -> Result<(), String> {
    let right_type = match property["type"].as_str().unwrap_or_default() {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        _ => true,
    };
    if !right_type {
        return Err(format!("is not of type {}", property["type"]));
    }
    if let Value::Array(chosen) = value {
        bounds(property, ["minItems", "maxItems"], &chosen.len().into())?;
        let item = |value: &Value| choice(&property["items"], value);
        return chosen.iter().try_for_each(item);
    }
    if let Value::String(text) = value {
        bounds(property, ["minLength", "maxLength"], &text.chars().count().into())?;
        let format = property["format"].as_str().unwrap_or_default();
        if !looks_like(format, text) {
            return Err(format!("is not of the format {format}"));
        }
    }
    bounds(property, ["minimum", "maximum"], value)?;
    choice(property, value)
}

fn choice(property: &Value, value: &Value) -> Result<(), String> {
    let plain = property["enum"].as_array().map(|values| values.contains(value));
    let titled = property.get("oneOf").or_else(|| property.get("anyOf")).and_then(Value::as_array);
    let titled = titled.map(|options| options.iter().any(|option| option["const"] == *value));
    if plain.or(titled).unwrap_or(true) {
        Ok(())
    } else {
        Err("is not one of the allowed values".into())
    }
}

fn bounds(property: &Value, [least, most]: [&str; 2], value: &Value) -> Result<(), String> {
    let beyond = |bound: &str, side: Ordering| {
        let (limit, value) = (property.get(bound)?.as_f64()?, value.as_f64()?);
        (value.partial_cmp(&limit) == Some(side)).then_some(limit)
    };
    if let Some(limit) = beyond(least, Ordering::Less) {
        return Err(format!("is below the {least} of {limit}"));
    }
    match beyond(most, Ordering::Greater) {
        Some(limit) => Err(format!("is above the {most} of {limit}")),
        None => Ok(()),
    }
}

/// Checks the syntax roughly; the handler's own type decides which strings are valid dates.
fn looks_like(format: &str, text: &str) -> bool {
    let shape = |shape: &str| {
        let fits = |(wanted, byte): (u8, u8)| match wanted {
            b'0' => byte.is_ascii_digit(),
            _ => byte.eq_ignore_ascii_case(&wanted),
        };
        text.len() >= shape.len() && shape.bytes().zip(text.bytes()).all(fits)
    };
    match format {
        "email" => text.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace)
        }),
        "uri" => text.split_once(':').is_some_and(|(scheme, _)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        }),
        "date" => text.len() == 10 && shape("0000-00-00"),
        "date-time" => shape("0000-00-00T00:00:00"),
        _ => true,
    }
}
