//! `wharf rpc`.

use serde_json::Value;

use crate::commands::Run;
use crate::{arguments::stdin, cli::Rpc, context::Context, error::CliError, target_argument};

impl Run for Rpc {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        let words = self.words.words.clone();
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        let (method, params) = match words.as_slice() {
            [method] => (method, Value::Null),
            [method, params] => (method, object(params)?),
            _ => {
                return Err(CliError::usage("No method is given, or too many arguments").hint(
                    "Write: METHOD, or: METHOD '{\"key\": ...}'; - reads it from stdin.".to_owned(),
                ));
            }
        };
        let client = context.connect(target).await?;
        let result = context.watch(client.request(method, params)).await;
        let result = result.map_err(CliError::with_code)?;
        let out = context.out;
        if !out.is_terminal() {
            return out.json(&result);
        }
        let value: Value = serde_json::from_str(result.get()).unwrap_or_default();
        out.json(&value)
    }
}

fn object(text: &str) -> Result<Value, CliError> {
    let read;
    let (text, place) = if text == "-" {
        read = stdin()?;
        (read.as_str(), "stdin")
    } else {
        (text, "the params")
    };
    match serde_json::from_str(text) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(_) => Err(CliError::usage(format!("Expected a JSON object in {place}"))),
        Err(error) => Err(CliError::usage(format!("The JSON in {place} cannot be read: {error}"))),
    }
}
