//! Finds tests in the sources, and the citations in them.

use anyhow::Context;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folders that contain tests.
const FOLDERS: [&str; 2] = ["crates", "tests"];

/// A test and its citations.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Test {
    /// The file's path below the root.
    pub file: String,
    /// The name of the test's function.
    pub name: String,
    /// RFCs with sections that its comments cite.
    pub cites: Vec<(u32, String)>,
    /// Words in capitals of its comments, such as SETATTR.
    pub names: BTreeSet<String>,
    /// Attributes that its body names.
    pub constants: BTreeSet<String>,
}

/// Finds all tests below a root, in the order of their files.
///
/// # Errors
/// When a folder or file cannot be read.
pub(super) fn tests(root: &Path) -> anyhow::Result<Vec<Test>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let file = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        all.extend(in_file(&text).map(|test| Test { file: file.clone(), ..test }));
    }
    Ok(all)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// A test reaches from its attribute to the next function that stands at the same place.
fn in_file(text: &str) -> impl Iterator<Item = Test> + '_ {
    text.split("#[test]\n").skip(1).filter_map(|piece| {
        let name = piece.split("fn ").nth(1)?.split('(').next()?;
        let mut test = Test { name: name.trim().to_owned(), ..Test::default() };
        let indent = piece.len() - piece.trim_start_matches(' ').len();
        let end = format!("\n{}}}\n", " ".repeat(indent));
        let body = piece.split(end.as_str()).next().unwrap_or(piece);
        for comment in body.lines().filter_map(|line| line.split_once("//")).map(|(_, comment)| comment) {
            test.cites.extend(cited(comment));
            test.names.extend(words(comment).filter(|word| is_name(word)).map(str::to_owned));
        }
        let constants = words(body).filter(|word| word.starts_with("FATTR4_"));
        test.constants = constants.map(str::to_owned).collect();
        Some(test)
    })
}

/// Reads `RFC 8881 sections 9.9 and 18.16.3, RFC 7862 section 15.1`.
fn cited(comment: &str) -> Vec<(u32, String)> {
    let mut cites = Vec::new();
    let mut rfc = None;
    let mut words = comment.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if word == "RFC" {
            rfc = words.next().and_then(|number| number.trim_matches(',').parse().ok());
        } else if word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.') {
            cites.extend(rfc.map(|rfc| (rfc, word.to_owned())));
        }
    }
    cites
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn is_name(word: &str) -> bool {
    word.len() > 3 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_belong_to_the_rfc_before_them() {
        let cites = cited(" RFC 8881 sections 9.9 and 18.16.3, RFC 7862 section 15.1: 3 of 4");
        let expect = [(8881, "9.9"), (8881, "18.16.3"), (7862, "15.1")];
        assert_eq!(cites, expect.map(|(rfc, section)| (rfc, section.to_owned())));
    }

    #[test]
    fn a_test_has_its_own_comments_and_constants() {
        let text = "const A: u32 = FATTR4_TYPE;\n\n#[test]\nfn one() // RFC 8881 section 18.1\n{\n    ask(FATTR4_SIZE);\n    // as SETATTR does\n}\n\nfn helper() {\n    ask(FATTR4_MODE); // RFC 8881 section 18.2\n}\n\n#[test]\nfn two() {}\n";
        let found: Vec<Test> = in_file(text).collect();
        assert_eq!(found.iter().map(|test| test.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(found[0].cites, [(8881, "18.1".to_owned())]);
        assert_eq!(found[0].names, BTreeSet::from(["SETATTR".to_owned()]));
        assert_eq!(found[0].constants, BTreeSet::from(["FATTR4_SIZE".to_owned()]));
        assert!(found[1].cites.is_empty() && found[1].constants.is_empty());
    }
}
