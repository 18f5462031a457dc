//! Converts types to elicitation forms.

#[cfg(test)]
pub(crate) mod tests;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::lenient_json::whole_numbers;

pub(crate) use wharf_schema::elicitation_form::check;

type JsonObject = Map<String, Value>;

/// String formats that a form supports.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// Keywords that a form does not support. They are an error, so that they are not lost silently.
const UNSUPPORTED_KEYWORDS: [&str; 2] = ["pattern", "multipleOf"];

/// Derives the form for a `T`: a flat object of strings, numbers, booleans and choices.
pub(crate) fn form_schema<T: JsonSchema>() -> Result<Value, String> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    restrict(&schema.to_value())
}

/// Reduces a JSON Schema to the subset for forms; the error names the field that does not fit.
pub(crate) fn restrict(schema: &Value) -> Result<Value, String> {
    let no_struct = "a form needs a struct with named fields";
    let root = schema.as_object().ok_or(no_struct)?;
    let fields = root.get("properties").and_then(Value::as_object);
    let fields = match (root.get("type").and_then(Value::as_str), fields) {
        (Some("object"), Some(fields)) => fields,
        _ => return Err(no_struct.into()),
    };
    let mut properties = JsonObject::new();
    let mut optional = vec![];
    for (name, schema) in fields {
        let mut field = FormField { root, keywords: JsonObject::new(), optional: false };
        field.gather(schema, 0).map_err(|reason| format!("`{name}`: {reason}"))?;
        if field.optional {
            optional.push(name);
        }
        let property = field.restrict().map_err(|reason| format!("`{name}`: {reason}"))?;
        properties.insert(name.clone(), property);
    }
    let required = root.get("required").and_then(Value::as_array);
    let is_optional = |name: &Value| optional.iter().any(|optional| *name == **optional);
    let required: Vec<_> =
        required.into_iter().flatten().filter(|name| !is_optional(name)).cloned().collect();
    let mut form = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        form["required"] = required.into();
    }
    Ok(form)
}

/// Field that is being converted from a general schema to a form.
struct FormField<'s> {
    root: &'s JsonObject,
    keywords: JsonObject,
    optional: bool,
}

impl FormField<'_> {
    /// Collects the keywords of the field; follows references and removes `null`.
    fn gather(&mut self, schema: &Value, depth: usize) -> Result<(), String> {
        let schema = schema.as_object().ok_or("a form field needs a type")?;
        if depth > 8 {
            return Err("its schema refers to itself".into());
        }
        for (keyword, value) in schema {
            match (&**keyword, value) {
                ("$ref", Value::String(reference)) => {
                    let target = self.resolve(reference)?.clone();
                    self.gather(&target, depth + 1)?;
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(options)) => {
                    self.options(keyword, options, depth)?;
                }
                ("type", Value::Array(types)) => {
                    let mut others = types.iter().filter(|name| *name != "null");
                    self.optional |= types.iter().any(|name| name == "null");
                    let (Some(one), None) = (others.next(), others.next()) else {
                        return Err("it must have one type".into());
                    };
                    self.keywords.insert("type".into(), one.clone());
                }
                ("enum", Value::Array(values)) => {
                    self.optional |= values.iter().any(Value::is_null);
                    let values: Vec<_> = values.iter().filter(|v| !v.is_null()).cloned().collect();
                    self.keywords.insert("enum".into(), values.into());
                }
                ("default", Value::Null) => {}
                // A keyword beside a reference takes precedence over the referenced one.
                _ if depth > 0 && self.keywords.contains_key(keyword) => {}
                _ => {
                    self.keywords.insert(keyword.clone(), value.clone());
                }
            }
        }
        Ok(())
    }

    fn options(&mut self, keyword: &str, options: &[Value], depth: usize) -> Result<(), String> {
        let is_null = |option: &&Value| option["type"] == "null";
        self.optional |= options.iter().any(|option| is_null(&option));
        let others: Vec<_> = options.iter().filter(|option| !is_null(option)).collect();
        match others[..] {
            [one] => self.gather(one, depth + 1),
            _ if keyword == "allOf" => {
                others.into_iter().try_for_each(|part| self.gather(part, depth + 1))
            }
            _ => {
                self.keywords.insert("options".into(), others.into_iter().cloned().collect());
                Ok(())
            }
        }
    }

    fn resolve(&self, reference: &str) -> Result<&Value, String> {
        let name = reference.strip_prefix("#/$defs/");
        let found = name.and_then(|name| self.root.get("$defs")?.get(name));
        found.ok_or_else(|| format!("`{reference}` does not exist"))
    }

    fn restrict(mut self) -> Result<Value, String> {
        if let Some(keyword) =
            UNSUPPORTED_KEYWORDS.iter().find(|keyword| self.keywords.contains_key(**keyword))
        {
            return Err(format!("a form does not support `{keyword}`: check the response instead"));
        }
        if let Some(choices) = choices(&self.keywords)? {
            // Titles in the first form that the protocol had (`enumNames`), for hand-written
            // schemas.
            let names = self.keywords.get("enumNames").and_then(Value::as_array).map(Vec::len);
            let values = choices.get("enum").and_then(Value::as_array).map(Vec::len);
            let named: &[&str] =
                if values.is_some() && names == values { &["enumNames"] } else { &[] };
            let keys = [&["title", "description", "default"], named].concat();
            return Ok(self.keep("string", &keys, choices));
        }
        let kind = self.keywords.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match &*kind {
            "string" => {
                let known = |format: &Value| FORMATS.iter().any(|known| format == known);
                if !self.keywords.get("format").is_some_and(known) {
                    self.keywords.remove("format");
                }
                let keys = ["title", "description", "minLength", "maxLength", "format", "default"];
                Ok(self.keep("string", &keys, JsonObject::new()))
            }
            "integer" | "number" => {
                self.inclusive(kind == "integer")?;
                let keys = ["title", "description", "minimum", "maximum", "default"];
                Ok(self.keep(&kind, &keys, JsonObject::new()))
            }
            "boolean" => {
                Ok(self.keep("boolean", &["title", "description", "default"], JsonObject::new()))
            }
            "array" => self.several(),
            "object" => Err("a form is flat: an object cannot be a field of it".into()),
            _ => Err("a form supports only strings, numbers, booleans and choices".into()),
        }
    }

    fn several(&self) -> Result<Value, String> {
        let mut item = FormField { root: self.root, keywords: JsonObject::new(), optional: false };
        item.gather(self.keywords.get("items").unwrap_or(&Value::Null), 1)?;
        let Some(mut items) = choices(&item.keywords)? else {
            return Err("a list can only be a choice among the variants of an enum".into());
        };
        match items.remove("oneOf") {
            Some(titled) => drop(items.insert("anyOf".into(), titled)),
            None => drop(items.insert("type".into(), "string".into())),
        }
        let items = JsonObject::from_iter([("items".to_owned(), items.into())]);
        let keys = ["title", "description", "minItems", "maxItems", "default"];
        Ok(self.keep("array", &keys, items))
    }

    /// Converts exclusive bounds: a form supports inclusive bounds only.
    fn inclusive(&mut self, integer: bool) -> Result<(), String> {
        for (exclusive, inclusive, step) in
            [("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)]
        {
            let Some(mut bound) = self.keywords.remove(exclusive) else { continue };
            whole_numbers(&mut bound);
            match bound.as_i64().and_then(|bound| bound.checked_add(step)) {
                Some(bound) if integer => self.keywords.insert(inclusive.into(), bound.into()),
                _ => {
                    return Err(format!(
                        "a form does not support `{exclusive}`: use `{inclusive}`"
                    ));
                }
            };
        }
        Ok(())
    }

    fn keep(&self, kind: &str, keys: &[&str], more: JsonObject) -> Value {
        let kept =
            keys.iter().filter_map(|&key| Some((key.to_owned(), self.keywords.get(key)?.clone())));
        let mut property = JsonObject::from_iter([("type".to_owned(), kind.into())]);
        property.extend(kept);
        property.extend(more);
        property.into()
    }
}

/// Returns the choices of a unit enum: `enum`, or `oneOf` if they have titles. `None` for other
/// schemas.
fn choices(keywords: &JsonObject) -> Result<Option<JsonObject>, String> {
    if let Some(Value::Array(options)) = keywords.get("options") {
        let choices = options.iter().map(titled).collect::<Option<Vec<_>>>();
        let choices = choices.ok_or("a form supports only enums whose variants have no fields")?;
        let choices: Vec<_> = choices.into_iter().flatten().collect();
        return Ok(Some(JsonObject::from_iter([
            if choices.iter().any(|(_, title)| title.is_some()) {
                let choice = |(value, title): &(Value, Option<Value>)| json!({"const": value, "title": title.as_ref().unwrap_or(value)});
                ("oneOf".to_owned(), choices.iter().map(choice).collect())
            } else {
                ("enum".to_owned(), choices.into_iter().map(|(value, _)| value).collect())
            },
        ])));
    }
    let values = match (keywords.get("enum"), keywords.get("const")) {
        (Some(Value::Array(values)), _) => values.clone(),
        (None, Some(value)) => vec![value.clone()],
        _ => return Ok(None),
    };
    if !values.iter().all(Value::is_string) {
        return Err("the choices must be strings".into());
    }
    Ok(Some(JsonObject::from_iter([("enum".to_owned(), values.into())])))
}

/// Returns the values of one option with their titles: one under `const`, or untitled ones under
/// `enum`.
fn titled(option: &Value) -> Option<Vec<(Value, Option<Value>)>> {
    let title = option.get("title").or_else(|| option.get("description"));
    let values = match (option.get("const"), option.get("enum")) {
        (Some(value), _) => vec![(value.clone(), title.cloned())],
        (None, Some(Value::Array(values))) => {
            values.iter().map(|value| (value.clone(), None)).collect()
        }
        _ => return None,
    };
    values.iter().all(|(value, _)| value.is_string()).then_some(values)
}
