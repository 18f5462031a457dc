//! Validation of a call's arguments against their schema, and the error for invalid ones.
//! `wharf-wire/src/server/tool_result_or_error.rs` selects the errors that become tool results with `isError`.

use wharf_model::{Error, ErrorKind};

use crate::{
    handler::extract::{CallInput, Extract, Incoming},
    schema::validator::SchemaValidator,
};

impl CallInput<'_> {
    /// Returns the kind of the error for invalid arguments.
    pub(crate) fn invalid(self) -> ErrorKind {
        match self {
            CallInput::Json => ErrorKind::InvalidToolArguments,
            CallInput::Prompt(_) => ErrorKind::InvalidPromptArguments,
            CallInput::Resource(..) | CallInput::Completion(_) | CallInput::Params(_) => {
                ErrorKind::InvalidParams
            }
        }
    }
}

impl Incoming<'_> {
    /// Extracts a handler's parameters, and validates its arguments against their schema.
    pub(crate) fn read<A: Extract>(&self) -> Result<A, Error> {
        let parameters = A::extract(self).map_err(|error| self.explain(error))?;
        let Some(validator) = self.validator else { return Ok(parameters) };
        let checked = match self.input {
            CallInput::Json => validator.check_json(self.request.arguments(), self.max_values()),
            CallInput::Prompt(pairs) | CallInput::Resource(pairs, _) => {
                validator.check_strings(pairs)
            }
            CallInput::Params(json) => validator.check_json(json, self.max_values()),
            CallInput::Completion(_) => Ok(()),
        };
        checked.map(|()| parameters).map_err(|problems| self.invalid(&problems))
    }

    /// Adds details to the error for arguments that could not be deserialized: serde does not name
    /// the fields.
    fn explain(&self, error: Error) -> Error {
        let json = match self.input {
            CallInput::Json if error.kind.is_invalid_tool_arguments() => self.request.arguments(),
            CallInput::Params(json) if error.kind == ErrorKind::InvalidParams => json,
            _ => return error,
        };
        let Some(validator) = self.validator else { return error };
        match validator.explain_json(json, self.max_values()) {
            Some(problems) => self.invalid(&problems),
            None => self.invalid(&format!("- {}", error.message)),
        }
    }

    fn invalid(&self, problems: &str) -> Error {
        let (target, kind) = (self.request.target(), self.input.invalid());
        let signature = self.validator.map(SchemaValidator::signature).unwrap_or_default();
        Error::new(kind).with_message(format!(
            "Invalid arguments for `{target}`:\n{problems}\nIt takes: {signature}"
        ))
    }
}
