//! Writes docs/limits.md from the limits in the sources, so that none is missing and every default is the real one.

use crate::steps;
use anyhow::{Context, bail};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const HEAD: &str = "# Limits\n\nEverything that a peer, a file or a user can make Orthrus hold or do has a limit. This page is made from the sources by \
`cargo xtask limits`.\nThose of the configuration (`docs/serve.md`) are set there; the rest are constants beside the code that they bound.\n";

/// A limit as it stands in a source file.
struct Limit {
    name: String,
    value: String,
    says: String,
}

/// Writes the page, or with `check` says whether it is current.
///
/// # Errors
/// When it is not current, or a file cannot be read.
pub fn run(check: bool) -> anyhow::Result<()> {
    let page = page()?;
    let path = steps::root().join("docs/limits.md");
    if !check {
        return std::fs::write(&path, page).with_context(|| path.display().to_string());
    }
    if std::fs::read_to_string(&path).unwrap_or_default() != page {
        bail!("docs/limits.md is not current; run `cargo xtask limits` and commit it");
    }
    Ok(())
}

fn page() -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
    for name in sorted(&steps::root().join("crates"))? {
        let mut limits = Vec::new();
        for file in sources(&name.join("src"))? {
            limits.extend(scan(&std::fs::read_to_string(file)?));
        }
        if limits.is_empty() {
            continue;
        }
        let title = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let _ = write!(page, "\n## {title}\n\n| limit | default | what it bounds |\n|---|---|---|\n");
        for limit in limits {
            let _ =
                writeln!(page, "| `{}` | {} | {} |", limit.name, limit.value, limit.says.replace('|', "\\|"));
        }
    }
    Ok(page)
}

fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Lists the hand-written sources below a folder, without tests.
fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in sorted(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match () {
            () if name == "generated" || name == "conformance" || name.contains("test") => {}
            () if path.is_dir() => found.extend(sources(&path)?),
            () if name.ends_with(".rs") => found.push(path),
            () => {}
        }
    }
    Ok(found)
}

/// Finds `const NAME_MAX: T = value;` and fields `name_max: T` with their defaults.
fn scan(text: &str) -> Vec<Limit> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let mut limits = Vec::new();
    let mut says: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            says.push(doc.trim());
            continue;
        }
        if let Some((name, value)) = constant(line).or_else(|| field(line, text)) {
            limits.push(Limit { name, value, says: sentence(&says) });
        }
        if !line.starts_with("#[") {
            says.clear();
        }
    }
    limits
}

fn constant(line: &str) -> Option<(String, String)> {
    let (_, rest) = line.split_once("const ")?;
    let (name, rest) = rest.split_once(": ")?;
    let (_, value) = rest.split_once(" = ")?;
    name.ends_with("_MAX").then(|| (name.to_owned(), value.trim_end_matches(';').to_owned()))
}

fn field(line: &str, text: &str) -> Option<(String, String)> {
    let (name, _) = line.strip_prefix("pub ")?.split_once(": ")?;
    if !name.ends_with("_max") {
        return None;
    }
    let after = format!(" {name}: ");
    let defaults = text.split("impl Default for").skip(1).filter_map(|block| block.split("\n}\n").next());
    let value = defaults.filter_map(|block| block.split_once(&after)).map(|(_, value)| value).next()?;
    let value = value.lines().next()?.trim_end_matches(" }").split(", ").next()?.trim_end_matches(',');
    Some((name.to_owned(), value.to_owned()))
}

fn sentence(says: &[&str]) -> String {
    let all = says.iter().take_while(|line| !line.is_empty()).copied().collect::<Vec<_>>().join(" ");
    all.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_and_fields_are_found_with_their_defaults_and_sentences() {
        let text = "/// Bytes of a name.\nconst NAME_MAX: usize = 255;\nstruct Limits {\n    /// Open at once.\n    pub files_max: usize,\n}\nimpl Default for Limits {\n    fn default() -> Self {\n        Self { files_max: 1 << 4, other: 3 }\n    }\n}\n";
        let found: Vec<_> =
            scan(text).into_iter().map(|limit| (limit.name, limit.value, limit.says)).collect();
        let expect = [("NAME_MAX", "255", "Bytes of a name."), ("files_max", "1 << 4", "Open at once.")];
        assert_eq!(found, expect.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    }

    #[test]
    fn the_page_in_the_repository_is_current() {
        run(true).unwrap();
    }
}
