//! Checks the statements of the documentation about tests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;

#[test]
fn every_test_that_the_page_of_traps_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/traps.md")).unwrap();
    let named: Vec<(&str, &str)> = page.split('`').filter_map(|piece| piece.split_once("::")).collect();
    assert!(named.len() > 50, "{} tests are named", named.len());
    for (file, test) in named.into_iter().filter(|(file, _)| file.ends_with(".rs")) {
        let source = std::fs::read_to_string(root.join(file)).expect(file);
        assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
}
