//! Others' text (a name, a path, a key, a list of problems) as messages, the log and status tell
//! it again: in short, however long it is, and without what steers a terminal.
//!
//! Used by the sources, and by the router for its own messages. It never judges a text.

use std::borrow::Cow;

/// Most characters that are told again.
const ECHOED: usize = 128;
/// Most problems of one kind that are told; the rest is a number.
const TOLD: usize = 10;

/// Its begin.
pub fn echo(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(ECHOED) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// A parser's message with what it quotes cut to that length: it often ends with the place.
pub fn echo_quoted(message: &str) -> String {
    let pieces = message.split_inclusive(['`', '"']).enumerate();
    let cut = pieces.map(|(number, piece)| match piece.chars().next_back() {
        Some(quote @ ('`' | '"')) if number % 2 == 1 => {
            format!("{}{quote}", echo(&piece[..piece.len() - 1]))
        }
        _ => piece.to_owned(),
    });
    cut.collect()
}

/// As a terminal and the log may have it: characters that steer them are spelled out.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        if one.is_control() {
            out.extend(one.escape_default());
        } else {
            out.push(one);
        }
    }
    out
}

/// The first of them, and how many more there are.
pub(crate) fn first_few(mut problems: Vec<String>) -> Vec<String> {
    let more = problems.len().saturating_sub(TOLD);
    if more > 0 {
        problems.truncate(TOLD);
        problems.push(format!("and {more} more"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_and_lists_are_told_in_short() {
        let long = "é".repeat(129);
        assert_eq!(echo(&long), format!("{}…", "é".repeat(128)));
        assert_eq!(echo(&long[2..]), &long[2..]);
        let message = format!("unknown `{long}` at \"{long}\", line 7");
        let cut = echo(&long);
        assert_eq!(echo_quoted(&message), format!("unknown `{cut}` at \"{cut}\", line 7"));
        assert_eq!(printable("a\u{1b}[2J\n\u{9b}é"), "a\\u{1b}[2J\\n\\u{9b}é");
        let many: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        assert_eq!(first_few(many.clone())[10..], ["and 2 more"]);
        assert_eq!(first_few(many[..10].to_vec()), many[..10]);
    }
}
