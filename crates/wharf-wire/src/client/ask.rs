//! The questions of a server.

use serde::{Deserialize, de::DeserializeOwned};
use wharf_model::{Ask, Error, ErrorKind, Method};

use super::read_object;
use crate::{Revision, message::unknown_method, revision::Feature};

/// Reads a question: its method and the JSON text of its parameters.
///
/// # Errors
/// `MethodNotFound` if the revision has no such question, `InvalidParams` if it is malformed.
pub(super) fn read_ask(method: &str, params: &str, revision: Revision) -> Result<Ask, Error> {
    #[derive(Deserialize)]
    struct Mode {
        mode: Option<String>,
    }
    let mode = |params| match revision.has(Feature::ElicitationModes) {
        true => read::<Mode>(params).map(|it| it.mode),
        false => Ok(None),
    };
    Ok(match Method::from_name(method) {
        Some(Method::ListRoots) => Ask::Roots,
        Some(Method::Sample) => Ask::Sample(Box::new(read(params)?)),
        Some(Method::Elicit) if revision.has(Feature::Elicitation) => {
            match mode(params)?.as_deref() {
                None | Some("form") => Ask::Elicit(Box::new(read(params)?)),
                Some("url") => Ask::ElicitUrl(Box::new(read(params)?)),
                Some(mode) => return Err(malformed(format!("unknown mode {mode:?}"))),
            }
        }
        _ => return Err(unknown_method(method)),
    })
}

fn read<T: DeserializeOwned>(json: &str) -> Result<T, Error> {
    read_object(json).map_err(malformed)
}

fn malformed(problem: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidParams).with_message(format!("Invalid params: {problem}"))
}
