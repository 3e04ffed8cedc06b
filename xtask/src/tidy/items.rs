//! Functions, types and attributes of a Rust file, found by their keywords.

use super::source::RustSource;

/// A function and its length from the line of `fn` to its closing brace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    /// Its name without the path.
    pub name: String,
    /// Line number of `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub length: usize,
}

/// Lists the functions that have a body.
pub(super) fn functions(source: &RustSource) -> Vec<Function> {
    let code = &source.code;
    let starts = keyword(code, "fn");
    starts
        .filter_map(|at| {
            let name = identifier(&code[at..]);
            let body = body(&code[at..]).filter(|_| !name.is_empty())?;
            let line = line_of(code, at);
            Some(Function {
                name: name.to_owned(),
                line,
                length: code[at..at + body].matches('\n').count() + 1,
            })
        })
        .collect()
}

/// Lists the names of the structs, enums, traits and unions.
pub(super) fn types(source: &RustSource) -> Vec<String> {
    let code = &source.code;
    let found = ["struct", "enum", "trait", "union"].into_iter().flat_map(|word| keyword(code, word));
    let names = found.map(|at| identifier(&code[at..]).to_owned());
    names.filter(|name| name.starts_with(char::is_uppercase)).collect()
}

/// Lists the lines with `allow` or `expect` attributes that give no reason.
pub(super) fn without_reason(source: &RustSource) -> Vec<usize> {
    let code = &source.code;
    let attributes = code.match_indices('#').filter_map(|(at, _)| {
        let inner = code[at + 1..].trim_start_matches('!').strip_prefix('[')?.trim_start();
        let lint = inner.starts_with("allow(") || inner.starts_with("expect(");
        let whole = inner.split(']').next().unwrap_or_default();
        (lint && !whole.contains("reason")).then(|| line_of(code, at))
    });
    attributes.collect()
}

/// Finds each place right behind the whole word `word` and the blanks that follow it.
fn keyword<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).filter_map(move |(at, _)| {
        let end = at + word.len();
        let before = code[..at].chars().next_back().is_none_or(|c| !part_of_name(c));
        let blanks = code[end..].len() - code[end..].trim_start().len();
        (before && blanks > 0).then_some(end + blanks)
    })
}

fn part_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn identifier(code: &str) -> &str {
    let end = code.find(|c| !part_of_name(c)).unwrap_or(code.len());
    &code[..end]
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// Returns the offset behind the closing brace of a function that starts here, or nothing if it has
/// no body.
fn body(code: &str) -> Option<usize> {
    let (mut nested, mut braces) = (0_usize, 0_usize);
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => nested += 1,
            ')' | ']' => nested = nested.checked_sub(1)?,
            ';' if nested == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let text = "trait T { fn no(&self) -> [u8; 4]; }\nfn one() { \"}\" }\nfn three<F: Fn() -> u8>(\n    _: [u8; 2]) {\n}\n";
        let found = functions(&RustSource::new("f.rs", text));
        let found: Vec<_> = found.iter().map(|f| (&f.name[..], f.line, f.length)).collect();
        assert_eq!(found, [("one", 2, 1), ("three", 3, 3)]);
    }

    #[test]
    fn types_are_named_once_for_each_definition() {
        let text = "pub struct Place;\nenum Run { A }\n// struct No;\nlet union = 1;\npub(crate) trait Site {}\nmod m { struct Place; }";
        let mut found = types(&RustSource::new("f.rs", text));
        found.sort();
        assert_eq!(found, ["Place", "Place", "Run", "Site"]);
    }

    #[test]
    fn an_allow_needs_a_reason() {
        let text = "#[allow(dead_code)]\nfn a() {}\n#[allow(x, reason = \"y\")]\nfn b() {}\n#![expect(x)]\n";
        assert_eq!(without_reason(&RustSource::new("f.rs", text)), [1, 5]);
    }
}
