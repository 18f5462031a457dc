//! Version negotiation of a server: the revision that `initialize` selects, the supported revisions, and the error
//! for others.

use serde_json::json;
use wharf_model::{Error, ErrorKind, excerpt};

use crate::{Revision, ServerProtocol, SupportedEras, server::message::RequestRejection};

/// Negotiates the revision: echoes a known legacy one, otherwise returns the newest legacy one.
pub(crate) fn negotiate(version: &str) -> Revision {
    let known = version.parse().ok().filter(|revision: &Revision| !revision.is_modern());
    known.unwrap_or(Revision::NEWEST_LEGACY)
}

impl ServerProtocol {
    pub(crate) fn supports(&self, revision: Revision) -> bool {
        match self.eras {
            SupportedEras::Both => true,
            SupportedEras::Modern => revision.is_modern(),
            SupportedEras::Legacy => !revision.is_modern(),
        }
    }

    /// Returns the supported revisions, newest first.
    #[must_use]
    pub fn supported(&self) -> Vec<&'static str> {
        let all = Revision::ALL.into_iter().rev().filter(|revision| self.supports(*revision));
        all.map(Revision::as_str).collect()
    }

    /// Error for an unsupported version. The message lists the versions, because users may see nothing else.
    pub(crate) fn unsupported_version(&self, requested: &str) -> Error {
        let supported = self.supported();
        let message =
            format!("Unsupported protocol version; this server supports {}", supported.join(", "));
        Error::new(ErrorKind::UnsupportedProtocolVersion)
            .with_message(message)
            .with_data(json!({"supported": supported, "requested": excerpt(requested)}))
    }

    /// Refuses the version in a header. Modern clients take a modern error code as a sign of a modern server.
    pub(crate) fn unsupported_header(&self, requested: &str) -> RequestRejection {
        let revision = match self.eras {
            SupportedEras::Legacy => Revision::NEWEST_LEGACY,
            _ => Revision::NEWEST,
        };
        RequestRejection::new(self.unsupported_version(requested), revision)
    }
}
