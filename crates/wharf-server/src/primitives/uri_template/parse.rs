//! Parser of URI templates.

use crate::primitives::uri_template::{
    CharClass, QueryPattern, TemplateAtom, TemplateVariable, UriTemplate, ValueShape, escaped,
};

/// Operator of RFC 6570: the way it expands its variables.
struct Operator {
    sign: char,
    /// String before the first value.
    first: &'static str,
    /// Separator of values.
    separator: char,
    /// Bytes of one value.
    class: CharClass,
    /// Bytes of a list of values.
    list: CharClass,
}

const fn row(
    sign: char,
    first: &'static str,
    separator: char,
    class: CharClass,
    list: CharClass,
) -> Operator {
    Operator { sign, first, separator, class, list }
}

static OPERATORS: [Operator; 6] = [
    row(' ', "", ',', CharClass::Item(b','), CharClass::Segment),
    row('+', "", ',', CharClass::Anything, CharClass::Anything),
    row('#', "#", ',', CharClass::Anything, CharClass::Anything),
    row('.', ".", '.', CharClass::Segment, CharClass::Segment),
    row('/', "/", '/', CharClass::Segment, CharClass::Segments),
    row(';', ";", ';', CharClass::Item(b';'), CharClass::Segment),
];

pub(super) fn parse(text: &str) -> Result<UriTemplate, String> {
    let mut parser = TemplateParser::default();
    let mut rest = text;
    while let Some((literal, tail)) = rest.split_once('{') {
        let (expression, tail) = tail.split_once('}').ok_or("a `{` has no `}` after it")?;
        parser.literal(literal)?;
        parser.expression(expression)?;
        rest = tail;
    }
    parser.literal(rest)?;
    parser.finish()
}

#[derive(Default)]
struct TemplateParser {
    body: Vec<TemplateAtom>,
    query: Option<QueryPattern>,
    fragment: Vec<TemplateAtom>,
    variables: Vec<TemplateVariable>,
    has_escapes: bool,
}

impl TemplateParser {
    fn literal(&mut self, text: &str) -> Result<(), String> {
        if text.contains('}') {
            return Err("a `}` has no `{` before it".into());
        }
        if text.is_empty() {
            return Ok(());
        }
        if self.query.is_some() && self.fragment.is_empty() && !text.starts_with('#') {
            return Err(format!("`{text}` cannot follow the query: only a fragment can"));
        }
        let text = escaped(text).into_owned();
        self.has_escapes |= text.contains('%');
        self.atoms().push(TemplateAtom::Literal(text));
        Ok(())
    }

    fn expression(&mut self, text: &str) -> Result<(), String> {
        let sign = text.chars().next().filter(|sign| !is_name(*sign) && *sign != '%');
        let names = sign.map_or(text, |sign| &text[sign.len_utf8()..]);
        match sign {
            Some(sign) if sign.is_whitespace() => {
                let name = text.trim();
                Err(format!("`{{{text}}}`: an expression has no spaces: write `{{{name}}}`"))
            }
            Some('?' | '&') => self.query_variables(names),
            _ => {
                let sign = sign.unwrap_or(' ');
                let operator = OPERATORS.iter().find(|operator| operator.sign == sign);
                let operator = operator
                    .ok_or_else(|| format!("`{{{text}}}`: there is no operator `{sign}`"))?;
                self.path_variables(text, operator, names)
            }
        }
    }

    fn path_variables(
        &mut self,
        text: &str,
        operator: &Operator,
        names: &str,
    ) -> Result<(), String> {
        if self.query.is_some() && operator.sign != '#' && self.fragment.is_empty() {
            return Err(format!("`{{{text}}}` cannot follow the query: only a fragment can"));
        }
        if operator.first.is_empty()
            && matches!(self.atoms().last(), Some(TemplateAtom::Capture { .. }))
        {
            return Err(format!(
                "`{{{text}}}` follows another variable directly: put something between them"
            ));
        }
        let mut open = vec![];
        let last = names.matches(',').count();
        for (index, name) in names.split(',').enumerate() {
            let (name, exploded) = match name.strip_suffix('*') {
                Some(name) => (name, true),
                None => (name, false),
            };
            let shape = operator.shape(exploded);
            let variable = self.variable(name, shape, operator.class == CharClass::Anything)?;
            let atoms = self.atoms();
            // Values after the first may be missing, and so may the first if the operator has a
            // prefix.
            let least = usize::from(index == 0 && operator.first.is_empty());
            if least == 0 {
                open.push(atoms.len());
                atoms.push(TemplateAtom::Optional(usize::MAX));
                atoms.push(TemplateAtom::Literal(operator.separator(index)));
            }
            if shape == ValueShape::Parameter {
                atoms.push(TemplateAtom::Literal(name.into()));
            }
            // A comma is part of the value if no other value can follow it.
            let class = match operator.class {
                CharClass::Item(b',') if !names.contains(',') => CharClass::Segment,
                _ if exploded => operator.list,
                class => class,
            };
            atoms.push(TemplateAtom::Capture { variable, class, least });
            // An unnamed value is missing together with those after it.
            if operator.sign == ';' || index == last {
                let end = atoms.len();
                open.drain(..).for_each(|index| atoms[index] = TemplateAtom::Optional(end));
            }
        }
        Ok(())
    }

    fn query_variables(&mut self, names: &str) -> Result<(), String> {
        if !self.fragment.is_empty() {
            return Err("a query cannot follow the fragment".into());
        }
        let mut query = match self.query.take() {
            Some(query) => query,
            None => QueryPattern { fixed: self.fixed_pairs()?, variables: vec![] },
        };
        for name in names.split(',') {
            let (name, shape) = match name.strip_suffix('*') {
                Some(name) => (name, ValueShape::List('&')),
                None => (name, ValueShape::One),
            };
            query.variables.push(self.variable(name, shape, true)?);
        }
        self.query = Some(query);
        Ok(())
    }

    /// Parses the literal pairs after a `?` of the template, before its first query expression.
    fn fixed_pairs(&mut self) -> Result<Vec<(String, String)>, String> {
        let mark =
            |atom: &TemplateAtom| matches!(atom, TemplateAtom::Literal(text) if text.contains('?'));
        let Some(index) = self.body.iter().position(mark) else { return Ok(vec![]) };
        let [TemplateAtom::Literal(text)] = &self.body[index..] else {
            return Err("a variable follows a literal `?`: write `{?name}` instead".into());
        };
        let (path, pairs) = text.split_once('?').unwrap_or((text, ""));
        let pairs = pairs.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        };
        let (path, pairs) = (path.to_owned(), pairs.map(pair).collect());
        self.body[index] = TemplateAtom::Literal(path);
        Ok(pairs)
    }

    fn variable(&mut self, name: &str, shape: ValueShape, slashes: bool) -> Result<usize, String> {
        if let Some((name, _)) = name.split_once(':') {
            return Err(format!("`{name}:n` (a prefix) is not supported: use `{{{name}}}`"));
        }
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!(
                "`{name}` is not a variable name: use letters, digits and `_`, without spaces"
            ));
        }
        if self.variables.iter().any(|variable| variable.name == name) {
            return Err(format!("the variable `{name}` appears twice"));
        }
        self.variables.push(TemplateVariable { name: name.into(), shape, slashes });
        Ok(self.variables.len() - 1)
    }

    fn atoms(&mut self) -> &mut Vec<TemplateAtom> {
        if self.query.is_some() { &mut self.fragment } else { &mut self.body }
    }

    fn finish(mut self) -> Result<UriTemplate, String> {
        let prefix = match self.body.first_mut() {
            Some(TemplateAtom::Literal(text)) => std::mem::take(text),
            _ => String::new(),
        };
        let TemplateParser { body, query, fragment, variables, has_escapes } = self;
        Ok(UriTemplate { prefix, body, query, fragment, variables, has_escapes })
    }
}

impl Operator {
    fn shape(&self, exploded: bool) -> ValueShape {
        match self.sign {
            _ if exploded => ValueShape::List(self.separator),
            ';' => ValueShape::Parameter,
            _ => ValueShape::One,
        }
    }

    fn separator(&self, index: usize) -> String {
        if index == 0 { self.first.into() } else { self.separator.into() }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
