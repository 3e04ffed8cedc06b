//! Cycles of modules: the modules at the root of a crate use each other in one direction.

use super::arrows;
use super::source::RustSource;
use std::collections::{BTreeMap, BTreeSet};

/// Crates with modules that use each other, for reasons of their own. The list may only shrink.
const CYCLIC: [&str; 1] = ["state"];

/// The crates of the tree, by the folder of their sources, with their modules.
#[derive(Default)]
pub(super) struct ModuleUses(BTreeMap<String, CrateModules>);

/// The modules at the root of a crate, and the names at the root that each of them uses.
#[derive(Default)]
struct CrateModules {
    uses: BTreeMap<String, BTreeSet<String>>,
    /// Items that the root re-exports, with their modules.
    exports: BTreeMap<String, String>,
}

impl ModuleUses {
    /// Notes the uses in the shipped code of a file.
    pub(super) fn add(&mut self, source: &RustSource) {
        let Some((folder, file)) = source.path.split_once("/src/") else { return };
        if arrows::is_of_tests(file) {
            return;
        }
        let known = self.0.entry(format!("{folder}/src")).or_default();
        let paths = arrows::paths(source.shipped()).into_iter().map(|(_, path)| path);
        if matches!(file, "lib.rs" | "main.rs") {
            for path in paths {
                let path = path.trim_start_matches("crate::");
                if let (Some((module, _)), Some((_, item))) = (path.split_once("::"), path.rsplit_once("::"))
                {
                    known.exports.insert(item.to_owned(), module.to_owned());
                }
            }
            return;
        }
        let levels: Vec<&str> = file.trim_end_matches(".rs").trim_end_matches("/mod").split('/').collect();
        let root = "super::".repeat(levels.len());
        let used = paths.filter_map(|path| {
            let name = path.strip_prefix("crate::").or_else(|| path.strip_prefix(&root))?;
            name.split("::").next().map(str::to_owned)
        });
        known.uses.entry(levels[0].to_owned()).or_default().extend(used);
    }

    /// Lists the cycles, and the entries of [`CYCLIC`] without one, by the folder of the sources.
    pub(super) fn faults(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for (folder, modules) in &self.0 {
            let name = folder.trim_end_matches("/src").rsplit('/').next().unwrap_or_default();
            let cycles = modules.cycles();
            match CYCLIC.contains(&name) {
                true if cycles.is_empty() => {
                    found.push((
                        folder.clone(),
                        format!("the modules of {name} form no cycle: shorten CYCLIC"),
                    ));
                }
                true => {}
                false => {
                    let words = |cycle: &BTreeSet<&str>| cycle.iter().copied().collect::<Vec<_>>().join(", ");
                    let messages =
                        cycles.iter().map(|cycle| format!("modules use each other: {}", words(cycle)));
                    found.extend(messages.map(|message| (folder.clone(), message)));
                }
            }
        }
        found
    }
}

impl CrateModules {
    /// Returns the sets of modules that reach each other.
    fn cycles(&self) -> BTreeSet<BTreeSet<&str>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.uses.keys().map(|module| (module.as_str(), self.reached_from(module))).collect();
        let cycles = reached.iter().map(|(module, reached_here)| {
            let returns = reached_here.iter().filter(|other| reached[**other].contains(module));
            returns.copied().collect::<BTreeSet<&str>>()
        });
        cycles.filter(|cycle| !cycle.is_empty()).collect()
    }

    fn reached_from<'a>(&'a self, module: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![module];
        while let Some(module) = open.pop() {
            let used = self.uses[module].iter().filter_map(|name| self.module_of(name));
            open.extend(used.filter(|used| *used != module && reached.insert(*used)));
        }
        reached
    }

    /// Returns the module that a name at the root means: the module itself, or that of an item.
    fn module_of(&self, name: &str) -> Option<&str> {
        let name = if self.uses.contains_key(name) { name } else { self.exports.get(name)? };
        self.uses.get_key_value(name).map(|(module, _)| module.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let mut uses = ModuleUses::default();
        for (path, text) in files {
            uses.add(&RustSource::new(path, text));
        }
        uses.faults().into_iter().map(|(_, message)| message).collect()
    }

    #[test]
    fn modules_that_use_each_other_are_found_through_exports_and_folders() {
        let files = [
            ("crates/a/src/lib.rs", "mod one;\nmod two;\nmod three;\npub use two::deep::Item;\n"),
            ("crates/a/src/one.rs", "use crate::Item;\n"),
            ("crates/a/src/two/mod.rs", "mod deep;\nuse super::three::Third;\n"),
            ("crates/a/src/two/deep.rs", "use super::Own;\n"),
            ("crates/a/src/three/third.rs", "use super::super::one;\n"),
        ];
        assert_eq!(faults(&files), ["modules use each other: one, three, two"]);
        assert_eq!(faults(&files[..4]), [""; 0]);
    }

    #[test]
    fn tests_do_not_count_and_a_listed_crate_must_have_a_cycle() {
        let one = ("crates/state/src/one.rs", "#[cfg(test)]\nmod tests { use crate::two; }\n");
        let files = [
            one,
            ("crates/state/src/two.rs", "use crate::one;\n"),
            ("crates/state/src/tests.rs", "use crate::two;\n"),
        ];
        assert_eq!(faults(&files), ["the modules of state form no cycle: shorten CYCLIC"]);
    }
}
