//! The syntax of NFS-Ganesha's configuration: settings in blocks, and other files.

use super::{one_line, read};
use anyhow::{Context, bail};
use identity::fits_pattern;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Blocks inside each other; a deeper one is refused.
const BLOCK_DEPTH_MAX: usize = 8;
/// Files that a file includes, at any depth; further ones are refused, as is a circle of them.
const INCLUDED_FILES_MAX: usize = 100;

/// A block with its settings and inner blocks; names are in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) name: String,
    pub(super) settings: Vec<(String, Vec<String>)>,
    pub(super) blocks: Vec<Block>,
}

impl Block {
    /// Returns the values of a key; the last counts if it is repeated.
    pub(super) fn values(&self, key: &str) -> Option<&[String]> {
        self.settings.iter().rev().find(|(name, _)| name == key).map(|(_, values)| values.as_slice())
    }

    /// Returns the first value of a key.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.values(key)?.first().map(String::as_str)
    }

    /// Returns the values of a key that extends its list each time.
    pub(super) fn all_values(&self, key: &str) -> Vec<String> {
        let same = self.settings.iter().filter(|(name, _)| name == key);
        same.flat_map(|(_, values)| values.iter().cloned()).collect()
    }

    /// Returns whether a key has several lines.
    pub(super) fn repeats(&self, key: &str) -> bool {
        self.settings.iter().filter(|(name, _)| name == key).count() > 1
    }

    /// Returns the inner blocks of a name.
    pub(super) fn inner<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'b Self> {
        self.blocks.iter().filter(move |block| block.name == name)
    }

    /// Returns a sentence for each setting that is not among `known`, and for each repeated one.
    pub(super) fn notes<'b>(&'b self, known: &'b [&str]) -> impl Iterator<Item = String> + 'b {
        self.settings.iter().enumerate().filter_map(|(index, (name, values))| {
            let rest = self.settings.iter().skip(index + 1);
            let sentence = match known.contains(&name.as_str()) {
                false => "has no equivalent.",
                true if name != "clients" && rest.into_iter().any(|(other, _)| other == name) => {
                    "is repeated: the last one counts."
                }
                true => return None,
            };
            Some(format!("{} {{ {name} = {} }} {sentence}", self.name, values.join(", ")))
        })
    }
}

/// A configuration with the files that it includes.
#[derive(Debug, Default)]
pub(super) struct GaneshaFiles {
    /// The settings and blocks of all files.
    pub(super) file: Block,
    /// The other files that cannot be read, as the configuration names them, with the reasons.
    pub(super) missing: Vec<String>,
}

impl GaneshaFiles {
    /// Parses the contents of `path`, from which the paths of other files start.
    ///
    /// # Errors
    /// The line with the wrong syntax.
    pub(super) fn parse(path: &Path, text: &str) -> anyhow::Result<Self> {
        let mut reader = GaneshaReader::default();
        reader.read_text(path, text, "")?;
        let (file, rest) = block(String::new(), &reader.tokens, 0)?;
        match rest.first() {
            Some((line, _)) => bail!("{line}: a brace closes nothing"),
            None => Ok(Self { file, missing: reader.missing }),
        }
    }
}

/// A piece of the text.
#[derive(Debug, PartialEq, Eq)]
enum GaneshaToken {
    Word(String),
    Mark(char),
}

/// A piece with its line, and with its file if another one includes it.
type PlacedToken = (Rc<str>, GaneshaToken);

/// Splits files into words and the marks `{ } = , ;`.
#[derive(Debug, Default)]
struct GaneshaReader {
    tokens: Vec<PlacedToken>,
    missing: Vec<String>,
    included: usize,
}

impl GaneshaReader {
    /// Reads the text of a file. Its lines are named behind `prefix`.
    fn read_text(&mut self, path: &Path, text: &str, prefix: &str) -> anyhow::Result<()> {
        for (index, line) in text.lines().enumerate() {
            let place: Rc<str> = format!("{prefix}line {}", index + 1).into();
            let mut rest = line.trim_start();
            while let Some(first) = rest.chars().next() {
                if first == '#' || rest.starts_with("//") {
                    break;
                }
                if first == '%' {
                    self.include(path, rest).with_context(|| place.to_string())?;
                    break;
                }
                let (token, length) = token(first, rest).with_context(|| place.to_string())?;
                self.tokens.push((Rc::clone(&place), token));
                rest = rest.get(length..).unwrap_or_default().trim_start();
            }
        }
        Ok(())
    }

    /// Reads the files that a line such as `%include "exports.conf"` or `%dir exports.d` names.
    fn include(&mut self, path: &Path, line: &str) -> anyhow::Result<()> {
        let (directive, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let name = name.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'', '<', '>']);
        let place = path.parent().unwrap_or(Path::new("")).join(name);
        let files = match directive.to_ascii_lowercase().as_str() {
            "%include" => vec![place],
            "%dir" => files_of(&place).unwrap_or_else(|_| vec![place]),
            _ => {
                self.missing.push(format!("{directive} {name}"));
                return Ok(());
            }
        };
        for file in files {
            self.included += 1;
            if self.included > INCLUDED_FILES_MAX {
                bail!("more than {INCLUDED_FILES_MAX} files are included");
            }
            let prefix = format!("{}: ", one_line(&file.to_string_lossy()));
            match read(&file) {
                Ok(text) => self.read_text(&file, &text, &prefix)?,
                Err(error) => self.missing.push(format!("{directive} {name} ({prefix}{error:#})")),
            }
        }
        Ok(())
    }
}

/// Returns the files of a folder by name. The last name of its path may be a pattern of theirs.
fn files_of(place: &Path) -> io::Result<Vec<PathBuf>> {
    let last = place.file_name().unwrap_or_default().to_string_lossy();
    let (folder, pattern) = match last.contains('*') {
        true => (place.parent().unwrap_or(place), &*last),
        false => (place, "*"),
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && fits_pattern(pattern, &entry.file_name().to_string_lossy()) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the piece at the beginning of a text, and its length.
fn token(first: char, rest: &str) -> anyhow::Result<(GaneshaToken, usize)> {
    let word = |text: Option<&str>| GaneshaToken::Word(text.unwrap_or_default().to_owned());
    Ok(match first {
        '{' | '}' | '=' | ',' | ';' => (GaneshaToken::Mark(first), 1),
        '"' | '\'' => {
            let inner = rest.get(1..).unwrap_or_default();
            let end = inner.find(first).context("a quote has no end")?;
            (word(inner.get(..end)), end + 2)
        }
        _ => {
            let ends = |c: char| c.is_whitespace() || "{}=,;#\"'".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len());
            (word(rest.get(..end)), end)
        }
    })
}

/// Parses the inside of a block, and returns the tokens behind its end.
fn block(name: String, mut tokens: &[PlacedToken], depth: usize) -> anyhow::Result<(Block, &[PlacedToken])> {
    let mut parsed = Block { name, ..Block::default() };
    loop {
        match tokens {
            [] if depth == 0 => return Ok((parsed, tokens)),
            [] => bail!("the block {} has no end", parsed.name),
            [(_, GaneshaToken::Mark('}')), ..] if depth == 0 => return Ok((parsed, tokens)),
            [(_, GaneshaToken::Mark('}')), rest @ ..] => return Ok((parsed, rest)),
            [(_, GaneshaToken::Mark(';')), rest @ ..] => tokens = rest,
            [(line, GaneshaToken::Word(name)), (_, GaneshaToken::Mark('{')), rest @ ..] => {
                if depth == BLOCK_DEPTH_MAX {
                    bail!("{line}: more than {BLOCK_DEPTH_MAX} blocks are inside each other");
                }
                let (inner, rest) = block(name.to_lowercase(), rest, depth + 1)?;
                parsed.blocks.push(inner);
                tokens = rest;
            }
            [(line, GaneshaToken::Word(name)), (_, GaneshaToken::Mark('=')), rest @ ..] => {
                let end = rest
                    .iter()
                    .position(|(_, token)| *token == GaneshaToken::Mark(';'))
                    .with_context(|| format!("{line}: {name} has no semicolon"))?;
                let (values, rest) = rest.split_at(end);
                let mut words = Vec::new();
                for (line, token) in values {
                    match token {
                        GaneshaToken::Word(word) => words.push(word.clone()),
                        GaneshaToken::Mark(',') => {}
                        GaneshaToken::Mark(mark) => bail!("{line}: {mark:?} in the value of {name}"),
                    }
                }
                parsed.settings.push((name.to_lowercase(), words));
                tokens = rest;
            }
            [(line, _), ..] => bail!("{line}: neither `KEY = VALUE;` nor `BLOCK {{`"),
        }
    }
}
