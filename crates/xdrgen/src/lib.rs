//! Generates Rust from XDR grammars (RFC 4506); a development tool, its output is checked in.
//!
//! The way of a grammar: [`lexer`] splits it, [`parser`] makes definitions of it, [`model::Model`]
//! resolves the names of all files of a namespace and finds faults, [`emit`] writes Rust,
//! [`output`] formats it and writes it to files or compares it with them.
//!
//! Two things go beyond the RFC. A later file of a namespace may extend an enum or a union of an
//! earlier file by writing it again with more values or arms, as minor versions do. And a struct
//! whose last member is an optional pointer to itself is taken for what it means, a list.

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

/// Makes unformatted Rust files, by name, of the grammars of one namespace, each a name and its
/// text.
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
