//! Benchmark program for a JSON Schema validator: `VALIDATOR validate|compile SCHEMA CALLS` prints the nanoseconds per
//! call.

use std::env;
use std::hint::black_box;
use std::time::Instant;

use serde_json::Value;
use wharf_schema::validate::{MAX_STEPS, Schema};

const USAGE: &str = "usage: wharf|jsonschema validate|compile SCHEMA CALLS";

/// Schemas of tools from real servers with matching arguments: written by hand, by Zod and by Pydantic.
const SCHEMAS: [(&str, &str); 3] = [
    ("issue", include_str!("../../schemas/issue.json")),
    ("event", include_str!("../../schemas/event.json")),
    ("order", include_str!("../../schemas/order.json")),
];

/// Compiled schema of one of the validators.
enum Compiled {
    Wharf(Schema),
    JsonSchema(Box<jsonschema::Validator>),
}

impl Compiled {
    fn new(validator: &str, schema: &Value) -> Result<Self, String> {
        match validator {
            "wharf" => Schema::compile(schema).map(Compiled::Wharf),
            "jsonschema" => {
                // Wharf validates formats in all dialects.
                let options = jsonschema::options().should_validate_formats(true);
                let built = options.build(schema).map_err(|e| e.to_string())?;
                Ok(Compiled::JsonSchema(Box::new(built)))
            }
            _ => Err(USAGE.to_owned()),
        }
    }
}

fn main() -> Result<(), String> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [validator, operation, name, calls] = words[..] else { return Err(USAGE.to_owned()) };
    let calls: u32 = calls.parse().map_err(|_| USAGE.to_owned())?;
    let (_, text) = SCHEMAS.iter().find(|(known, _)| *known == name).ok_or(USAGE)?;
    let data: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let (schema, value) = (&data["schema"], &data["value"]);
    let began = match operation {
        "validate" => {
            let compiled = Compiled::new(validator, schema)?;
            let began = Instant::now();
            validate(&compiled, value, calls)?;
            began
        }
        "compile" => {
            let began = Instant::now();
            for _ in 0..calls {
                black_box(Compiled::new(validator, black_box(schema))?);
            }
            began
        }
        _ => return Err(USAGE.to_owned()),
    };
    println!("{}", began.elapsed().as_nanos() as f64 / f64::from(calls));
    Ok(())
}

fn validate(compiled: &Compiled, value: &Value, calls: u32) -> Result<(), String> {
    for _ in 0..calls {
        let value = black_box(value);
        let fits = match compiled {
            Compiled::Wharf(schema) => {
                schema.is_valid(value, MAX_STEPS).map_err(|e| e.to_string())?
            }
            Compiled::JsonSchema(schema) => schema.is_valid(value),
        };
        if !fits {
            return Err("the value does not match the schema".to_owned());
        }
    }
    Ok(())
}
