//! Unicode properties by their ECMAScript names in `\p{…}`.

use std::{cmp::Ordering, collections::BTreeSet, sync::LazyLock};

use icu_properties::{
    CodePointMapData, CodePointSetData, CodePointSetDataBorrowed, PropertyParser,
    props::{GeneralCategory, GeneralCategoryGroup, Script, WhiteSpace},
    script::ScriptWithExtensions,
};

/// A Unicode property, as named in a pattern.
#[derive(Clone, Debug)]
pub(super) struct Property {
    name: Box<str>,
    kind: PropertyKind,
}

#[derive(Clone, Copy, Debug)]
enum PropertyKind {
    Any,
    Ascii,
    Assigned,
    Category(GeneralCategoryGroup),
    Script(Script),
    ScriptExtensions(Script),
    Binary(CodePointSetDataBorrowed<'static>),
}

impl Property {
    /// Property with this name. As in ECMAScript, names match exactly: case, spaces and hyphens are
    /// significant.
    pub(super) fn named(name: &str) -> Option<Self> {
        let kind = match name.split_once('=') {
            Some(("General_Category" | "gc", value)) => category(value)?,
            Some(("Script" | "sc", value)) => PropertyKind::Script(script(value)?),
            Some(("Script_Extensions" | "scx", value)) => {
                PropertyKind::ScriptExtensions(script(value)?)
            }
            Some(_) => return None,
            None => lone(name)?,
        };
        Some(Property { name: name.into(), kind })
    }

    pub(super) fn has(&self, char: char) -> bool {
        let category = || CodePointMapData::<GeneralCategory>::new().get(char);
        match self.kind {
            PropertyKind::Any => true,
            PropertyKind::Ascii => char.is_ascii(),
            PropertyKind::Assigned => category() != GeneralCategory::Unassigned,
            PropertyKind::Category(group) => group.contains(category()),
            PropertyKind::Script(script) => CodePointMapData::<Script>::new().get(char) == script,
            PropertyKind::ScriptExtensions(script) => {
                ScriptWithExtensions::new().has_script(char, script)
            }
            PropertyKind::Binary(set) => set.contains(char),
        }
    }
}

fn category(name: &str) -> Option<PropertyKind> {
    PropertyParser::<GeneralCategoryGroup>::new().get_strict(name).map(PropertyKind::Category)
}

/// Scripts that some character has; other ISO 15924 codes are not values of the property.
static SCRIPTS: LazyLock<BTreeSet<Script>> = LazyLock::new(|| {
    CodePointMapData::<Script>::new().iter_ranges().map(|range| range.value).collect()
});

fn script(name: &str) -> Option<Script> {
    PropertyParser::<Script>::new().get_strict(name).filter(|script| SCRIPTS.contains(script))
}

/// Property without a value: a binary property or a general category.
fn lone(name: &str) -> Option<PropertyKind> {
    Some(match name {
        "Any" => PropertyKind::Any,
        "ASCII" => PropertyKind::Ascii,
        "Assigned" => PropertyKind::Assigned,
        // ICU4X has only its other short name.
        "space" => PropertyKind::Binary(CodePointSetData::new::<WhiteSpace>()),
        _ => match CodePointSetData::new_for_ecma262(name.as_bytes()) {
            Some(set) => PropertyKind::Binary(set),
            None => category(name)?,
        },
    })
}

impl PartialEq for Property {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Property {}

impl PartialOrd for Property {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Property {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}
