//! Dependencies that must not exist: between crates, between modules, and on the machine.

use super::source::RustSource;

/// Crates at the bottom, with every crate of the workspace that each may depend on.
const ONLY: [(&str, &[&str]); 27] = [
    ("xdr", &[]),
    ("image", &[]),
    ("rpc", &["image", "xdr"]),
    ("krb5", &[]),
    ("rpcsec", &["krb5", "rpc", "xdr"]),
    ("nfs4", &["xdr"]),
    ("state", &["image", "nfs4"]),
    ("pipes", &[]),
    ("vfs", &["pipes"]),
    ("mounts", &[]),
    ("rng", &[]),
    ("foreign", &["vfs"]),
    ("object-cache", &["vfs"]),
    ("vfs-local", &["foreign", "image", "mounts", "object-cache", "pipes", "vfs"]),
    ("ceph", &[]),
    ("vfs-ceph", &["ceph", "foreign", "object-cache", "pipes", "vfs"]),
    ("grace", &[]),
    ("grace-rados", &["ceph", "grace"]),
    ("identity", &[]),
    ("ldap", &["identity"]),
    ("private", &[]),
    ("terminal", &[]),
    ("realm", &["private", "terminal"]),
    ("gss", &["krb5"]),
    ("grants", &["gss", "krb5", "private"]),
    ("net", &["image", "pipes", "rpc"]),
    ("client", &["gss", "krb5", "nfs4", "rng", "rpc", "rpcsec", "xdr"]),
];

/// Crates above, with the crates that each must not depend on.
const NEVER: [(&str, &[&str]); 5] = [
    ("server", &["net", "gss", "realm", "client", "bench", "sim", "vfs-local"]),
    ("bench", &["state", "vfs", "server", "net", "sim"]),
    ("sim", &["net", "gss", "realm", "client", "bench", "vfs-local"]),
    ("cluster", &["state", "vfs", "server", "net", "sim"]),
    ("orthrus", &["xdr", "nfs4", "sim"]),
];

/// Modules, with the modules of the same crate that each must not use.
const MODULES: [(&str, &[&str]); 16] = [
    (
        "crates/server/src/metrics",
        &["attr", "ops", "engine", "compound", "call", "rpcsec", "callback", "dispatch"],
    ),
    ("crates/server/src/call", &["attr", "ops", "engine", "compound", "callback", "dispatch"]),
    ("crates/server/src/rpcsec", &["attr", "ops", "engine", "compound", "call", "callback", "dispatch"]),
    ("crates/server/src/callback", &["attr", "ops", "engine", "compound", "dispatch"]),
    ("crates/server/src/engine", &["attr", "ops", "compound", "call", "rpcsec", "dispatch"]),
    ("crates/server/src/attr", &["ops", "compound", "call", "rpcsec", "callback", "dispatch"]),
    ("crates/server/src/ops", &["compound", "call", "rpcsec", "callback", "dispatch"]),
    ("crates/server/src/compound", &["attr", "call", "rpcsec", "callback", "dispatch"]),
    ("crates/vfs/src/types", &["backend", "memory", "export", "export_table", "pseudo", "conformance"]),
    ("crates/vfs/src/backend", &["memory", "export", "export_table", "pseudo", "conformance"]),
    ("crates/vfs/src/open_file", &["memory", "export", "export_table", "pseudo", "conformance"]),
    ("crates/bench/src/measuring", &["evaluation", "lanl", "mounted", "link"]),
    ("crates/bench/src/workload", &["evaluation", "lanl", "mounted"]),
    ("crates/bench/src/native", &["evaluation", "lanl", "mounted"]),
    ("crates/bench/src/mounted", &["evaluation", "lanl"]),
    ("crates/net/src/input", &["shard", "driver", "connection"]),
];

const CLOCK: &[&str] =
    &["std::time::Instant::now", "std::time::SystemTime::now", ".elapsed()", "libc::clock_gettime"];
const RANDOM: &[&str] =
    &["getrandom", "rand", "std::hash::RandomState", "std::collections::hash_map::RandomState"];
const SOCKETS: &[&str] = &["std::net::TcpStream", "std::net::TcpListener", "std::net::UdpSocket", "socket2"];
const FILES: &[&str] = &["std::fs", "std::process"];
const THREADS: &[&str] = &["std::thread"];
const ENVIRONMENT: &[&str] = &["std::env"];

/// Crates, with the parts of the machine that their code must not touch.
const MACHINE: [(&str, &[&[&str]]); 11] = [
    ("xdr", &[CLOCK, RANDOM, SOCKETS, FILES, THREADS, ENVIRONMENT]),
    ("rpc", &[CLOCK, RANDOM, SOCKETS, FILES, THREADS, ENVIRONMENT]),
    ("krb5", &[CLOCK, RANDOM, SOCKETS, FILES, THREADS, ENVIRONMENT]),
    ("rpcsec", &[CLOCK, RANDOM, SOCKETS, FILES, THREADS, ENVIRONMENT]),
    ("nfs4", &[CLOCK, RANDOM, SOCKETS, FILES, THREADS, ENVIRONMENT]),
    ("state", &[CLOCK, RANDOM, SOCKETS, FILES, THREADS, ENVIRONMENT]),
    ("image", &[CLOCK, RANDOM, SOCKETS, FILES, THREADS, ENVIRONMENT]),
    ("grace", &[CLOCK, RANDOM, SOCKETS, FILES, THREADS, ENVIRONMENT]),
    ("vfs", &[SOCKETS, RANDOM, ENVIRONMENT]),
    ("server", &[CLOCK, RANDOM, SOCKETS, FILES, ENVIRONMENT]),
    ("sim", &[CLOCK, SOCKETS, FILES, THREADS, ENVIRONMENT]),
];

/// Lists the forbidden dependencies in the manifest of `package`, with their lines.
pub(super) fn of_manifest(package: &str, manifest: &str) -> Vec<(usize, String)> {
    let only = ONLY.iter().find(|(name, _)| *name == package).map(|(_, only)| only);
    let never = NEVER.iter().find(|(name, _)| *name == package).map(|(_, never)| never);
    let mut section = "";
    let mut found = Vec::new();
    for (number, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let Some((name, _)) = line.split_once(['.', ' ', '=']).filter(|_| section == "[dependencies]") else {
            continue;
        };
        // Libraries by others are dependencies of the workspace as well.
        let is_ours = steps::root().join("crates").join(name).is_dir();
        let banned = only.is_some_and(|only| is_ours && !only.contains(&name));
        if banned || never.is_some_and(|never| never.contains(&name)) {
            found.push((number + 1, format!("{package} must not depend on {name}")));
        }
    }
    found
}

/// Lists the forbidden uses in the shipped code of a file, with their lines.
pub(super) fn of_source(source: &RustSource) -> Vec<(usize, String)> {
    let Some((package, rest)) = source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
    else {
        return Vec::new();
    };
    if is_of_tests(rest) {
        return Vec::new();
    }
    let code = source.shipped();
    let module = MODULES.iter().find(|(module, _)| below(&source.path, module));
    let machine = MACHINE.iter().find(|(name, _)| *name == package).map(|(_, parts)| parts.concat());
    let mut found = Vec::new();
    for (line, path) in paths(code) {
        let to = path.strip_prefix("crate::").and_then(|path| path.split("::").next()).unwrap_or_default();
        if module.is_some_and(|(_, never)| never.contains(&to)) {
            found.push((line, format!("this module must not use crate::{to}")));
        }
        if machine.iter().flatten().any(|never| touches(&path, never)) {
            found.push((line, format!("{package} must not use {path}")));
        }
    }
    let methods = machine.iter().flatten().filter(|never| never.starts_with('.'));
    for (at, method) in methods.flat_map(|method| code.match_indices(method)) {
        found.push((code[..at].matches('\n').count() + 1, format!("{package} must not call {method}")));
    }
    found.sort();
    found.dedup();
    found
}

/// True if a file below `src` has tests only.
pub(super) fn is_of_tests(file: &str) -> bool {
    file.split('/').any(|part| part.starts_with("test") || part.ends_with("tests.rs"))
}

/// True if a file is `module.rs`, or is in the folder `module`.
fn below(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
}

/// True if `path` is `never`, is inside it, or is its end with at least two segments
/// (`Instant::now`).
fn touches(path: &str, never: &str) -> bool {
    let inside = path.strip_prefix(never).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let end = never.strip_suffix(path).is_some_and(|start| start.ends_with("::"));
    inside || (end && path.contains("::"))
}

/// Lists the paths with `::` of a code, `use` trees expanded, with their lines.
pub(super) fn paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        let taken = if word == 0 { first.len_utf8() } else { word };
        if &rest[..taken] == "use" {
            let end = rest.find(';').unwrap_or(rest.len());
            let tree: String = rest[taken..end].split_whitespace().collect::<Vec<_>>().join(" ");
            expand("", &tree, &mut |path| found.push((line, path)));
            line += rest[..end].matches('\n').count();
            rest = &rest[end..];
            continue;
        }
        if rest[..taken].contains("::") {
            found.push((line, rest[..taken].trim_matches(':').to_owned()));
        }
        line += usize::from(first == '\n');
        rest = &rest[taken..];
    }
    found
}

/// Calls `each` with every path of the `use` tree behind `prefix`.
fn expand(prefix: &str, tree: &str, each: &mut dyn FnMut(String)) {
    let tree = tree.trim().trim_start_matches("::");
    let Some((before, inside)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or(tree).trim();
        let path = format!("{prefix}{path}");
        return each(path.trim_end_matches("::self").to_owned());
    };
    let prefix = format!("{prefix}{}", before.trim());
    let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&prefix, &inside[start..at], each);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inside[start..].trim().is_empty() {
        expand(&prefix, &inside[start..], each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn use_trees_are_expanded_and_paths_in_code_are_found() {
        let code =
            "use std::{fs::{self, File}, time::Instant as I};\nfn f() { Instant::now(); crate::ops::x() }\n";
        let found = paths(code);
        let expect = [
            (1, "std::fs"),
            (1, "std::fs::File"),
            (1, "std::time::Instant"),
            (2, "Instant::now"),
            (2, "crate::ops::x"),
        ];
        assert_eq!(found, expect.map(|(line, path)| (line, path.to_owned())));
    }

    #[test]
    fn a_core_crate_may_not_touch_the_machine_and_a_module_may_not_use_one_above() {
        let text =
            "use std::env;\nfn f() { Instant::now().elapsed(); }\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        let found = of_source(&RustSource::new("crates/xdr/src/a.rs", text));
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 2], "{found:?}");
        assert_eq!(of_source(&RustSource::new("crates/orthrus/src/a.rs", text)), []);
        let found = of_source(&RustSource::new(
            "crates/server/src/ops/read.rs",
            "use crate::{dispatch::Call, engine::Run};",
        ));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn each_rule_names_crates_and_modules_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root");
        let is_module = |path: &str| {
            root.join(format!("{path}.rs")).is_file() || root.join(path).join("mod.rs").is_file()
        };
        let named = ONLY.iter().chain(&NEVER).flat_map(|(name, others)| others.iter().chain([name]));
        for name in named.chain(MACHINE.iter().map(|(name, _)| name)) {
            assert!(root.join("crates").join(name).is_dir(), "{name}");
        }
        for (module, others) in MODULES {
            let (source, _) = module.rsplit_once('/').expect("a path");
            assert!(is_module(module), "{module}");
            for other in others {
                assert!(is_module(&format!("{source}/{other}")), "{source}/{other}");
            }
        }
    }

    #[test]
    fn pure_crates_have_the_same_rules_of_clippy() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root").join("crates");
        let rules = |name: &str| fs::read_to_string(crates.join(name).join("clippy.toml")).expect("rules");
        let common = rules("xdr");
        for name in ["rpc", "krb5", "rpcsec", "nfs4", "image", "grace"] {
            assert!(rules(name) == common, "{name}");
        }
        let own = rules("state");
        assert!(common.lines().all(|rule| own.lines().any(|own| own == rule)), "state lacks a rule");
    }

    #[test]
    fn a_manifest_may_not_name_a_crate_above_but_may_for_tests() {
        let manifest = "[dependencies]\nxdr.workspace = true\nstate.workspace = true\n[dev-dependencies]\nvfs.workspace = true\n";
        assert_eq!(of_manifest("nfs4", manifest).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3]);
        assert_eq!(of_manifest("orthrus", manifest).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2]);
        // A crate without a row of its own counts, and a library by others does not.
        let manifest = "[dependencies]\nsteps.workspace = true\nsubtle.workspace = true\n";
        assert_eq!(of_manifest("krb5", manifest).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2]);
    }
}
