//! Validating JSON scanner that builds no values.

use wharf_model::Span;

use crate::json::writer::{plain_end, plain_end_nearby};

/// Error for text that is not valid JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedJson;

/// Returns the positions of the elements of the JSON array in `body`, at most `limit` + 1.
pub(crate) fn elements(body: &str, depth: u32, limit: usize) -> Result<Vec<Span>, MalformedJson> {
    let mut scan = JsonScanner::new(body, depth);
    let mut found = Vec::new();
    let mut more = scan.enter(b'[')?;
    while more {
        let start = scan.at;
        scan.skip(1)?;
        if found.len() <= limit {
            found.push(scan.since(start));
        }
        more = scan.more(b']')?;
    }
    scan.end()?;
    Ok(found)
}

/// Calls `found` with the key and the value of each member of the JSON object in `body`, as text. Nesting
/// beyond the depth limit counts as malformed.
pub(crate) fn each_member<'a>(
    body: &'a str,
    mut found: impl FnMut(&'a str, &'a str),
) -> Result<(), MalformedJson> {
    let mut scan = JsonScanner::new(body, MAX_DEPTH);
    let mut more = scan.enter(b'{')?;
    while more {
        let key = scan.at;
        scan.string()?;
        let end = scan.at;
        scan.colon()?;
        let value = scan.at;
        scan.skip(1)?;
        if scan.too_deep {
            return Err(MalformedJson);
        }
        found(&body[key..end], &body[value..scan.at]);
        more = scan.more(b'}')?;
    }
    scan.end()
}

/// Maximum nesting depth of a message: each level takes one bit of the stack in `skip`.
pub(crate) const MAX_DEPTH: u32 = 128;

/// Cursor over JSON text.
pub(crate) struct JsonScanner<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
    /// Set if a value exceeded the depth limit; the rest of it was not validated.
    pub(crate) too_deep: bool,
}

impl<'a> JsonScanner<'a> {
    pub(crate) fn new(body: &'a str, depth: u32) -> Self {
        JsonScanner { bytes: body.as_bytes(), at: 0, depth: depth.min(MAX_DEPTH), too_deep: false }
    }

    /// Returns the byte under the cursor, or 0 (which starts no token) at the end.
    #[inline]
    pub(crate) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Skips white space and returns the next byte.
    #[inline]
    pub(crate) fn token(&mut self) -> u8 {
        loop {
            match self.peek() {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return byte,
            }
        }
    }

    pub(crate) fn end(&mut self) -> Result<(), MalformedJson> {
        self.token();
        if self.at == self.bytes.len() { Ok(()) } else { Err(MalformedJson) }
    }

    /// Returns the cursor position.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the span from `start` to the cursor. Messages of 4 GiB and more were rejected before.
    pub(crate) fn since(&self, start: usize) -> Span {
        Span::new(start as u32, self.at as u32)
    }

    /// Enters an array or object; returns whether it has elements.
    #[inline]
    pub(crate) fn enter(&mut self, open: u8) -> Result<bool, MalformedJson> {
        if self.token() != open {
            return Err(MalformedJson);
        }
        self.at += 1;
        let empty = self.token() == closing(open);
        self.at += usize::from(empty);
        Ok(!empty)
    }

    /// Moves past an element; returns whether another one follows before `close`.
    #[inline]
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, MalformedJson> {
        let byte = self.token();
        if byte != b',' && byte != close {
            return Err(MalformedJson);
        }
        self.at += 1;
        if byte == b',' {
            self.token();
        }
        Ok(byte == b',')
    }

    /// Reads a key and moves to its value; returns the quoted key and whether it has escapes.
    #[inline(always)]
    pub(crate) fn key(&mut self) -> Result<(&'a [u8], bool), MalformedJson> {
        let start = self.at;
        let escaped = self.string()?;
        let key = &self.bytes[start..self.at];
        self.colon()?;
        Ok((key, escaped))
    }

    /// Moves from the end of a key to its value.
    #[inline(always)]
    fn colon(&mut self) -> Result<(), MalformedJson> {
        if self.token() != b':' {
            return Err(MalformedJson);
        }
        self.at += 1;
        self.token();
        Ok(())
    }

    /// Reads a string; returns whether it has escapes.
    #[inline(always)]
    pub(crate) fn string(&mut self) -> Result<bool, MalformedJson> {
        if self.peek() != b'"' {
            return Err(MalformedJson);
        }
        self.at += 1;
        match plain_end_nearby(self.bytes, self.at) {
            Some(end) if self.bytes[end] == b'"' => {
                self.at = end + 1;
                Ok(false)
            }
            Some(_) => self.rest_of_string(),
            None => self.longer_string(),
        }
    }

    /// Strings whose first eight bytes are plain, or that are near the end of the text. Names of methods and
    /// parameters are seldom longer than 15 bytes.
    #[inline(never)]
    fn longer_string(&mut self) -> Result<bool, MalformedJson> {
        match plain_end_nearby(self.bytes, self.at + 8) {
            Some(end) if self.bytes[end] == b'"' => {
                self.at = end + 1;
                Ok(false)
            }
            _ => self.rest_of_string(),
        }
    }

    /// Slow path: strings that are long, have escapes, or are near the end of the text.
    #[inline(never)]
    fn rest_of_string(&mut self) -> Result<bool, MalformedJson> {
        let mut escaped = false;
        loop {
            self.at = plain_end(self.bytes, self.at);
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(escaped);
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(MalformedJson),
            }
        }
    }

    fn escape(&mut self) -> Result<(), MalformedJson> {
        self.at += match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => match self.bytes.get(self.at + 2..self.at + 6) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => 6,
                _ => return Err(MalformedJson),
            },
            _ => return Err(MalformedJson),
        };
        Ok(())
    }

    fn digits(&mut self) -> Result<(), MalformedJson> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += digits;
        if digits > 0 { Ok(()) } else { Err(MalformedJson) }
    }

    /// Reads a number; returns whether it is an integer without an exponent.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<bool, MalformedJson> {
        self.at += usize::from(self.peek() == b'-');
        match self.peek() {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        match self.peek() {
            b'.' | b'e' | b'E' => self.rest_of_number().map(|()| false),
            _ => Ok(true),
        }
    }

    fn rest_of_number(&mut self) -> Result<(), MalformedJson> {
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if let b'e' | b'E' = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
            self.digits()?;
        }
        Ok(())
    }

    fn literal(&mut self, literal: &[u8]) -> Result<(), MalformedJson> {
        if !self.bytes[self.at..].starts_with(literal) {
            return Err(MalformedJson);
        }
        self.at += literal.len();
        Ok(())
    }

    /// Reads a value other than an object or array.
    fn scalar(&mut self) -> Result<(), MalformedJson> {
        match self.peek() {
            b'"' => self.string().map(drop),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number().map(drop),
        }
    }

    /// Reads one value at nesting depth `outer`. The stack has one bit for each open level: 1 for an object.
    pub(crate) fn skip(&mut self, outer: u32) -> Result<(), MalformedJson> {
        let (mut depth, mut stack) = (0, 0u128);
        loop {
            match self.token() {
                open @ (b'{' | b'[') => {
                    self.at += 1;
                    depth += 1;
                    if outer + depth > self.depth {
                        return self.skip_unchecked(depth);
                    }
                    let object = open == b'{';
                    stack = stack << 1 | u128::from(object);
                    if self.token() != closing(open) {
                        if object {
                            self.key()?;
                        }
                        continue;
                    }
                    self.at += 1;
                    stack >>= 1;
                    depth -= 1;
                }
                _ => self.scalar()?,
            }
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let object = stack & 1 == 1;
                match self.token() {
                    b',' => {
                        self.at += 1;
                        if object {
                            self.token();
                            self.key()?;
                        }
                        break;
                    }
                    b'}' if object => self.at += 1,
                    b']' if !object => self.at += 1,
                    _ => return Err(MalformedJson),
                }
                stack >>= 1;
                depth -= 1;
            }
        }
    }

    /// Skips to the end of a value that will be rejected; only the id after it is still needed.
    fn skip_unchecked(&mut self, mut depth: u32) -> Result<(), MalformedJson> {
        self.too_deep = true;
        while depth > 0 {
            match self.peek() {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ if self.at >= self.bytes.len() => return Err(MalformedJson),
                _ => {}
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// Returns the closing bracket: in ASCII it is two after the opening one.
fn closing(open: u8) -> u8 {
    open + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: &str = r#"{} | [ ]  |1|-0.5e+10|"\u00e4\n"|[1,[2,{"a":[{}]}],null,true,false]|{"a":{}}||{|[1,]|{"a"}|{"a":1,}
        |01|1.|.5|+1|1e|tru|nul|"|"\x"|"\u12g4"|{1:2}|[1 2]|{"a":1 "b":2}|]|}|[}|{]|1 1|{,}|[,]|{"a":[}|-|--1|NaN|[1}
        |{"a":1]|[[]|{"a":[]}}|"\u00zz"|"a|tru e|[1,,2]|{"a"::1}|{"a":}|-01|1.5.5|0x1|[true,fals]|"\\"|"\\\"#;

    #[test]
    fn strings_of_every_length_end_at_their_quote() {
        for length in 0..40 {
            let plain = "x".repeat(length);
            for (inside, escaped) in [(plain.clone(), false), (format!("{plain}\\\"x"), true)] {
                for after in ["", ",\"y\":0}"] {
                    let body = format!("\"{inside}\"{after}");
                    let mut scan = JsonScanner::new(&body, 1);
                    assert_eq!(scan.string(), Ok(escaped), "{body}");
                    assert_eq!(&body[scan.at()..], after);
                }
            }
            let open = format!("\"{plain}");
            assert_eq!(JsonScanner::new(&open, 1).string(), Err(MalformedJson), "{open}");
        }
    }

    #[test]
    fn accepts_what_serde_accepts() {
        let odd = ["\"\u{1}\"", "\u{feff}{}", "\"\u{7f}ä\"", "{\"a\":\"\n\"}"];
        for body in SAMPLES.split('|').chain(odd) {
            let expected = serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok();
            let mut scan = JsonScanner::new(body, 128);
            scan.token();
            let found = scan.skip(0).and_then(|()| scan.end());
            assert_eq!(found.is_ok(), expected, "{body:?}");
        }
    }

    #[test]
    fn elements_and_members_are_found() {
        let body = r#" [ 1 , {"a":[2,3]},"x" ] "#;
        let spans = elements(body, 128, 10).unwrap();
        let texts: Vec<_> = spans.iter().filter_map(|span| span.of(body)).collect();
        assert_eq!(texts, ["1", r#"{"a":[2,3]}"#, "\"x\""]);
        assert_eq!(elements(body, 128, 1).unwrap().len(), 2);
        assert!(elements("[]", 128, 1).unwrap().is_empty() && elements("[1", 128, 1).is_err());
        let mut found = Vec::new();
        let put = |key: &str, value: &str| found.push(format!("{key}={value}"));
        each_member(r#"{ "a" : [1] , "b":{} }"#, put).unwrap();
        assert_eq!(found, [r#""a"=[1]"#, r#""b"={}"#]);
        assert!(each_member("[]", |_, _| ()).is_err() && each_member("{} x", |_, _| ()).is_err());
    }
}
