//! Table of the fields that only some revisions have.

use crate::versions::revision::{
    Feature, LEGACY, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, Revision, RevisionRange,
    only, since,
};
#[cfg(test)]
use crate::versions::revision::{R2027_01_15, until};

/// Type whose fields differ between revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionedType {
    Annotations,
    CallParams,
    ClientCapabilities,
    Content,
    ElicitationCapability,
    FormField,
    Implementation,
    Prompt,
    PromptArgument,
    Resource,
    Root,
    RootsCapability,
    SamplingCapability,
    SamplingMessage,
    SamplingParams,
    ServerCapabilities,
    Tool,
}

/// Fields that only some revisions have, and the revisions that have them.
const FIELDS: &[(VersionedType, &str, RevisionRange)] = {
    use VersionedType::*;
    &[
        (Annotations, "lastModified", since(R2025_06_18)),
        (CallParams, "context", since(R2025_06_18)),
        (CallParams, "inputResponses", since(R2026_07_28)),
        (CallParams, "requestState", since(R2026_07_28)),
        (ClientCapabilities, "elicitation", since(R2025_06_18)),
        (ClientCapabilities, "tasks", only(R2025_11_25)),
        (Content, "_meta", since(R2025_06_18)),
        (ElicitationCapability, "form", since(R2025_11_25)),
        (ElicitationCapability, "url", since(R2025_11_25)),
        (FormField, "default", since(R2025_11_25)),
        (Implementation, "title", since(R2025_06_18)),
        (Implementation, "description", since(R2025_11_25)),
        (Implementation, "websiteUrl", since(R2025_11_25)),
        (Implementation, "icons", since(R2025_11_25)),
        (Prompt, "title", since(R2025_06_18)),
        (Prompt, "_meta", since(R2025_06_18)),
        (Prompt, "icons", since(R2025_11_25)),
        (PromptArgument, "title", since(R2025_06_18)),
        (Resource, "title", since(R2025_06_18)),
        (Resource, "_meta", since(R2025_06_18)),
        (Resource, "icons", since(R2025_11_25)),
        (Root, "_meta", since(R2025_06_18)),
        (RootsCapability, "listChanged", LEGACY),
        (SamplingCapability, "context", since(R2025_11_25)),
        (SamplingCapability, "tools", since(R2025_11_25)),
        (SamplingMessage, "_meta", since(R2025_11_25)),
        (SamplingParams, "tools", since(R2025_11_25)),
        (SamplingParams, "toolChoice", since(R2025_11_25)),
        (SamplingParams, "_meta", LEGACY),
        (ServerCapabilities, "completions", since(R2025_03_26)),
        (ServerCapabilities, "tasks", only(R2025_11_25)),
        (Tool, "annotations", since(R2025_03_26)),
        (Tool, "title", since(R2025_06_18)),
        (Tool, "outputSchema", since(R2025_06_18)),
        (Tool, "_meta", since(R2025_06_18)),
        (Tool, "icons", since(R2025_11_25)),
        (Tool, "execution", only(R2025_11_25)),
        #[cfg(test)]
        (Annotations, "lastModified", until(R2026_07_28)),
        #[cfg(test)]
        (CallParams, "berth", since(R2027_01_15)),
        #[cfg(test)]
        (Content, "berth", since(R2027_01_15)),
        #[cfg(test)]
        (Implementation, "websiteUrl", until(R2026_07_28)),
        #[cfg(test)]
        (Tool, "berth", since(R2027_01_15)),
        #[cfg(test)]
        (Tool, "icons", until(R2026_07_28)),
    ]
};

/// For each revision, a bit for each type that lacks fields there.
static INCOMPLETE: [u32; Revision::ALL.len()] = {
    let mut incomplete = [0; Revision::ALL.len()];
    let mut row = 0;
    while row < FIELDS.len() {
        let mut index = 0;
        while index < incomplete.len() {
            if !FIELDS[row].2.has(Revision::ALL[index]) {
                incomplete[index] |= 1 << FIELDS[row].0 as u32;
            }
            index += 1;
        }
        row += 1;
    }
    incomplete
};

/// Whether each revision has content in the form of the model.
static CANONICAL_CONTENT: [bool; Revision::ALL.len()] = {
    use VersionedType::{Annotations, Content, Resource};
    let types = 1 << Annotations as u32 | 1 << Content as u32 | 1 << Resource as u32;
    let mut canonical = [false; Revision::ALL.len()];
    let mut index = 0;
    while index < canonical.len() {
        let revision = Revision::ALL[index];
        canonical[index] = INCOMPLETE[index] & types == 0
            && revision.has(Feature::Audio)
            && revision.has(Feature::Links)
            && revision.has(Feature::AnyJson);
        index += 1;
    }
    canonical
};

impl Revision {
    /// Returns whether content is written as the model has it, without translation.
    pub(crate) fn has_canonical_content(self) -> bool {
        CANONICAL_CONTENT[self.index()]
    }
}

impl VersionedType {
    /// Returns the fields of this type that `revision` does not have.
    pub(crate) fn unknown_to(self, revision: Revision) -> impl Iterator<Item = &'static str> {
        let missing = move |row: &&(VersionedType, &'static str, RevisionRange)| {
            row.0 == self && !row.2.has(revision)
        };
        FIELDS.iter().filter(missing).map(|row| row.1)
    }

    /// Returns whether `revision` has every field of this type.
    pub(crate) fn is_complete_in(self, revision: Revision) -> bool {
        INCOMPLETE[revision.index()] & 1 << self as u32 == 0
    }
}
