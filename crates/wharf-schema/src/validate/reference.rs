//! Resolves references (`$ref`, `$dynamicRef`, `$recursiveRef`) within a schema. A remote schema is never fetched: a reference
//! to one has no target.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    compile::SchemaReader,
    compiled::SchemaId,
    document::{SchemaDocument, SchemaLocation},
    metaschema, uri,
};
use crate::problem_report::shorten;

/// Target of a reference.
pub(super) struct ReferenceTarget {
    pub(super) id: SchemaId,
    /// Dynamic anchor of the target.
    pub(super) anchor: Option<Box<str>>,
}

impl<'d> SchemaReader<'_, 'd> {
    /// Resolves a reference.
    pub(super) fn target(&mut self, keyword: &str, to: &str) -> Result<ReferenceTarget, String> {
        let Some(at) = self.compiler.document.locate(self.resource, to) else {
            return Err(format!("`{keyword}` to `{to}` has no target in the schema"));
        };
        let dynamic = &self.compiler.document.resources[at.resource].dynamic;
        let anchor = dynamic.iter().find(|(_, schema)| std::ptr::eq(*schema, at.schema));
        let anchor = anchor.map(|(name, _)| (*name).into());
        Ok(ReferenceTarget { id: self.compiler.node(at, shorten(to.to_owned()))?, anchor })
    }
}

impl<'d> SchemaDocument<'d> {
    /// Resolves a reference in `resource`.
    fn locate(&self, resource: usize, reference: &str) -> Option<SchemaLocation<'d>> {
        let (address, fragment) = uri::split(reference);
        let resource = match address {
            "" => resource,
            address => *self.by_uri.get(&uri::resolve(&self.resources[resource].uri, address))?,
        };
        let target = &self.resources[resource];
        let fragment = uri::decoded(fragment);
        if fragment.is_empty() {
            return Some(SchemaLocation { schema: target.root, resource });
        }
        match fragment.strip_prefix('/') {
            Some(pointer) => self.follow(SchemaLocation { schema: target.root, resource }, pointer),
            None => {
                let schema = target.anchors.get(fragment.as_str())?;
                Some(SchemaLocation { schema, resource })
            }
        }
    }

    fn follow(&self, from: SchemaLocation<'d>, pointer: &str) -> Option<SchemaLocation<'d>> {
        pointer.split('/').try_fold(from, |at, token| {
            let schema = match at.schema {
                Value::Object(map) => map.get(&token.replace("~1", "/").replace("~0", "~"))?,
                Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
            Some(SchemaLocation { schema, resource: self.resource_of(schema, at.resource) })
        })
    }
}

/// Returns whether a reference to `address` would have to be fetched: no subschema has it as its id.
pub(crate) fn is_remote(address: &str, ids: &HashSet<String>) -> bool {
    !ids.contains(address) && metaschema::dialect_at(address).is_none()
}
