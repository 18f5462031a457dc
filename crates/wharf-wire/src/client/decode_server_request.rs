//! Decodes server-to-client requests (elicitation, sampling, roots).

use serde::{Deserialize, de::DeserializeOwned};
use wharf_model::{ClientRequest, Error, ErrorKind, Method, has_at_most};

use crate::client::read_object;
use crate::{Revision, server::message::unknown_method, versions::revision::Feature};

/// Maximum number of values in a request: its tree takes many times the memory of its text, and a server may
/// send several requests at once.
const MAX_REQUEST_VALUES: usize = 50_000;

/// Reads a server request from its method and the JSON text of its parameters.
///
/// # Errors
/// `MethodNotFound` if the revision does not have the request, `InvalidParams` if it is malformed.
pub(super) fn read_client_request(
    method: &str,
    params: &str,
    revision: Revision,
) -> Result<ClientRequest, Error> {
    #[derive(Deserialize)]
    struct Mode {
        mode: Option<String>,
    }
    let mode = |params| match revision.has(Feature::ElicitationModes) {
        true => read::<Mode>(params).map(|it| it.mode),
        false => Ok(None),
    };
    if !has_at_most(params, MAX_REQUEST_VALUES) {
        return Err(malformed(format!("the request has more than {MAX_REQUEST_VALUES} values")));
    }
    Ok(match Method::from_name(method) {
        Some(Method::ListRoots) => ClientRequest::Roots,
        Some(Method::Sample) => ClientRequest::Sample(Box::new(read(params)?)),
        Some(Method::Elicit) if revision.has(Feature::Elicitation) => {
            match mode(params)?.as_deref() {
                None | Some("form") => ClientRequest::Elicit(Box::new(read(params)?)),
                Some("url") => ClientRequest::ElicitUrl(Box::new(read(params)?)),
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
