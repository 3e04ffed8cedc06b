//! Writes docs/protocol-support.md: each operation and attribute, its state by the server's own
//! tables, its tests.

mod attributes;
mod citations;
mod operations;

use anyhow::{Context, bail};
use citations::Test;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const PAGE: &str = "docs/protocol-support.md";

const HEAD: &str = "# Protocol support

`cargo xtask protocol` generates this page from the tables with which the server works, and from
the lines `Lacking:` at the head of the operations' sources. A test counts for an operation when the
comment at its head cites the operation's section or names it, and for an attribute when its body
names the attribute's constant. Tests of a whole path, such as those of the Linux client, are listed
only where they name an operation.
";

/// Writes the page, or with `check` says whether it is current.
///
/// # Errors
/// When it is not current, or a source cannot be read.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let root = steps::root();
    let page = page(&root)?;
    let path = root.join(PAGE);
    if !check {
        return std::fs::write(&path, page).with_context(|| path.display().to_string());
    }
    if std::fs::read_to_string(&path).unwrap_or_default() != page {
        bail!("{PAGE} is not current; run `cargo xtask protocol` and commit it");
    }
    Ok(())
}

fn page(root: &Path) -> anyhow::Result<String> {
    let tests = citations::tests(root)?;
    let (operations, attributes) = (operations::read(root)?, attributes::read(root)?);
    let mut page = HEAD.to_owned();
    page.push_str("\n## Operations\n\n| operation | number | defined in | since | state | tests |\n|---|---|---|---|---|---|\n");
    for one in &operations {
        let count = tests.iter().filter(|test| one.is_tested_by(test)).count();
        let (name, number, section, since) = (&one.name, one.number, one.section(), one.since);
        let _ = writeln!(page, "| {name} | {number} | {section} | 4.{since} | {} | {count} |", one.state);
    }
    page.push_str(
        "\n## Attributes\n\n| attribute | number | since | state | tests |\n|---|---|---|---|---|\n",
    );
    for one in &attributes {
        let count = tests.iter().filter(|test| one.is_tested_by(test)).count();
        let _ = writeln!(
            page,
            "| {} | {} | {} | {} | {count} |",
            one.name(),
            one.number,
            one.since(),
            one.state()
        );
    }
    page.push_str("\n## Tests of operations\n");
    for one in &operations {
        list(&mut page, &one.name, tests.iter().filter(|test| one.is_tested_by(test)));
    }
    page.push_str("\n## Tests of attributes\n");
    for one in &attributes {
        list(&mut page, &one.name(), tests.iter().filter(|test| one.is_tested_by(test)));
    }
    Ok(page)
}

/// A heading and a line a file with its tests; nothing where there are none.
fn list<'t>(page: &mut String, name: &str, tests: impl Iterator<Item = &'t Test>) {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for test in tests {
        files.entry(&test.file).or_default().push(format!("`{}`", test.name));
    }
    if !files.is_empty() {
        let _ = write!(page, "\n### {name}\n\n");
    }
    for (file, tests) in files {
        let _ = writeln!(page, "- `{file}`: {}", tests.join(", "));
    }
}
