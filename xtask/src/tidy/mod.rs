//! Reads the tree and checks the rules of CONTRIBUTING.md that no compiler knows.
//!
//! Rules that older files still break have a baseline: `baseline.txt` counts the findings of each
//! file, and `duplicate-types.txt` lists the type names with several definitions. Both may only
//! shrink.

mod arrows;
mod baseline;
mod cycles;
mod items;
mod prose;
mod source;

use anyhow::{Context, bail};
use baseline::FindingCounts;
use cycles::ModuleUses;
use source::RustSource;
pub(crate) use source::without_inline_tests;
use std::collections::BTreeMap;
use std::path::Path;

/// Columns of a comment and of a line of a page.
const COLUMNS: usize = 100;
/// Lines of a function.
const FUNCTION_LINES: usize = 70;
/// A doc comment of so few words repeats the name of its item.
const SHORT_DOC_WORDS: usize = 3;
/// Findings that a failure shows for each file.
const SHOWN: usize = 20;
/// The key of a count in `duplicate-types.txt`.
const TYPES: &str = "types";

const FOLDERS: [&str; 7] = ["crates", "xtask", "tests", "benches", "fuzz", "docs", "specs"];
const SKIPPED: [&str; 7] = ["target", "generated", "sample", "seeds", "corpus", "artifacts", "results"];
/// The report that `try.sh` leaves beside the pages of the repository.
const REPORT: &str = "orthrus-report.md";
const GENERATED_PAGES: [&str; 2] = ["docs/limits.md", "docs/protocol-support.md"];

/// Arguments of `cargo xtask tidy`.
#[derive(Default, clap::Args)]
pub(crate) struct Arguments {
    /// Lower the baseline to the findings of the tree.
    #[arg(long)]
    update: bool,
    /// List every finding in files with these path prefixes, and stop.
    paths: Vec<String>,
}

/// A place that breaks a rule.
struct RuleBreak {
    path: String,
    line: usize,
    rule: &'static str,
    message: String,
}

/// Everything that one reading of the tree gives.
#[derive(Default)]
struct Survey {
    findings: Vec<RuleBreak>,
    types: BTreeMap<String, usize>,
    modules: ModuleUses,
    frequencies: prose::Frequencies,
    docs: usize,
}

/// Checks the tree, or writes the baseline.
///
/// # Errors
/// If a count is above its baseline, if a type name gained a definition, or if a name can leave the
/// list.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let tree = Survey::read(&steps::root())?;
    if !arguments.paths.is_empty() {
        let wanted =
            |path: &str| arguments.paths.iter().any(|start| path.starts_with(start.trim_start_matches("./")));
        tree.findings.iter().filter(|finding| wanted(&finding.path)).for_each(print);
        return Ok(());
    }
    tree.figures()?;
    let folder = steps::root().join("xtask/src/tidy");
    let (files, names) = (folder.join("baseline.txt"), folder.join("duplicate-types.txt"));
    let (listed_files, listed_names) = (baseline::read(&files)?, baseline::read(&names)?);
    let (counts, duplicates) = (tree.counts(), tree.duplicates());
    let mut faults = Vec::new();
    if arguments.update && !larger(&listed_files, &counts) {
        baseline::write(&files, &counts)?;
    } else {
        faults.extend(tree.faults(&listed_files, &counts));
    }
    if arguments.update && new_names(&listed_names, &duplicates).is_empty() {
        baseline::write(&names, &duplicates)?;
    } else {
        faults.extend(new_names(&listed_names, &duplicates));
        faults.extend(gone_names(&listed_names, &duplicates));
    }
    if !faults.is_empty() {
        faults.iter().for_each(|fault| eprintln!("{fault}"));
        bail!("{} rules are broken; `cargo xtask tidy PATH` lists the findings of a file", faults.len());
    }
    Ok(())
}

fn print(finding: &RuleBreak) {
    println!("{}:{}: {}: {}", finding.path, finding.line, finding.rule, finding.message);
}

/// Says which type names gained a definition.
fn new_names(listed: &FindingCounts, now: &FindingCounts) -> Vec<String> {
    let count = |counts: &FindingCounts, name: &str| {
        counts.get(name).map_or(1, |_| baseline::count(counts, name, TYPES))
    };
    let grown = now.keys().filter(|name| count(now, name) > count(listed, name));
    grown
        .map(|name| format!("type {name} has {} definitions; choose another name", count(now, name)))
        .collect()
}

/// Says which type names are defined once now and have to leave the list.
fn gone_names(listed: &FindingCounts, now: &FindingCounts) -> Vec<String> {
    let gone = listed.keys().filter(|name| !now.contains_key(*name));
    gone.map(|name| format!("type {name} is unique now; run `cargo xtask tidy --update` and commit the list"))
        .collect()
}

/// True if the total of any rule is above its baseline, and the baseline lists any.
fn larger(allowed: &FindingCounts, now: &FindingCounts) -> bool {
    if allowed.is_empty() {
        return false;
    }
    let mut rules = now.values().flat_map(BTreeMap::keys);
    rules.any(|rule| baseline::total(now, rule) > baseline::total(allowed, rule))
}

impl Survey {
    fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        for name in sorted(root)? {
            if name.ends_with(".md") && name != REPORT {
                tree.page(root, &name)?;
            } else if FOLDERS.contains(&&name[..]) {
                tree.folder(root, &name)?;
            }
        }
        for (folder, message) in tree.modules.faults() {
            tree.find(&folder, 1, "cycle", message);
        }
        Ok(tree)
    }

    fn folder(&mut self, root: &Path, folder: &str) -> anyhow::Result<()> {
        for name in sorted(&root.join(folder))? {
            let path = format!("{folder}/{name}");
            match () {
                () if SKIPPED.contains(&&name[..]) || name.starts_with('.') => {}
                () if root.join(&path).is_dir() => self.folder(root, &path)?,
                () if name.ends_with(".rs") => self.source(&RustSource::new(&path, &text(root, &path)?)),
                () if name.ends_with(".md") => self.page(root, &path)?,
                () if name == "Cargo.toml" => {
                    let package = folder.rsplit('/').next().unwrap_or_default();
                    for (line, message) in arrows::of_manifest(package, &text(root, &path)?) {
                        self.find(&path, line, "arrow", message);
                    }
                }
                () => {}
            }
        }
        Ok(())
    }

    fn find(&mut self, path: &str, line: usize, rule: &'static str, message: String) {
        self.findings.push(RuleBreak { path: path.to_owned(), line, rule, message });
    }

    fn source(&mut self, source: &RustSource) {
        let path = &source.path;
        self.comments(source);
        for function in items::functions(source).into_iter().filter(|found| found.length > FUNCTION_LINES) {
            let message =
                format!("{} has {} lines; {FUNCTION_LINES} are allowed", function.name, function.length);
            self.find(path, function.line, "long-function", message);
        }
        for line in items::without_reason(source) {
            self.find(path, line, "no-reason", "the attribute needs `reason = \"...\"`".to_owned());
        }
        for (line, message) in arrows::of_source(source) {
            self.find(path, line, "arrow", message);
        }
        for name in items::types(source) {
            *self.types.entry(name).or_default() += 1;
        }
        self.modules.add(source);
    }

    fn comments(&mut self, source: &RustSource) {
        let lines: Vec<&str> = source.text.lines().collect();
        for comment in &source.comments {
            let columns = lines.get(comment.line - 1).map_or(0, |line| line.chars().count());
            if columns > COLUMNS {
                let message = format!("{columns} columns; {COLUMNS} are allowed");
                self.find(&source.path, comment.line, "width", message);
            }
        }
        for group in source.comments.chunk_by(|a, b| a.doc && b.doc && a.line + 1 == b.line) {
            if !group[0].doc {
                continue;
            }
            self.docs += 1;
            let words: usize = group.iter().map(|line| prose::words(&line.text).count()).sum();
            if words <= SHORT_DOC_WORDS {
                let message = format!("a doc comment of {words} words says nothing:{}", group[0].text);
                self.find(&source.path, group[0].line, "short-doc", message);
            }
        }
        for paragraph in prose::of_comments(source) {
            self.frequencies.add(&paragraph.text);
            self.openings(&source.path, &paragraph);
        }
    }

    fn page(&mut self, root: &Path, path: &str) -> anyhow::Result<()> {
        if GENERATED_PAGES.contains(&path) {
            return Ok(());
        }
        let text = text(root, path)?;
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS && !line.trim_start().starts_with('|') {
                self.find(path, number + 1, "width", format!("{columns} columns; {COLUMNS} are allowed"));
            }
        }
        prose::of_page(&text).iter().for_each(|paragraph| self.openings(path, paragraph));
        Ok(())
    }

    fn openings(&mut self, path: &str, paragraph: &prose::Paragraph) {
        for sentence in
            paragraph.sentences().into_iter().filter(|sentence| prose::forbidden_opening(sentence))
        {
            let short: String = sentence.chars().take(60).collect();
            self.find(path, paragraph.line, "opening", format!("name the subject: {short:?}"));
        }
    }

    /// Counts the findings of each rule by file.
    fn counts(&self) -> FindingCounts {
        let mut counts = FindingCounts::new();
        for finding in &self.findings {
            let rules = counts.entry(finding.path.clone()).or_default();
            *rules.entry(finding.rule.to_owned()).or_default() += 1;
        }
        counts
    }

    /// Counts the definitions of each type name that has several.
    fn duplicates(&self) -> FindingCounts {
        let several = self.types.iter().filter(|(_, count)| **count > 1);
        several.map(|(name, count)| (name.clone(), [(TYPES.to_owned(), *count)].into())).collect()
    }

    /// Says which counts grew, and prints the findings of these files.
    fn faults(&self, listed: &FindingCounts, now: &FindingCounts) -> Vec<String> {
        let mut faults = Vec::new();
        for growth in baseline::growth(listed, now) {
            let baseline::Growth { name, rule, allowed, now } = growth;
            faults.push(format!("{name}: {rule}: {now}, and the baseline allows {allowed}"));
            let new = |path: &str| name == baseline::NEW && !listed.contains_key(path);
            let of_rule = self.findings.iter().filter(|found| found.rule == rule);
            of_rule.filter(|found| found.path == name || new(&found.path)).take(SHOWN).for_each(print);
        }
        faults
    }

    /// Prints the figures that describe the language of the tree.
    fn figures(&self) -> anyhow::Result<()> {
        println!("{}", self.frequencies);
        let page = text(&steps::root(), "ARCHITECTURE.md")?;
        let paragraphs = prose::of_page(&page);
        let sentences: Vec<&str> = paragraphs.iter().flat_map(prose::Paragraph::sentences).collect();
        let words: usize = sentences.iter().map(|sentence| prose::words(sentence).count()).sum();
        println!("words per sentence in ARCHITECTURE: {:.1}", share(words, sentences.len()));
        let of_rule = |rule| self.findings.iter().filter(|finding| finding.rule == rule).count();
        let short = of_rule("short-doc");
        println!(
            "doc comments of {SHORT_DOC_WORDS} words or fewer: {:.1} %",
            100.0 * share(short, self.docs)
        );
        let (names, several) = (self.types.len(), self.duplicates().len());
        println!("type names defined more than once: {:.1} % of {names}", 100.0 * share(several, names));
        for rule in ["width", "opening", "short-doc", "long-function", "no-reason", "arrow", "cycle"] {
            println!("findings of {rule}: {}", of_rule(rule));
        }
        Ok(())
    }
}

fn share(part: usize, of: usize) -> f64 {
    part as f64 / of.max(1) as f64
}

fn text(root: &Path, path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned())
}

fn sorted(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rules that a Rust file breaks.
    fn broken(text: &str) -> Vec<&'static str> {
        let mut tree = Survey::default();
        tree.source(&RustSource::new("crates/xdr/src/a.rs", text));
        tree.findings.iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn each_rule_finds_its_fault() {
        let long = format!("fn f() {{\n{}}}\n", "    f();\n".repeat(FUNCTION_LINES));
        assert_eq!(broken(&long), ["long-function"]);
        assert_eq!(broken(&format!("// Because {}\n", "x".repeat(COLUMNS))), ["width"]);
        assert_eq!(broken("/// Which.\nstruct A;\n"), ["short-doc", "opening"]);
        assert_eq!(broken("#[allow(dead_code)]\nstruct A;\n"), ["no-reason"]);
        assert_eq!(broken("use std::fs;\n"), ["arrow"]);
        assert_eq!(broken("/// Bytes that a record may have.\nconst A: &str = \"// Which.\";\n"), [""; 0]);
    }

    #[test]
    fn a_type_that_lost_its_duplicate_must_leave_the_list() {
        let listed = |names: &[&str]| -> FindingCounts {
            names.iter().map(|name| ((*name).to_owned(), [(TYPES.to_owned(), 2)].into())).collect()
        };
        let (both, place, run) = (listed(&["Place", "Run"]), listed(&["Place"]), listed(&["Run"]));
        let faults = |listed, now| [new_names(listed, now).len(), gone_names(listed, now).len()];
        assert_eq!(faults(&both, &both), [0, 0]);
        assert_eq!(faults(&both, &run), [0, 1]);
        assert_eq!(faults(&place, &both), [1, 0]);
    }
}
