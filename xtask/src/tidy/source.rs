//! Splits a Rust file into comments and code, so that rules never mistake a string for either.

/// A hand-written Rust file.
pub(super) struct RustSource {
    /// Path below the root of the repository.
    pub path: String,
    /// The text as it stands in the file.
    pub text: String,
    /// The text with blanks for comments and for the contents of strings; line numbers agree.
    pub code: String,
    /// The comments in the order of the file.
    pub comments: Vec<Comment>,
}

/// One line of a comment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Comment {
    /// Line number, from 1.
    pub line: usize,
    /// True for `///` and `//!`, which rustdoc shows.
    pub doc: bool,
    /// True if nothing but blanks precedes it on its line.
    pub alone: bool,
    /// The text behind the slashes.
    pub text: String,
}

impl RustSource {
    /// Reads the comments out of `text`.
    pub(super) fn new(path: &str, text: &str) -> Self {
        let mut split =
            Splitter { rest: text, code: String::with_capacity(text.len()), comments: Vec::new() };
        while split.step() {}
        Self { path: path.to_owned(), text: text.to_owned(), code: split.code, comments: split.comments }
    }

    /// Returns the code without the inline test modules at its end.
    pub(super) fn shipped(&self) -> &str {
        without_inline_tests(&self.code)
    }
}

/// Cuts the inline test modules off the end of a source. A test module in a file of its own may be
/// declared anywhere.
pub(crate) fn without_inline_tests(code: &str) -> &str {
    let end = code.match_indices("#[cfg(test)]").find(|(at, found)| {
        let item = code[at + found.len()..].trim_start();
        item.starts_with("mod ")
            && item.split(['{', ';']).next().is_some_and(|head| item[head.len()..].starts_with('{'))
    });
    end.map_or(code, |(at, _)| &code[..at])
}

struct Splitter<'a> {
    rest: &'a str,
    code: String,
    comments: Vec<Comment>,
}

impl Splitter<'_> {
    /// Consumes one token; returns false at the end of the text.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if self.rest.starts_with("//") {
            self.line_comment();
        } else if self.rest.starts_with("/*") {
            self.block_comment();
        } else if let Some(hashes) = raw_string(self.rest).filter(|_| !self.inside_word()) {
            let open = self.rest.find('"').map_or(0, |at| at + 1);
            let close = format!("\"{}", "#".repeat(hashes));
            let end = self.rest[open..].find(&close).map_or(self.rest.len(), |at| open + at + close.len());
            self.blank(end);
        } else if first == '"' {
            self.blank(quoted(self.rest, '"'));
        } else if first == '\'' && is_char(self.rest) {
            self.blank(quoted(self.rest, '\''));
        } else {
            self.code.push(first);
            self.rest = &self.rest[first.len_utf8()..];
        }
        true
    }

    /// True if the text before this place ends in an identifier, so that its `r"` is no raw string.
    fn inside_word(&self) -> bool {
        self.code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
    }

    fn line(&self) -> usize {
        self.code.matches('\n').count() + 1
    }

    fn alone(&self) -> bool {
        self.code.rsplit('\n').next().is_none_or(|line| line.trim().is_empty())
    }

    fn line_comment(&mut self) {
        let whole = self.rest.split('\n').next().unwrap_or_default();
        let doc = (whole.starts_with("///") && !whole.starts_with("////")) || whole.starts_with("//!");
        let text = whole.trim_start_matches(['/', '!']).to_owned();
        self.comments.push(Comment { line: self.line(), doc, alone: self.alone(), text });
        self.blank(whole.len());
    }

    fn block_comment(&mut self) {
        let end = self.rest.find("*/").map_or(self.rest.len(), |at| at + 2);
        let (first, alone) = (self.line(), self.alone());
        for (offset, text) in self.rest[..end].trim_end_matches("*/").lines().enumerate() {
            let text = text.trim_start_matches(['/', '*', ' ']).to_owned();
            self.comments.push(Comment { line: first + offset, doc: false, alone, text });
        }
        self.blank(end);
    }

    /// Consumes `length` bytes and keeps only their line ends.
    fn blank(&mut self, length: usize) {
        let (taken, rest) = self.rest.split_at(length);
        self.code.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
    }
}

/// Returns the number of hashes of a raw string that starts here.
fn raw_string(text: &str) -> Option<usize> {
    let after =
        text.strip_prefix("br").or_else(|| text.strip_prefix("cr")).or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// Returns the length of a literal from its opening to its closing quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Tells a character literal from a lifetime.
fn is_char(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => true,
        (Some(_), next) => next == Some('\''),
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(line: usize, doc: bool, alone: bool, text: &str) -> Comment {
        Comment { line, doc, alone, text: text.to_owned() }
    }

    #[test]
    fn comments_are_told_from_strings_and_lifetimes() {
        let text =
            "/// Doc.\nfn f<'a>() { // why\n    \"// no\"; r#\"\" // no\"#; '\"'; b'\\''; }\n/* a\n * b */\n";
        let source = RustSource::new("f.rs", text);
        let expect = [
            comment(1, true, true, " Doc."),
            comment(2, false, false, " why"),
            comment(4, false, true, "a"),
            comment(5, false, true, "b "),
        ];
        assert_eq!(source.comments, expect);
        assert!(!source.code.contains("no") && source.code.contains("fn f<'a>() {"), "{}", source.code);
        assert_eq!(source.code.lines().count(), text.lines().count());
    }

    #[test]
    fn shipped_code_ends_at_the_test_module_but_not_at_a_declaration() {
        let text = "#[cfg(test)]\nmod tests;\nfn a() {}\n#[cfg(test)]\nmod more {\nfn b() {}\n}\n";
        let source = RustSource::new("f.rs", text);
        assert!(source.shipped().contains("fn a()") && !source.shipped().contains("fn b()"));
    }
}
