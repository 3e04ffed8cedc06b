//! The operations, from the rows of the engine's table and the heads of the sources that the rows
//! name.

use super::citations::Test;
use anyhow::{Context, bail, ensure};
use nfs4::NfsOpnum4;
use std::path::Path;

const TABLE: &str = "crates/server/src/compound/table.rs";
/// Begins the line in an operation's source that lists unsupported parts.
const LACKING: &str = "//! Lacking: ";

/// The last operation of NFSv4.0.
const LAST_OF_4_0: u32 = 39;
/// The operations of NFSv4.0 that NFSv4.1 removed (RFC 8881 section 17). Their sources are in
/// `ops/v40`.
const GONE: [&str; 5] = ["OPEN_CONFIRM", "RENEW", "SETCLIENTID", "SETCLIENTID_CONFIRM", "RELEASE_LOCKOWNER"];

/// An operation that has a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// As in the RFC: `OPEN_DOWNGRADE`.
    pub name: String,
    /// The number of the operation in nfs_opnum4.
    pub number: u32,
    /// The first minor version that has it.
    pub since: u32,
    /// `supported`, `not`, or `partly` with the missing parts.
    pub state: String,
}

impl Operation {
    /// Returns the RFC and section that define the operation. The sections of each RFC follow the
    /// numbers, without the operations that NFSv4.1 removed (RFC 8881 section 17).
    fn defined(&self) -> (u32, String) {
        match self.number {
            number if GONE.contains(&self.name.as_str()) => (7530, format!("16.{}", number - 2)),
            59..=71 => (7862, format!("15.{}", self.number - 58)),
            72..=75 => (8276, format!("8.4.{}", self.number - 71)),
            // Each removed operation moves the later ones up.
            number => {
                let gone = [20, 30, 35, 36, 39].iter().filter(|gone| **gone < number).count();
                (8881, format!("18.{}", number as usize - 2 - gone))
            }
        }
    }

    /// The same for the page.
    pub(super) fn section(&self) -> String {
        let (rfc, section) = self.defined();
        format!("RFC {rfc} section {section}")
    }

    /// Whether a test cites the section, a part of it, or the name.
    pub(super) fn is_tested_by(&self, test: &Test) -> bool {
        let (rfc, section) = self.defined();
        let part = format!("{section}.");
        let about =
            |(of, cited): &(u32, String)| *of == rfc && (*cited == section || cited.starts_with(&part));
        test.cites.iter().any(about) || test.names.contains(&self.name)
    }
}

/// Reads all rows.
///
/// # Errors
/// When the table is not as it is known here.
pub(super) fn read(root: &Path) -> anyhow::Result<Vec<Operation>> {
    let text = std::fs::read_to_string(root.join(TABLE)).context(TABLE)?;
    let rows = rows(&text)?;
    rows.into_iter()
        .map(|row| {
            let state = match row.runs {
                "unsupported" if GONE.contains(&row.name) => {
                    format!("{}, in 4.0 only", state(root, &format!("v40/{}", row.name.to_lowercase()))?)
                }
                "unsupported" => "not".to_owned(),
                module => state(root, module)?,
            };
            let number = number(row.name)?;
            let since = if number <= LAST_OF_4_0 { 0 } else { row.since };
            Ok(Operation { name: row.name.to_owned(), number, since, state })
        })
        .collect()
}

struct OperationRow<'t> {
    name: &'t str,
    /// The module that runs it.
    runs: &'t str,
    since: u32,
}

/// Parses rows of the form `row(OP_X, ops::x::run).v42(),`.
fn rows(text: &str) -> anyhow::Result<Vec<OperationRow<'_>>> {
    let (_, table) = text.split_once("const OPERATIONS").context("there is no table of operations")?;
    let (table, _) = table.split_once("\n];").context("the table has no end")?;
    let row = |text| -> Option<OperationRow<'_>> {
        let (name, rest) = str::split_once(text, ',')?;
        let runs = rest.trim_start().strip_prefix("ops::")?.split("::").next()?;
        Some(OperationRow { name, runs, since: if rest.contains(".v42()") { 2 } else { 1 } })
    };
    let rows: Option<Vec<OperationRow<'_>>> = table.split("row(OP_").skip(1).map(row).collect();
    let rows = rows.context("a row of the table is not as it should be")?;
    ensure!(!rows.is_empty(), "the table is empty");
    Ok(rows)
}

fn number(name: &str) -> anyhow::Result<u32> {
    let full = format!("OP_{name}");
    let found = (0..1000).filter_map(NfsOpnum4::from_u32).find(|opnum| opnum.name() == full);
    found.map(|opnum| opnum as u32).with_context(|| format!("{full} is no operation"))
}

fn state(root: &Path, module: &str) -> anyhow::Result<String> {
    let folder = root.join("crates/server/src/ops").join(module);
    for path in [folder.with_extension("rs"), folder.join("mod.rs")] {
        if let Ok(text) = std::fs::read_to_string(path) {
            let lacking = text.lines().find_map(|line| line.strip_prefix(LACKING));
            return Ok(lacking.map_or("supported".to_owned(), |what| format!("partly, without {what}")));
        }
    }
    bail!("ops::{module} has no source")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_who_runs_it_and_since_when() {
        let text = "const OPERATIONS: [Operation; 2] = [\n    row(OP_ACCESS, ops::access::run).fh(),\n    row(OP_EXCHANGE_ID, ops::exchange_id::run)\n        .place(Alone),\n    row(OP_SEEK, ops::unsupported::run).v42(),\n];";
        let rows: Vec<_> =
            rows(text).unwrap().into_iter().map(|row| (row.name, row.runs, row.since)).collect();
        assert_eq!(
            rows,
            [("ACCESS", "access", 1), ("EXCHANGE_ID", "exchange_id", 1), ("SEEK", "unsupported", 2)]
        );
    }

    #[test]
    fn sections_follow_the_numbers() {
        for (name, section) in [
            ("ACCESS", "RFC 8881 section 18.1"),
            ("OPENATTR", "RFC 8881 section 18.17"),
            ("OPEN_DOWNGRADE", "RFC 8881 section 18.18"),
            ("REMOVE", "RFC 8881 section 18.25"),
            ("RESTOREFH", "RFC 8881 section 18.27"),
            ("SETATTR", "RFC 8881 section 18.30"),
            ("VERIFY", "RFC 8881 section 18.31"),
            ("WRITE", "RFC 8881 section 18.32"),
            ("BACKCHANNEL_CTL", "RFC 8881 section 18.33"),
            ("RECLAIM_COMPLETE", "RFC 8881 section 18.51"),
            ("ALLOCATE", "RFC 7862 section 15.1"),
            ("CLONE", "RFC 7862 section 15.13"),
            ("REMOVEXATTR", "RFC 8276 section 8.4.4"),
            ("RENEW", "RFC 7530 section 16.28"),
            ("RELEASE_LOCKOWNER", "RFC 7530 section 16.37"),
        ] {
            let number = number(name).unwrap();
            let one = Operation { name: name.to_owned(), number, since: 1, state: String::new() };
            assert_eq!(one.section(), section, "{name}");
        }
    }

    #[test]
    fn a_section_is_not_mistaken_for_one_that_begins_alike() {
        let one = Operation { name: "ACCESS".to_owned(), number: 3, since: 1, state: String::new() };
        let test = |section: &str| Test { cites: vec![(8881, section.to_owned())], ..Test::default() };
        assert!(one.is_tested_by(&test("18.1")) && one.is_tested_by(&test("18.1.3")));
        assert!(!one.is_tested_by(&test("18.16")) && !one.is_tested_by(&test("18")));
    }

    #[test]
    fn every_row_of_the_servers_table_is_found() {
        let all = read(&steps::root()).unwrap();
        assert_eq!(all.iter().map(|one| one.number).collect::<Vec<_>>(), (3..=75).collect::<Vec<_>>());
        assert!(all.iter().any(|one| one.state == "supported"));
    }
}
