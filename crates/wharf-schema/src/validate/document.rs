//! Index of a schema document: schema resources and anchors, for resolving references.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{dialect::Draft, metaschema, uri};
use crate::schema_problems::subschemas;

/// Maximum nesting depth of a schema that is compiled.
const MAX_SCHEMA_DEPTH: usize = 256;

/// Maximum length of a resolved schema URI. Each nested `$id` is resolved against the outer one, so
/// lengths of nested URIs would add up.
pub(crate) const MAX_URI_BYTES: usize = 2048;

/// A schema with its own URI (schema resource).
pub(super) struct SchemaResource<'d> {
    pub(super) draft: Draft,
    /// Dynamic anchors, which references find through the dynamic scope.
    pub(super) dynamic: Vec<(&'d str, &'d Value)>,
    pub(super) uri: String,
    pub(super) root: &'d Value,
    pub(super) anchors: HashMap<&'d str, &'d Value>,
}

/// Location of a schema in a document.
#[derive(Clone, Copy)]
pub(super) struct SchemaLocation<'d> {
    pub(super) schema: &'d Value,
    pub(super) resource: usize,
}

/// A schema with all schema resources inside it.
pub(super) struct SchemaDocument<'d> {
    pub(super) resources: Vec<SchemaResource<'d>>,
    by_root: HashMap<*const Value, usize>,
    pub(super) by_uri: HashMap<String, usize>,
    /// Metaschemas that the document refers to.
    built_in: Vec<Draft>,
}

impl<'d> SchemaDocument<'d> {
    pub(super) fn new(root: &'d Value) -> Result<Self, String> {
        let (by_root, by_uri) = (HashMap::new(), HashMap::new());
        let mut document =
            SchemaDocument { resources: Vec::new(), by_root, by_uri, built_in: Vec::new() };
        let draft = root.as_object().and_then(Draft::named_in).unwrap_or(Draft::Y2020);
        document.add(root, String::new(), draft);
        document.walk(SchemaLocation { schema: root, resource: 0 }, 0)?;
        for draft in std::mem::take(&mut document.built_in) {
            // A schema of the document with the same URI takes precedence.
            let (address, schema) = metaschema::of(draft);
            let resource = document.add(schema, address.into(), draft);
            document.walk(SchemaLocation { schema, resource }, 0)?;
        }
        Ok(document)
    }

    fn add(&mut self, root: &'d Value, uri: String, draft: Draft) -> usize {
        let at = self.resources.len();
        self.by_root.insert(root, at);
        // The first of several schemas with one URI wins.
        self.by_uri.entry(uri.clone()).or_insert(at);
        let (dynamic, anchors) = (Vec::new(), HashMap::new());
        self.resources.push(SchemaResource { draft, dynamic, uri, root, anchors });
        at
    }

    fn walk(&mut self, at: SchemaLocation<'d>, depth: usize) -> Result<(), String> {
        let Value::Object(map) = at.schema else { return Ok(()) };
        if depth > MAX_SCHEMA_DEPTH {
            return Err(format!("the schema is nested more than {MAX_SCHEMA_DEPTH} deep"));
        }
        let resource = self.note_id(at, map)?;
        self.note_anchors(SchemaLocation { resource, ..at }, map);
        self.note_built_in(resource, map);
        for (_, _, schema) in subschemas(map) {
            self.walk(SchemaLocation { schema, resource }, depth + 1)?;
        }
        Ok(())
    }

    /// Registers the URI of a schema; returns the schema resource that it belongs to.
    fn note_id(
        &mut self,
        at: SchemaLocation<'d>,
        map: &'d Map<String, Value>,
    ) -> Result<usize, String> {
        let outer = &self.resources[at.resource];
        let draft = Draft::named_in(map).unwrap_or(outer.draft);
        let id = map.get(draft.id_keyword()).and_then(Value::as_str);
        let hidden = draft.ref_stands_alone() && map.contains_key("$ref");
        let Some(id) = id.filter(|_| !hidden) else { return Ok(at.resource) };
        if id.len() > MAX_URI_BYTES {
            return Err(too_long());
        }
        let (address, anchor) = uri::split(id);
        let mut resource = at.resource;
        if !address.is_empty() {
            let uri = uri::resolve(&outer.uri, address);
            if uri.len() > MAX_URI_BYTES {
                return Err(too_long());
            }
            resource = match self.by_root.get(&std::ptr::from_ref(at.schema)) {
                Some(root) => {
                    self.by_uri.entry(uri.clone()).or_insert(*root);
                    self.resources[*root].uri = uri;
                    *root
                }
                None => self.add(at.schema, uri, draft),
            };
        }
        if !anchor.is_empty() {
            self.resources[resource].anchors.entry(anchor).or_insert(at.schema);
        }
        Ok(resource)
    }

    fn note_anchors(&mut self, at: SchemaLocation<'d>, map: &'d Map<String, Value>) {
        let resource = &mut self.resources[at.resource];
        let text = |keyword| map.get(keyword).and_then(Value::as_str);
        if resource.draft >= Draft::Y2019
            && let Some(name) = text("$anchor")
        {
            resource.anchors.entry(name).or_insert(at.schema);
        }
        if resource.draft >= Draft::Y2020
            && let Some(name) = text("$dynamicAnchor")
        {
            resource.anchors.entry(name).or_insert(at.schema);
            resource.dynamic.push((name, at.schema));
        }
        let is_recursive = map.get("$recursiveAnchor") == Some(&Value::Bool(true));
        if resource.draft == Draft::Y2019 && is_recursive {
            // `$recursiveAnchor` equals a dynamic anchor without a name.
            resource.dynamic.push(("", at.schema));
        }
    }

    /// Registers the metaschema that a reference names.
    fn note_built_in(&mut self, resource: usize, map: &'d Map<String, Value>) {
        let base = &self.resources[resource].uri;
        let refs = ["$ref", "$dynamicRef"].into_iter().filter_map(|it| map.get(it)?.as_str());
        let addresses = refs.map(|to| uri::split(to).0).filter(|it| !it.is_empty());
        for address in addresses {
            let draft = metaschema::dialect_at(&uri::resolve(base, address));
            if let Some(draft) = draft.filter(|it| !self.built_in.contains(it)) {
                self.built_in.push(draft);
            }
        }
    }

    /// Schema resource of `schema`, whose enclosing resource is `outer`.
    pub(super) fn resource_of(&self, schema: &Value, outer: usize) -> usize {
        self.by_root.get(&std::ptr::from_ref(schema)).copied().unwrap_or(outer)
    }
}

fn too_long() -> String {
    format!("a resolved `$id` is longer than {MAX_URI_BYTES} bytes")
}
