//! Generates Rust from XDR grammars (RFC 4506). A development tool, the output of which is checked
//! in.
//!
//! [`lexer`] splits a grammar into tokens, and [`parser`] makes definitions of them.
//! [`model::Model`] resolves the names of all files of a namespace and finds faults. [`emit`]
//! writes Rust, and [`output`] formats it and writes it to files or compares it with them.
//!
//! There are two extensions of the RFC. A later file of a namespace may extend an enum or a union
//! of an earlier file by repeating it with more values or arms, as minor versions do. And a struct
//! with an optional pointer to itself as its last member becomes a list.

pub mod ast;
pub mod emit;
pub mod lexer;
pub mod model;
pub mod names;
pub mod output;
pub mod parser;
mod types;

use std::collections::BTreeMap;

use lexer::Fault;
use model::{Model, Override};

/// Generates unformatted Rust files from the grammars of one namespace. Takes the name and text of
/// each grammar, and returns the files by name.
///
/// # Errors
/// The first [`Fault`] of the grammars.
pub fn generate(
    grammars: &[(&str, &str)],
    overrides: &[Override],
) -> Result<BTreeMap<String, String>, Fault> {
    let mut definitions = Vec::new();
    for (file, text) in grammars {
        definitions.extend(parser::parse(file, text)?);
    }
    emit::files(&Model::new(definitions, overrides)?)
}
