//! Facts about each protocol revision for observers.

use wharf_model::{Error, Method, ProtocolInfo};

use crate::server::tool_result_or_error::is_tool_result;
use crate::{ErrorProfile, Revision, server::encode_error::error_code};

const REVISIONS: usize = Revision::ALL.len();

/// One row for each revision with the error codes of the specification, then one with those of the registry.
static ROWS: [ProtocolInfo; 2 * REVISIONS] = {
    let mut rows = [row(0); 2 * REVISIONS];
    let mut number = 0;
    while number < rows.len() {
        rows[number] = row(number);
        number += 1;
    }
    rows
};

const fn row(number: usize) -> ProtocolInfo {
    let revision = Revision::ALL[number % REVISIONS];
    ProtocolInfo::new(revision.as_str(), revision.discover_name(), number, code_in_row)
}

fn code_in_row(number: usize, error: &Error, method: Method) -> Option<i32> {
    let revision = Revision::ALL[number % REVISIONS];
    let profile = if number < REVISIONS { ErrorProfile::Spec } else { ErrorProfile::Registry };
    match is_tool_result(error.kind, method, revision) {
        true => None,
        false => Some(error_code(profile, error, revision)),
    }
}

/// Returns the facts about a revision for a server with these error codes.
pub(crate) fn of(revision: Revision, profile: ErrorProfile) -> &'static ProtocolInfo {
    let offset = match profile {
        ErrorProfile::Spec => 0,
        ErrorProfile::Registry => REVISIONS,
    };
    &ROWS[offset + revision.index()]
}

#[cfg(test)]
mod tests {
    use wharf_model::ErrorKind;

    use super::*;

    #[test]
    fn facts_and_codes_are_those_of_the_revision_and_the_profile() {
        let missing = Error::new(ErrorKind::ResourceNotFound);
        let code = |revision, profile, method| of(revision, profile).error_code(&missing, method);
        for revision in Revision::ALL {
            assert_eq!(of(revision, ErrorProfile::Spec).version, revision.as_str());
            assert_eq!(
                code(revision, ErrorProfile::Spec, Method::ReadResource),
                Some(crate::versions::error_codes::code(ErrorKind::ResourceNotFound, revision))
            );
        }
        let legacy = Revision::NEWEST_LEGACY;
        assert_eq!(code(legacy, ErrorProfile::Registry, Method::ReadResource), Some(-32001));
        assert_eq!(of(legacy, ErrorProfile::Spec).discover, "initialize");
        assert_eq!(of(Revision::FIRST_MODERN, ErrorProfile::Spec).discover, "server/discover");
        let failed = Error::new(ErrorKind::ToolExecutionFailed);
        let spec = of(legacy, ErrorProfile::Spec);
        assert_eq!(spec.error_code(&failed, Method::CallTool), None);
    }
}
