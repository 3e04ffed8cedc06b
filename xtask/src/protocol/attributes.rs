//! The attributes: their numbers from the grammars, their states from the server.

use super::citations::Test;
use anyhow::Context;
use nfs4::Bitmap4;
use server::attr;
use std::path::Path;
use vfs::Features;

const GRAMMARS: [&str; 3] = ["specs/nfs41.x", "specs/nfs42.x", "specs/xattr.x"];

/// An attribute that a grammar has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    /// The name of the constant, such as `FATTR4_SIZE`.
    constant: String,
    /// The number of the attribute (RFC 8881 section 5.6).
    pub number: u32,
}

impl Attribute {
    /// As in the RFC: `size`.
    pub(super) fn name(&self) -> String {
        self.constant.trim_start_matches("FATTR4_").to_lowercase()
    }

    /// The minor version that it comes with here.
    pub(super) fn since(&self) -> &'static str {
        // mounted_on_fileid is the last of NFSv4.0, fs_charset_cap of NFSv4.1.
        match self.number {
            0..=nfs4::FATTR4_MOUNTED_ON_FILEID => "4.0",
            number if number <= nfs4::FATTR4_FS_CHARSET_CAP => "4.1",
            _ => "4.2",
        }
    }

    /// Returns the support for it, in the newest minor version and on a file system that has it.
    pub(super) fn state(&self) -> String {
        let has = |set: Bitmap4| set.iter().any(|number| number == self.number);
        if !has(attr::supported(2, Features::EVERY)) {
            return "not".to_owned();
        }
        let (read, set) = (has(nfs4::attributes::GETTABLE), has(attr::SETTABLE));
        let how = match (read, set) {
            (true, true) => "read and set",
            (true, false) => "read",
            _ => "set",
        };
        let required = if has(nfs4::attributes::REQUIRED) { ", required" } else { "" };
        format!("{how}{required}")
    }

    /// Whether a test names the constant.
    pub(super) fn is_tested_by(&self, test: &Test) -> bool {
        test.constants.contains(&self.constant)
    }
}

/// Reads all of the grammars, in the order of their numbers.
///
/// # Errors
/// When a grammar cannot be read.
pub(super) fn read(root: &Path) -> anyhow::Result<Vec<Attribute>> {
    let mut all = Vec::new();
    for grammar in GRAMMARS {
        let text = std::fs::read_to_string(root.join(grammar)).context(grammar)?;
        all.extend(text.lines().filter_map(attribute));
    }
    all.sort_by_key(|one: &Attribute| one.number);
    Ok(all)
}

/// Reads `const FATTR4_SIZE = 4;`.
fn attribute(line: &str) -> Option<Attribute> {
    let (constant, value) = line.trim().strip_prefix("const ")?.split_once('=')?;
    let number = value.split(';').next()?.trim().parse().ok()?;
    let constant = constant.trim();
    constant.starts_with("FATTR4_").then(|| Attribute { constant: constant.to_owned(), number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_stands_for_one_attribute() {
        let all = read(&steps::root()).unwrap();
        let numbers: Vec<u32> = all.iter().map(|one| one.number).collect();
        let mut unique = numbers.clone();
        unique.dedup();
        assert_eq!(numbers, unique);
        assert!(attr::supported(2, Features::EVERY).iter().all(|number| numbers.contains(&number)));
    }

    #[test]
    fn an_attribute_is_what_the_server_does_with_it() {
        let state = |line| attribute(line).unwrap().state();
        assert_eq!(state("const FATTR4_SIZE = 4;"), "read and set, required");
        assert_eq!(state("const FATTR4_TIME_MODIFY_SET = 54;"), "set");
        assert_eq!(state("const FATTR4_FILEID = 20;"), "read");
        assert_eq!(state("const FATTR4_MIMETYPE = 32;"), "not");
    }
}
