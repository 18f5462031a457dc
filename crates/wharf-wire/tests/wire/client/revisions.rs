//! Answers of the client codec about its revision.

use serde_json::json;
use wharf_model::{Method, ServerCapabilities, TASKS_EXTENSION};
use wharf_wire::{Era, Revision};

use crate::common::client_codec;

#[test]
fn each_revision_has_the_features_of_its_era() {
    for revision in Revision::ALL {
        let codec = client_codec(revision);
        let is_legacy = revision.era() == Era::Legacy;
        assert_eq!(codec.has_sessions(), is_legacy, "{revision}");
        assert_eq!(codec.has_server_requests(), is_legacy, "{revision}");
        assert_eq!(codec.has_param_headers(), !is_legacy, "{revision}");
        assert_eq!(codec.ping_method(), if is_legacy { "ping" } else { "server/discover" });
        for method in [Method::Discover, Method::Listen] {
            assert_eq!(codec.has(method), !is_legacy, "{revision} {method:?}");
        }
        assert!(codec.has(Method::CallTool));
    }
    for era in [Era::Modern, Era::Legacy] {
        let newest = Revision::ALL.into_iter().rfind(|revision| revision.era() == era);
        assert_eq!(newest, Some(Revision::newest(era)));
    }
}

#[test]
fn tasks_of_the_other_era_are_removed() {
    for revision in Revision::ALL {
        let mut capabilities = ServerCapabilities::default();
        capabilities.tasks = Some(Box::default());
        for extension in [TASKS_EXTENSION, "com.example/other"] {
            capabilities.extensions.insert(extension.into(), json!({}));
        }
        client_codec(revision).remove_foreign_tasks(&mut capabilities);
        let is_legacy = revision.era() == Era::Legacy;
        assert_eq!(capabilities.tasks.is_some(), is_legacy, "{revision}");
        assert_eq!(capabilities.extensions.contains_key(TASKS_EXTENSION), !is_legacy);
        assert!(capabilities.extensions.contains_key("com.example/other"));
    }
}
