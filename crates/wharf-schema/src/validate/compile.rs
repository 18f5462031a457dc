//! Compiles a schema document into a list of schemas that refer to each other by index.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::problem_report;

use super::{
    Schema,
    dialect::Draft,
    document::{SchemaDocument, SchemaLocation},
    keywords::KEYWORDS,
    pattern::Pattern,
};
use crate::validate::compiled::{ANY, NEVER, NamedList, Rule, SchemaId, SchemaNode, TypeSet};

/// Maximum number of operations for all patterns of one schema.
const OPERATIONS: usize = 65_536;

/// State of a compilation.
pub(super) struct SchemaCompiler<'d> {
    pub(super) document: SchemaDocument<'d>,
    nodes: Vec<SchemaNode>,
    ids: HashMap<*const Value, SchemaId>,
    pending: Vec<PendingSchema<'d>>,
    /// Remaining operations for patterns.
    pattern_budget: usize,
    /// True if a `$dynamicRef` is used, whose target depends on the dynamic scope.
    is_dynamic: bool,
}

/// A schema with an id whose rules are not compiled yet.
struct PendingSchema<'d> {
    id: SchemaId,
    at: SchemaLocation<'d>,
    /// Its location, as a JSON pointer.
    pointer: String,
}

/// Compiles a document.
pub(super) fn compile(root: &Value) -> Result<Schema, String> {
    let document = SchemaDocument::new(root)?;
    let never = SchemaNode { rules: [Rule::Never].into(), ..SchemaNode::default() };
    let mut compiler = SchemaCompiler {
        document,
        nodes: vec![never, SchemaNode::default()],
        ids: HashMap::new(),
        pending: Vec::new(),
        pattern_budget: OPERATIONS,
        is_dynamic: false,
    };
    let root = compiler.node(SchemaLocation { schema: root, resource: 0 }, String::new())?;
    compiler.drain()?;
    let anchors = compiler.anchors()?;
    compiler.reject_cycles()?;
    compiler.note_aliases();
    compiler.note_sufficient_types();
    Ok(Schema { root, nodes: compiler.nodes.into(), anchors })
}

impl<'d> SchemaCompiler<'d> {
    /// Id of the schema at this location; queues it for compilation if it is new.
    pub(super) fn node(
        &mut self,
        at: SchemaLocation<'d>,
        pointer: String,
    ) -> Result<SchemaId, String> {
        match at.schema {
            Value::Bool(false) => return Ok(NEVER),
            Value::Bool(true) => return Ok(ANY),
            Value::Object(_) => {}
            _ => return Err(format!("`{pointer}`: a schema is an object or a boolean")),
        }
        if let Some(ids) = self.ids.get(&std::ptr::from_ref(at.schema)) {
            return Ok(*ids);
        }
        let id = self.nodes.len();
        self.nodes.push(SchemaNode::default());
        self.ids.insert(at.schema, id);
        self.pending.push(PendingSchema { id, at, pointer });
        Ok(id)
    }

    fn drain(&mut self) -> Result<(), String> {
        while let Some(PendingSchema { id, at, pointer }) = self.pending.pop() {
            let Value::Object(map) = at.schema else { continue };
            let resource = self.document.resource_of(at.schema, at.resource);
            let draft = self.document.resources[resource].draft;
            let mut reader = SchemaReader {
                compiler: self,
                map,
                draft,
                resource,
                pointer: &pointer,
                types: TypeSet::default(),
                rules: Vec::new(),
            };
            reader.read().map_err(|problem| match &*pointer {
                "" => problem,
                pointer => format!("`{pointer}`: {problem}"),
            })?;
            let (types, rules): (_, Box<[Rule]>) = (reader.types, reader.rules.into());
            let is_last = |rule: &Rule| {
                matches!(rule, Rule::UnevaluatedItems(_) | Rule::UnevaluatedProperties(_))
            };
            let is_flat = rules.iter().all(Rule::is_flat);
            let needs_marks = rules.last().is_some_and(is_last);
            self.nodes[id] = SchemaNode {
                resource,
                types,
                rules,
                needs_marks,
                is_flat,
                ..SchemaNode::default()
            };
        }
        Ok(())
    }

    /// Dynamic anchors of each schema resource; empty without dynamic references.
    fn anchors(&mut self) -> Result<Vec<NamedList<SchemaId>>, String> {
        if !self.is_dynamic {
            return Ok(Vec::new());
        }
        let mut anchors = Vec::new();
        for resource in 0..self.document.resources.len() {
            let mut named = Vec::new();
            for (name, schema) in self.document.resources[resource].dynamic.clone() {
                let id = self.node(SchemaLocation { schema, resource }, format!("#{name}"))?;
                named.push((name.into(), id));
            }
            anchors.push(named.into());
        }
        self.drain()?;
        Ok(anchors)
    }

    fn note_aliases(&mut self) {
        if self.is_dynamic {
            return;
        }
        for node in &mut self.nodes {
            node.alias = match *node.rules {
                [Rule::Reference(id)] if node.types == TypeSet::default() => Some(id),
                _ => None,
            };
        }
    }

    fn note_sufficient_types(&mut self) {
        for id in 0..self.nodes.len() {
            let [Rule::AnyOf(alternatives)] = &*self.nodes[id].rules else { continue };
            let alternatives = alternatives.iter().map(|id| &self.nodes[*id]);
            let types = alternatives.filter(|it| it.rules.is_empty()).map(|it| it.types);
            self.nodes[id].sufficient = types.reduce(TypeSet::and);
        }
    }

    /// Rejects reference cycles that do not descend into the value, because evaluation would not
    /// end.
    fn reject_cycles(&self) -> Result<(), String> {
        let mut into = vec![0_usize; self.nodes.len()];
        for node in &self.nodes {
            in_place(node).for_each(|id| into[id] += 1);
        }
        let mut free: Vec<SchemaId> = (0..into.len()).filter(|id| into[*id] == 0).collect();
        let mut seen = 0;
        while let Some(id) = free.pop() {
            seen += 1;
            for next in in_place(&self.nodes[id]) {
                into[next] -= 1;
                if into[next] == 0 {
                    free.push(next);
                }
            }
        }
        if seen == self.nodes.len() {
            return Ok(());
        }
        Err("the schema has a reference cycle that never descends into the value".into())
    }
}

/// Subschemas that apply to the same value.
fn in_place(node: &SchemaNode) -> impl Iterator<Item = SchemaId> {
    node.rules.iter().flat_map(|rule| match rule {
        Rule::AllOf(ids) | Rule::AnyOf(ids) | Rule::OneOf(ids) => ids.to_vec(),
        Rule::Not(id, _) | Rule::Reference(id) => vec![*id],
        Rule::If { condition, then, otherwise } => vec![*condition, *then, *otherwise],
        Rule::DependentSchemas(all) => all.iter().map(|(_, id)| *id).collect(),
        _ => Vec::new(),
    })
}

/// Reads the keywords of one schema.
pub(super) struct SchemaReader<'c, 'd> {
    pub(super) compiler: &'c mut SchemaCompiler<'d>,
    pub(super) map: &'d Map<String, Value>,
    pub(super) draft: Draft,
    pub(super) resource: usize,
    pointer: &'c str,
    pub(super) types: TypeSet,
    pub(super) rules: Vec<Rule>,
}

impl<'d> SchemaReader<'_, 'd> {
    fn read(&mut self) -> Result<(), String> {
        let only_ref = self.draft.ref_stands_alone() && self.map.contains_key("$ref");
        for (keywords, drafts, read) in KEYWORDS {
            let is_meant = !only_ref || keywords.contains(&"$ref");
            if is_meant
                && drafts.contains(&self.draft)
                && let Some(first) = keywords.iter().find(|it| self.map.contains_key(**it))
            {
                read(self, first)?;
            }
        }
        Ok(())
    }

    pub(super) fn get(&self, keyword: &str) -> Option<&'d Value> {
        self.map.get(keyword)
    }

    /// Id of a subschema under a keyword, or under a keyword and a name.
    pub(super) fn node(&mut self, schema: &'d Value, under: &str) -> Result<SchemaId, String> {
        let resource = self.compiler.document.resource_of(schema, self.resource);
        self.compiler.node(
            SchemaLocation { schema, resource },
            problem_report::shorten(format!("{}/{under}", self.pointer)),
        )
    }

    /// Records that the schema contains a dynamic reference.
    pub(super) fn is_dynamic(&mut self) {
        self.compiler.is_dynamic = true;
    }

    pub(super) fn pattern(&mut self, source: &str) -> Result<Pattern, String> {
        Pattern::new(source, &mut self.compiler.pattern_budget)
    }
}
