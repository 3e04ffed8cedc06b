//! Updates the generated wire types, or checks with `--check` that they are current:
//! `cargo run -p xdrgen`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use xdrgen::model::Override;
use xdrgen::output;

/// The grammars of one namespace, and the folder of their types.
struct GrammarTarget {
    grammars: &'static [&'static str],
    folder: &'static str,
    overrides: &'static [Override],
}

const TARGETS: &[GrammarTarget] = &[
    GrammarTarget {
        grammars: &["specs/rpc.x", "specs/rpcsec_gss.x"],
        folder: "crates/rpc/src/generated",
        overrides: &[],
    },
    GrammarTarget {
        grammars: &["specs/nfs41.x", "specs/nfs42.x", "specs/xattr.x"],
        folder: "crates/nfs4/src/generated",
        // READDIR handles a bitmap for each entry, and a vector of words would allocate each time.
        overrides: &[Override { name: "bitmap4", rust: "crate::Bitmap4", wire_min: 4 }],
    },
];

/// Generates the wire types from the XDR grammars in specs/.
#[derive(Parser)]
struct Arguments {
    /// Changes nothing and fails if a generated file is not current
    #[arg(long)]
    check: bool,
    /// Root folder of the repository
    #[arg(long, default_value = ".")]
    root: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut differences = Vec::new();
    for target in TARGETS {
        let files = generate(&arguments.root, target)?;
        let folder = arguments.root.join(target.folder);
        if arguments.check {
            differences.extend(output::differences(&folder, &files)?);
        } else {
            output::write(&folder, &files)?;
            println!("{}: {} files", target.folder, files.len());
        }
    }
    if !differences.is_empty() {
        let list = differences.join("\n");
        bail!("generated code is not current; run `cargo run -p xdrgen` and commit its output\n{list}");
    }
    Ok(())
}

fn generate(root: &Path, target: &GrammarTarget) -> Result<BTreeMap<String, String>> {
    let mut grammars = Vec::new();
    for path in target.grammars {
        let text = fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        grammars.push((*path, text));
    }
    let grammars: Vec<_> = grammars.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let mut files = xdrgen::generate(&grammars, target.overrides)?;
    for text in files.values_mut() {
        *text = output::formatted(root, std::mem::take(text))?;
    }
    Ok(files)
}
