//! Writes docs/protocol-support.md: each operation and attribute, its state by the server's own
//! tables, its tests.

mod attributes;
mod citations;
mod operations;

use crate::generated_page::{self, PageTask};
use citations::Test;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "# Protocol support

`cargo xtask protocol` generates this page from the tables with which the server works, and from
the lines `Lacking:` at the head of the operations' sources. A test counts for an operation when the
comment at its head cites the operation's section or names it, and for an attribute when its body
names the attribute's constant. Tests of a whole path, such as those of the Linux client, are listed
only where they name an operation.
";

/// Writes or checks the page.
///
/// # Errors
/// When it is not current, or a source cannot be read.
pub(crate) fn run(task: PageTask) -> anyhow::Result<()> {
    generated_page::apply(task, "docs/protocol-support.md", &page(&steps::root())?, "protocol")
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
