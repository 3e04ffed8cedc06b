//! Texts of others for a terminal and for a shell.
//!
//! Servers, clients and directories choose names and messages that commands print. [`escape`] takes
//! from them the characters that steer a terminal, and [`shell_word`] makes an argument of a
//! suggested command of them.

use std::fmt::Write;

/// Returns bytes as text. A byte that is not UTF-8 becomes `\xE9` and the like, so that two names
/// with different bytes stay different.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02X}");
        }
    }
    text
}

/// Escapes the characters that steer a terminal, or that hide or reorder others.
pub fn escape(text: &str) -> String {
    escape_but(text, |_| false)
}

/// Escapes a text of several lines likewise, and keeps its lines and tabs.
pub fn escape_lines(text: &str) -> String {
    escape_but(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes the same characters in a JSON text, as JSON does. Only its strings can have them; its
/// lines stay.
pub fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c != '\n' && steers(c) {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
            false => escaped.push(c),
        }
    }
    escaped
}

fn steers(c: char) -> bool {
    c.is_control() || is_invisible(c)
}

fn escape_but(text: &str, is_kept: fn(char) -> bool) -> String {
    let one = |c: char| match !is_kept(c) && steers(c) {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    text.chars().map(one).collect()
}

/// Returns whether a character formats its neighbours and is not seen itself (the category Cf of
/// Unicode, as far as it reorders or joins text).
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// Quotes a text as one word of a shell, where it needs that.
pub fn shell_word(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf8_stay_different() {
        assert_eq!(text(b"gr\xfcn \xc3\xbc"), "gr\\xFCn ü");
        assert_ne!(text(b"\xfc"), text(b"\xfd"));
    }

    #[test]
    fn characters_that_steer_or_reorder_are_escaped() {
        assert_eq!(escape("a\u{202e}txt.exe\u{200b}é"), "a\\u{202e}txt.exe\\u{200b}é");
        assert_eq!(escape("x\u{1b}[2J\n"), "x\\u{1b}[2J\\u{a}");
        assert_eq!(escape_lines("a\tb\nc\r\u{9b}"), "a\tb\nc\\u{d}\\u{9b}");
    }

    #[test]
    fn a_json_text_keeps_its_meaning_without_characters_that_steer() {
        let text = "{\n  \"name\": \"a\u{9b}31m\u{202e}\u{e0041}\\u001b é\"\n}";
        let expected = r#"{
  "name": "a\u009b31m\u202e\udb40\udc41\u001b é"
}"#;
        assert_eq!(escape_json(text), expected);
    }

    #[test]
    fn a_word_is_quoted_for_a_shell_where_it_needs_that() {
        assert_eq!(shell_word("server:/export"), "server:/export");
        assert_eq!(shell_word("Random read, 4 KiB"), "'Random read, 4 KiB'");
        assert_eq!(shell_word("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(shell_word(""), "''");
    }
}
