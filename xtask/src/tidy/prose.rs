//! Sentences of comments and documents: forbidden openings, and the figures that describe the
//! language.

use super::source::RustSource;

/// First words of sentences with a free relative clause as the subject, and of doc comments that
/// say "Has X do Y": the reader takes "has" for a property of the item.
const OPENINGS: [&str; 10] =
    ["What", "Who", "Whom", "Whose", "Whoever", "Whatever", "Whichever", "Which", "Nobody", "Has"];

/// A run of text lines that belong together: a comment, or a paragraph or list item of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Paragraph {
    /// Line number of its first line, from 1.
    pub line: usize,
    /// The lines, joined by blanks.
    pub text: String,
}

impl Paragraph {
    /// Splits the text behind each full stop, question mark or exclamation mark before a capital.
    pub(super) fn sentences(&self) -> Vec<&str> {
        let mut found = Vec::new();
        let mut start = 0;
        for (at, mark) in self.text.match_indices(['.', '?', '!']) {
            let after = &self.text[at + mark.len()..];
            let next = after.trim_start_matches(['*', '_', ')', '"']);
            let begins =
                next.trim_start().chars().next().is_none_or(|c| c.is_uppercase() || "`[*".contains(c));
            if next.starts_with(' ') && begins || next.is_empty() {
                found.push(self.text[start..at + mark.len()].trim());
                start = at + mark.len();
            }
        }
        found.push(self.text[start..].trim());
        found.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
        found
    }
}

/// Collects the paragraphs of a file's comments.
pub(super) fn of_comments(source: &RustSource) -> Vec<Paragraph> {
    let mut lines = Vec::new();
    let mut last = (0, false);
    for comment in &source.comments {
        // A gap, a change between `//` and `///`, or a comment behind code starts a new paragraph.
        if comment.line != last.0 + 1 || comment.doc != last.1 || !comment.alone {
            lines.push((comment.line, ""));
        }
        lines.push((comment.line, comment.text.as_str()));
        last = (comment.line, comment.doc);
    }
    paragraphs(lines.into_iter())
}

/// Collects the paragraphs of a Markdown page, without tables, fenced blocks and headings.
pub(super) fn of_page(text: &str) -> Vec<Paragraph> {
    paragraphs(text.lines().enumerate().map(|(number, line)| (number + 1, line)))
}

fn paragraphs<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Paragraph> {
    let mut found: Vec<Paragraph> = Vec::new();
    let mut open = false;
    let mut fenced = false;
    for (line, text) in lines {
        let text = text.trim();
        if text.starts_with("```") {
            (fenced, open) = (!fenced, false);
            continue;
        }
        if fenced || text.is_empty() || text.starts_with(['|', '#', '<']) {
            open = false;
            continue;
        }
        let item = text.strip_prefix("- ").or_else(|| text.strip_prefix("* ")).or_else(|| numbered(text));
        match found.last_mut().filter(|_| open && item.is_none()) {
            Some(paragraph) => {
                paragraph.text.push(' ');
                paragraph.text.push_str(text);
            }
            None => found.push(Paragraph { line, text: item.unwrap_or(text).trim().to_owned() }),
        }
        open = true;
    }
    found
}

fn numbered(text: &str) -> Option<&str> {
    let (number, rest) = text.split_once(". ")?;
    number.parse::<u8>().ok().map(|_| rest)
}

/// Returns whether a sentence opens with a word that hides its subject. A question may.
pub(super) fn forbidden_opening(sentence: &str) -> bool {
    let sentence = sentence.trim_start_matches(['*', '_', '"', '(', '>', ' ']);
    let mut words = sentence.split([' ', ',']);
    let first = words.next().unwrap_or_default();
    if sentence.ends_with('?') {
        return false;
    }
    match first.trim_end_matches(['.', '*', '_']) {
        "Those" => matches!(words.next(), Some("who" | "that" | "which" | "whose" | "of")),
        "How" => !matches!(words.next(), Some("many" | "much" | "long" | "often" | "to" | "far")),
        word => OPENINGS.contains(&word),
    }
}

/// Splits a text into words; a code span is one word.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && !"'`_-:.".contains(c))
        .map(|word| word.trim_matches(['.', ':', '\'', '-', '_']))
        .filter(|word| word.chars().any(char::is_alphanumeric))
}

/// How often the words of a style occur in all comments.
#[derive(Default)]
pub(super) struct Frequencies {
    words: usize,
    counts: [usize; 6],
}

impl Frequencies {
    const NAMES: [&str; 6] = ["what", "who", "those", "nobody", "told", "you or we"];

    /// Counts the words of one paragraph.
    pub(super) fn add(&mut self, text: &str) {
        for word in words(text) {
            self.words += 1;
            let word = word.to_lowercase();
            let name = if matches!(&word[..], "you" | "we") { "you or we" } else { &word };
            if let Some(at) = Self::NAMES.iter().position(|known| *known == name) {
                self.counts[at] += 1;
            }
        }
    }
}

impl std::fmt::Display for Frequencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "per 1,000 of {} words of comments:", self.words)?;
        for (name, count) in Self::NAMES.iter().zip(self.counts) {
            let share = 1000.0 * count as f64 / self.words.max(1) as f64;
            write!(f, " {name} {share:.2},")?;
        }
        write!(f, " by `cargo xtask tidy`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_a_full_stop_before_a_capital() {
        let paragraph = Paragraph { line: 1, text: "One e.g. two. `Three` is 4.1. Why? Five".to_owned() };
        assert_eq!(paragraph.sentences(), ["One e.g. two.", "`Three` is 4.1.", "Why?", "Five"]);
    }

    #[test]
    fn openings_that_hide_the_subject_are_forbidden_and_questions_are_not() {
        for bad in [
            "What is closed stays.",
            "Which.",
            "How.",
            "Those who wait.",
            "Nobody reads.",
            "**Who** asks.",
            "Has the server reload.",
        ] {
            assert!(forbidden_opening(bad), "{bad}");
        }
        for good in ["Those are few.", "What is a lease?", "How many bytes fit.", "Has it ended?", "A file."]
        {
            assert!(!forbidden_opening(good), "{good}");
        }
    }

    #[test]
    fn paragraphs_leave_out_tables_headings_and_fences() {
        let page = "# Title\n\nOne\ntwo.\n- three\n  four\n1. five\n| a |\n```\nno\n```\nsix";
        let texts: Vec<_> = of_page(page).into_iter().map(|paragraph| paragraph.text).collect();
        assert_eq!(texts, ["One two.", "three four", "five", "six"]);
        let source = RustSource::new("f.rs", "/// One\n/// two.\nfn f() {} // three\n// four\n\n// five\n");
        let texts: Vec<_> = of_comments(&source).into_iter().map(|paragraph| paragraph.text).collect();
        assert_eq!(texts, ["One two.", "three four", "five"]);
    }

    #[test]
    fn frequencies_count_whole_words() {
        let mut frequencies = Frequencies::default();
        frequencies.add("What we told whoever: `what`.");
        assert_eq!((frequencies.words, frequencies.counts), (5, [1, 0, 0, 0, 1, 1]));
    }
}
