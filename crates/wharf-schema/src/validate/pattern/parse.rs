//! Parser for pattern syntax.

use std::{iter::Peekable, str::Chars, sync::Arc};

use super::{
    property::Property,
    set::{CharClass, CharSet, DIGIT, LINE_END, SPACE, WORD},
};

/// Maximum nesting depth of groups.
const MAX_GROUP_DEPTH: usize = 64;

/// Maximum length of a pattern.
const MAX_PATTERN_BYTES: usize = 16 * 1024;

/// Maximum number of characters between the braces of a quantifier.
const MAX_COUNT_CHARS: usize = 24;

/// Prefixes of lookaround groups: true if it is a lookbehind, true if it is positive.
const LOOKAROUNDS: [(&str, bool, bool); 4] =
    [("?=", false, true), ("?!", false, false), ("?<=", true, true), ("?<!", true, false)];

/// Syntax tree of a pattern. Groups are dropped, because captures are not used.
#[derive(Debug)]
pub(super) enum SyntaxNode {
    Char(char),
    Set(Arc<CharSet>),
    Start,
    End,
    /// True for `\b`, false for `\B`.
    Boundary(bool),
    Sequence(Vec<SyntaxNode>),
    Either(Vec<SyntaxNode>),
    Repeat(Box<SyntaxNode>, u32, Option<u32>),
    Look {
        inner: Box<SyntaxNode>,
        is_behind: bool,
        is_wanted: bool,
    },
}

/// A parsed pattern.
#[derive(Debug)]
pub(super) struct ParsedPattern {
    pub(super) piece: SyntaxNode,
    /// True if it is valid ECMAScript; some constructs of other dialects are tolerated.
    pub(super) is_ecma: bool,
    /// True if it contains a backreference, which this matcher does not support.
    pub(super) refers_back: bool,
}

/// Parses a pattern.
///
/// # Errors
/// Describes the part that is not valid ECMAScript.
pub(super) fn parse(pattern: &str) -> Result<ParsedPattern, String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return Err(format!("it is longer than {MAX_PATTERN_BYTES} bytes"));
    }
    let rest = pattern.strip_prefix("(?i)");
    let ignores_case = rest.is_some();
    let chars = rest.unwrap_or(pattern).chars().peekable();
    let (is_ecma, refers_back) = (!ignores_case, false);
    let mut parser = PatternParser { rest: chars, depth: 0, ignores_case, is_ecma, refers_back };
    let piece = parser.either()?;
    let PatternParser { is_ecma, refers_back, .. } = parser;
    match parser.rest.next() {
        None => Ok(ParsedPattern { piece, is_ecma, refers_back }),
        Some(_) => Err("a `)` has no matching `(`".into()),
    }
}

/// Meaning of an escape sequence.
enum ParsedEscape {
    Char(char),
    /// A character class; false if it is negated.
    Class(CharClass, bool),
    Boundary(bool),
}

struct PatternParser<'p> {
    rest: Peekable<Chars<'p>>,
    depth: usize,
    ignores_case: bool,
    is_ecma: bool,
    refers_back: bool,
}

impl PatternParser<'_> {
    fn takes(&mut self, char: char) -> bool {
        self.rest.next_if_eq(&char).is_some()
    }

    fn takes_all(&mut self, text: &str) -> bool {
        let mut ahead = self.rest.clone();
        let is_next = text.chars().all(|char| ahead.next() == Some(char));
        if is_next {
            self.rest = ahead;
        }
        is_next
    }

    fn either(&mut self) -> Result<SyntaxNode, String> {
        self.depth += 1;
        if self.depth > MAX_GROUP_DEPTH {
            return Err(format!("its groups are nested more than {MAX_GROUP_DEPTH} deep"));
        }
        let mut all = vec![self.sequence()?];
        while self.takes('|') {
            all.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(SyntaxNode::Either(all))
    }

    fn sequence(&mut self) -> Result<SyntaxNode, String> {
        let mut all = Vec::new();
        while let Some(next) = self.rest.next_if(|it| !matches!(it, '|' | ')')) {
            let piece = self.atom(next)?;
            all.push(self.repeated(piece)?);
        }
        Ok(SyntaxNode::Sequence(all))
    }

    fn atom(&mut self, next: char) -> Result<SyntaxNode, String> {
        Ok(match next {
            '^' => SyntaxNode::Start,
            '$' => SyntaxNode::End,
            '.' => SyntaxNode::Set(CharSet::of(LINE_END, false).into()),
            '(' => self.group()?,
            '[' => SyntaxNode::Set(self.class()?.into()),
            '\\' => match self.escape(false)? {
                ParsedEscape::Char(char) => self.char(char),
                ParsedEscape::Class(one, has) => SyntaxNode::Set(CharSet::of(one, has).into()),
                ParsedEscape::Boundary(is_wanted) => SyntaxNode::Boundary(is_wanted),
            },
            '*' | '+' | '?' => return Err(format!("there is nothing before `{next}` to repeat")),
            other => self.char(other),
        })
    }

    fn char(&self, char: char) -> SyntaxNode {
        if !self.ignores_case {
            return SyntaxNode::Char(char);
        }
        let set = CharSet { ignores_case: true, ..CharSet::new(vec![(char, char)], Vec::new()) };
        SyntaxNode::Set(set.into())
    }

    fn group(&mut self) -> Result<SyntaxNode, String> {
        let look = LOOKAROUNDS.iter().find(|(opening, ..)| self.takes_all(opening));
        if look.is_none() && !self.takes_all("?:") {
            self.name()?;
        }
        let inner = self.either()?;
        if !self.takes(')') {
            return Err("a group is not closed".into());
        }
        Ok(match look {
            Some((_, is_behind, is_wanted)) => SyntaxNode::Look {
                inner: inner.into(),
                is_behind: *is_behind,
                is_wanted: *is_wanted,
            },
            None => inner,
        })
    }

    /// Parses the name of a group, if it has one.
    fn name(&mut self) -> Result<(), String> {
        let is_python = self.takes_all("?P<");
        self.is_ecma &= !is_python;
        if is_python || self.takes_all("?<") {
            let name: String = self.rest.by_ref().take_while(|it| *it != '>').collect();
            let is_char = |it: char| it.is_alphanumeric() || it == '_' || it == '$';
            let is_name = !name.is_empty() && name.chars().all(is_char);
            return if is_name {
                Ok(())
            } else {
                Err(format!("`{name}` is not a valid group name"))
            };
        }
        match self.rest.peek() {
            Some('?') => Err("ECMAScript has no group that begins like this".into()),
            _ => Ok(()),
        }
    }

    /// Applies the quantifier that follows, if any.
    fn repeated(&mut self, piece: SyntaxNode) -> Result<SyntaxNode, String> {
        let count = match self.rest.peek() {
            Some('*') => Some((0, None)),
            Some('+') => Some((1, None)),
            Some('?') => Some((0, Some(1))),
            Some('{') => self.count()?,
            _ => None,
        };
        let Some((least, most)) = count else { return Ok(piece) };
        self.rest.next();
        // Lazy quantifiers do not change the existence of a match.
        self.takes('?');
        if most.is_some_and(|most| most < least) {
            return Err("the minimum of a quantifier is above its maximum".into());
        }
        if matches!(self.rest.peek(), Some('*' | '+' | '?')) {
            return Err("a quantifier cannot follow a quantifier without a group".into());
        }
        Ok(SyntaxNode::Repeat(piece.into(), least, most))
    }

    /// Parses the counts up to the closing brace; `None` if the brace is a literal.
    fn count(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let inside = self.rest.clone().skip(1).take(MAX_COUNT_CHARS);
        let inside: String = inside.take_while(|it| it.is_ascii_digit() || *it == ',').collect();
        let is_closed = self.rest.clone().nth(inside.len() + 1) == Some('}');
        let (least, most) = match inside.split_once(',') {
            Some((least, most)) => (least, Some(most)),
            None => (&*inside, Some(&*inside)),
        };
        if !is_closed || least.is_empty() || most.is_some_and(|it| it.contains(',')) {
            return Ok(None);
        }
        // The caller consumes the closing brace, as it does `*`.
        self.rest.nth(inside.len());
        let number = |text: &str| text.parse::<u32>().map_err(|_| "it is too large".to_owned());
        let most = most.filter(|it| !it.is_empty()).map(number).transpose()?;
        Ok(Some((number(least)?, most)))
    }

    fn escape(&mut self, in_class: bool) -> Result<ParsedEscape, String> {
        let Some(next) = self.rest.next() else { return Err("it ends with a backslash".into()) };
        Ok(match next {
            'd' | 'D' => ParsedEscape::Class(DIGIT, next == 'd'),
            'w' | 'W' => ParsedEscape::Class(WORD, next == 'w'),
            's' | 'S' => ParsedEscape::Class(SPACE, next == 's'),
            'p' | 'P' => ParsedEscape::Class(self.property()?, next == 'p'),
            'n' => ParsedEscape::Char('\n'),
            'r' => ParsedEscape::Char('\r'),
            't' => ParsedEscape::Char('\t'),
            'f' => ParsedEscape::Char('\u{C}'),
            'v' => ParsedEscape::Char('\u{B}'),
            'b' if in_class => ParsedEscape::Char('\u{8}'),
            'b' | 'B' if !in_class => ParsedEscape::Boundary(next == 'b'),
            'c' => ParsedEscape::Char(self.control()?),
            'x' => ParsedEscape::Char(character(self.digits(2)?)?),
            'u' => ParsedEscape::Char(self.unicode()?),
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => ParsedEscape::Char('\0'),
            '1'..='9' | 'k' if !in_class => {
                self.refers_back = true;
                // The result is not used.
                ParsedEscape::Char(next)
            }
            other if other.is_ascii_alphanumeric() => {
                return Err(format!("ECMAScript has no escape `\\{other}`"));
            }
            other => ParsedEscape::Char(other),
        })
    }

    fn control(&mut self) -> Result<char, String> {
        match self.rest.next_if(char::is_ascii_alphabetic) {
            Some(letter) => Ok(char::from(letter as u8 % 32)),
            None => Err("a letter must follow `\\c`".into()),
        }
    }

    fn digits(&mut self, count: usize) -> Result<u32, String> {
        (0..count).try_fold(0, |sum, _| {
            let digit = self.rest.next().and_then(|it| it.to_digit(16));
            let missing = || format!("a character has {count} hexadecimal digits here");
            digit.map(|digit| sum * 16 + digit).ok_or_else(missing)
        })
    }

    /// Parses the digits after `\u`: four, a surrogate pair of two times four, or any number in
    /// braces.
    fn unicode(&mut self) -> Result<char, String> {
        if self.takes('{') {
            let code: String = self.rest.by_ref().take_while(|it| *it != '}').collect();
            return character(u32::from_str_radix(&code, 16).unwrap_or(u32::MAX));
        }
        let first = self.digits(4)?;
        if !(0xD800..0xDC00).contains(&first) || !self.takes_all("\\u") {
            return character(first);
        }
        let pair = [first as u16, self.digits(4)? as u16];
        let found = char::decode_utf16(pair).next().and_then(Result::ok);
        found.ok_or_else(|| "half of a surrogate pair is missing".into())
    }

    fn property(&mut self) -> Result<CharClass, String> {
        if !self.takes('{') {
            return Err("the name of a property must follow `\\p` in braces".into());
        }
        let name: String = self.rest.by_ref().take_while(|it| *it != '}').collect();
        let found = Property::named(&name).map(CharClass::Property);
        found.ok_or_else(|| format!("the property `{name}` of characters is unknown"))
    }

    /// Parses a character class after `[`.
    fn class(&mut self) -> Result<CharSet, String> {
        let is_negated = self.takes('^');
        let (mut ranges, mut classes) = (Vec::new(), Vec::new());
        let mut add = |ranges: &mut Vec<_>, member| match member {
            ParsedEscape::Char(char) => ranges.push((char, char)),
            ParsedEscape::Class(one, has) => classes.push((one, has)),
            ParsedEscape::Boundary(_) => {}
        };
        while let Some(from) = self.member()? {
            // A hyphen between two characters forms a range; any other hyphen is a literal.
            let mut ahead = self.rest.clone();
            let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|it| it != ']');
            let (ParsedEscape::Char(first), true) = (&from, is_range) else {
                add(&mut ranges, from);
                continue;
            };
            self.rest.next();
            match self.member()? {
                Some(ParsedEscape::Char(last)) if last < *first => {
                    return Err(format!("the range from `{first}` to `{last}` is out of order"));
                }
                Some(ParsedEscape::Char(last)) => ranges.push((*first, last)),
                Some(other) => {
                    ranges.extend([(*first, *first), ('-', '-')]);
                    add(&mut ranges, other);
                }
                None => break,
            }
        }
        Ok(CharSet { is_negated, ignores_case: self.ignores_case, ..CharSet::new(ranges, classes) })
    }

    /// Parses the next member of a class; `None` at its end.
    fn member(&mut self) -> Result<Option<ParsedEscape>, String> {
        match self.rest.next() {
            None => Err("a class is not closed".into()),
            Some(']') => Ok(None),
            Some('\\') => self.escape(true).map(Some),
            Some(other) => Ok(Some(ParsedEscape::Char(other))),
        }
    }
}

fn character(code: u32) -> Result<char, String> {
    char::from_u32(code).ok_or_else(|| format!("there is no character {code:X}"))
}
