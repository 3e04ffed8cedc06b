//! Checks that every relative link and picture of the repository's Markdown pages resolves,
//! headings included.

use std::path::{Path, PathBuf};

/// Folders with nothing of ours in them.
const SKIPPED: [&str; 5] = ["target", ".git", "corpus", "artifacts", "node_modules"];

/// Collects the Markdown pages below `folder`.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder can be listed") {
        let entry = entry.expect("an entry can be read");
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !SKIPPED.iter().any(|skipped| name == *skipped) {
                pages(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The lines of a page outside fenced blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Returns the targets of `[text](target)` in a page, except in code spans.
fn targets(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(page).filter(|line| !line.starts_with("    ")) {
        let outside_code: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in outside_code.split("](").skip(1) {
            found.extend(part.split(')').next().map(str::to_owned));
        }
    }
    found
}

/// The anchors that GitHub gives the headings of a page.
fn anchors(page: &str) -> Vec<String> {
    let headings = prose(page).filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// Describes the defect of a link of `page`, if it has one.
fn broken(page: &Path, target: &str) -> Option<String> {
    if ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    if !path.exists() {
        return Some(format!("{}: {target}: no such file", page.display()));
    }
    let wanted = anchor?;
    let text = std::fs::read_to_string(&path).ok()?;
    let missing = !anchors(&text).iter().any(|anchor| anchor == wanted);
    missing.then(|| format!("{}: {target}: no such heading", page.display()))
}

#[test]
fn every_relative_link_of_a_page_resolves() {
    let mut found = Vec::new();
    pages(&steps::root(), &mut found);
    let mut links = 0;
    let mut faults = Vec::new();
    for page in &found {
        let text = std::fs::read_to_string(page).expect("a page can be read");
        let targets = targets(&text);
        links += targets.len();
        faults.extend(targets.iter().filter_map(|target| broken(page, target)));
    }
    assert!(found.len() > 10 && links > 30, "{} pages with {links} links", found.len());
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Returns the paths of a page that look like those of the package and are others: its files are in
/// the folder `/etc/orthrus`.
fn other_paths(page: &str) -> Vec<&str> {
    let behind = |at: usize| page[at..].trim_start_matches("/etc/orthrus");
    let found = page.match_indices("/etc/orthrus").map(|(at, _)| at);
    let other = found.filter(|at| {
        behind(*at).starts_with(['.', '-', '_']) || behind(*at).starts_with(char::is_alphanumeric)
    });
    other.filter_map(|at| page[at..].lines().next()).collect()
}

#[test]
fn pages_name_the_files_that_the_package_has() {
    let mut found = Vec::new();
    pages(&steps::root(), &mut found);
    for page in found {
        let text = std::fs::read_to_string(&page).expect("a page can be read");
        assert_eq!(other_paths(&text), Vec::<&str>::new(), "{}", page.display());
    }
    assert_eq!(other_paths("a /etc/orthrus.toml b\n`/etc/orthrus`\n/etc/orthrus/a"), ["/etc/orthrus.toml b"]);
}

#[test]
fn a_link_to_a_missing_file_or_heading_is_found_and_code_is_not_read() {
    let page = steps::root().join("README.md");
    for target in ["docs/missing.md", "docs/serve.md#no-such-heading", "#no-such-heading"] {
        assert!(broken(&page, target).is_some(), "{target}");
    }
    for target in ["docs/serve.md", "docs/serve.md#signals", "https://example.org/missing"] {
        assert_eq!(broken(&page, target), None);
    }
    let text = "a [b](c) and `[d](e)`\n```\n[f](g)\n```\n    [h](i)\n![j](k.svg)";
    assert_eq!(targets(text), ["c", "k.svg"]);
    assert_eq!(anchors("# Beside NFS-Ganesha 4.3\n```\n# no\n```"), ["beside-nfs-ganesha-43"]);
}
