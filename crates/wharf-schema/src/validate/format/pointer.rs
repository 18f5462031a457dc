//! JSON pointers.

pub(super) fn is_json_pointer(text: &str) -> bool {
    let is_escaped =
        |token: &str| token.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    text.is_empty() || (text.starts_with('/') && is_escaped(text))
}

pub(super) fn is_relative_json_pointer(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    let is_number = number == "0" || (digits > 0 && !number.starts_with('0'));
    is_number && (rest == "#" || is_json_pointer(rest))
}
