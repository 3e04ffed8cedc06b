//! Checks the statements of the documentation about tests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;

/// Checks that a page names at least so many tests, and that all of them are there.
fn check_tests_named_by(page: &str, at_least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(page)).unwrap();
    let named: Vec<(&str, &str)> = text
        .split('`')
        .filter_map(|piece| piece.split_once("::"))
        .filter(|(file, _)| file.ends_with(".rs"))
        .collect();
    assert!(named.len() >= at_least, "{page} names {} tests", named.len());
    for (file, test) in named {
        let source = std::fs::read_to_string(root.join(file)).expect(file);
        assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
}

#[test]
fn every_test_that_the_page_of_traps_names_is_there() {
    check_tests_named_by("docs/traps.md", 50);
}

#[test]
fn every_test_that_the_page_of_cluster_file_systems_names_is_there() {
    check_tests_named_by("docs/cluster-file-systems.md", 10);
}

#[test]
fn every_test_that_the_threat_model_names_is_there() {
    check_tests_named_by("docs/threat-model.md", 90);
}
