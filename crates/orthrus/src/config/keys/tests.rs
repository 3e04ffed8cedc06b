use super::*;
use crate::config::{Settings, SourceSettings};
use std::collections::BTreeSet;
use std::path::Path;

const SERVE: &str = include_str!("../../../../../docs/serve.md");
const CLUSTER: &str = include_str!("../../../../../docs/cluster.md");
const IDENTITIES: &str = include_str!("../../../../../docs/identities.md");

/// Returns a file with one table that has some lines.
fn file(table: &ConfigTable, lines: &[String]) -> String {
    let has = |key: &str| lines.iter().any(|line| line.starts_with(key));
    let (above, kind) = match table.prefix {
        "identity.source" if !has("kind") => ("", "kind = \"ldap\"\n"),
        "export.rule" if !has("clients") => ("[[export]]\n", "clients = [\"*\"]\n"),
        "export.rule" => ("[[export]]\n", ""),
        _ => ("", ""),
    };
    let kind = if table.first.is_empty() { kind } else { table.first };
    format!("{above}{}\n{kind}\n{}\n", table.heading, lines.join("\n"))
}

fn parse(text: &str) -> Result<Settings, String> {
    toml::from_str(text).map_err(|error| error.message().to_owned())
}

/// Returns the words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the keys that the parser names when it refuses an unknown one.
fn parsers_keys(table: &ConfigTable) -> BTreeSet<String> {
    let error = parse(&file(table, &["no_such_key = 1".to_owned()])).expect_err("there is no such key");
    let expected = error.split_once("expected").expect("it lists the keys").1;
    quoted(expected).map(str::to_owned).collect()
}

#[test]
fn the_table_has_each_key_of_the_parser_and_no_other() {
    let mut read = BTreeSet::new();
    for table in tables::all().filter(|table| table.heading != "[principals]") {
        let inner = table.prefix == "identity.source";
        // The tag of the enumeration is no field.
        let tag = inner.then(|| "kind".to_owned());
        for key in parsers_keys(table).into_iter().chain(tag) {
            // Tables have rows of their own.
            let is_table = tables::all().any(|other| {
                !other.prefix.is_empty()
                    && other.prefix == format!("{}.{key}", table.prefix).trim_matches('.')
            });
            if !is_table {
                read.insert(format!("{}.{key}", table.prefix).trim_matches('.').to_owned());
            }
        }
    }
    let ours: BTreeSet<_> = all().map(|(table, key)| table.full_name(key)).collect();
    assert_eq!(ours, read);
}

#[test]
fn each_default_is_the_parsers_and_each_example_is_another_value() {
    for (table, key) in all() {
        let name = table.full_name(key);
        let value = |value: &str| {
            let text = file(table, &[table.line(key, value)]);
            let settings = parse(&text).unwrap_or_else(|error| panic!("{name} = {value}: {error}"));
            format!("{settings:?}")
        };
        let without = match name.as_str() {
            "identity.source.kind" => String::new(),
            _ => format!("{:?}", parse(&file(table, &[])).expect("it is right")),
        };
        // An export differs by its place in the file only if the table has another length.
        assert_ne!(value(key.example), without, "{name}: the example is the default");
        if let KeyDefault::Literal(default) = key.default {
            assert_eq!(value(default), without, "{name}: {default} is not the default");
        }
    }
}

#[test]
fn each_range_is_the_parsers() {
    let mut ranges = 0;
    for (table, key) in all() {
        let words: Vec<_> = key.allowed.split(' ').collect();
        let [from, "to", to, ..] = words[..] else { continue };
        let range = format!("{from} to {to}");
        let above = to.parse::<u64>().expect("a number") + 1;
        let error = parse(&file(table, &[table.line(key, &above.to_string())])).expect_err("it is too large");
        assert!(error.contains(&range), "{}: {error}", table.full_name(key));
        ranges += 1;
    }
    assert_eq!(ranges, 44);
}

#[test]
fn the_pages_and_the_table_name_the_same_keys() {
    // The keys in the first columns of the tables of settings.
    let rows = |page: &'static str, heading: &str| {
        let at = page.find(&format!("\n| {heading} |")).unwrap_or_else(|| panic!("{heading}"));
        page[at + 1..].lines().take_while(|line| line.starts_with('|')).skip(2).collect::<Vec<_>>()
    };
    let mut documented = BTreeSet::new();
    let (serve, exports) = SERVE.split_once("Each `[[export]]` has").expect("a sentence");
    for (prefix, rows) in [
        ("", rows(serve, "key | default | meaning")),
        ("export.", rows(exports, "key | default | meaning")),
        ("export.rule.", rows(exports, "key of a rule | default | meaning")),
        ("identity.", rows(IDENTITIES, "key | default | meaning")),
        ("identity.source.", rows(IDENTITIES, "key of `\"ldap\"` | default | meaning")),
        ("cluster.", rows(CLUSTER, "key | default | meaning")),
    ] {
        for row in rows {
            let cells: Vec<_> = row.split('|').collect();
            for name in quoted(cells[1]) {
                let name = format!("{prefix}{name}");
                let [(_, key)] = find(&name)[..] else { panic!("{name} is in a page only") };
                if let KeyDefault::Literal(default) = key.default {
                    assert!(quoted(cells[2]).any(|text| text == default), "{name}: {}", cells[2]);
                }
                documented.insert(name);
            }
        }
    }
    for (table, key) in all() {
        let name = table.full_name(key);
        let page = if table.prefix.starts_with("identity") { IDENTITIES } else { SERVE };
        let mentioned =
            page.contains(&format!("`{}", key.name)) || page.contains(&format!("`[{}]`", key.name));
        assert!(documented.contains(&name) || mentioned, "{name} is in no page");
    }
}

#[test]
fn the_example_is_a_configuration_once_its_settings_are_uncommented() {
    let example = example();
    let folder = tempfile::tempdir().unwrap();
    let plain: String = example
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
            _ => line,
        })
        .map(|line| line.replace("/srv/data", &folder.path().display().to_string()) + "\n")
        .collect();
    let settings = crate::config::parse(Path::new("/etc/orthrus/orthrus.toml"), &plain).expect("it is right");
    assert_eq!((settings.exports.len(), settings.identity.sources.len()), (4, 2));
    let SourceSettings::Ldap(ldap) = &settings.identity.sources[0] else { panic!("the first is LDAP") };
    ldap.settings().expect("its keys fit together");
    // As it is printed, nothing is set.
    assert!(example.lines().all(|line| line.is_empty() || line.starts_with('#')));
    assert!(example.lines().all(|line| line.len() <= COLUMNS), "{example}");
    for (table, key) in all() {
        let setting = format!("\n#{}", table.line(key, "").trim_end());
        assert!(example.contains(&setting), "{setting} is missing");
    }
}

#[test]
fn a_wrong_name_gets_the_nearest_one() {
    for (wrong, right) in [
        ("lease", "lease_time"),
        ("lease-time", "lease_time"),
        ("readonly", "export.read_only"),
        ("exports.squash", "export.squash"),
        ("connection_max", "limits.connections_max"),
        ("identity.sources.base", "identity.source.base"),
    ] {
        assert!(find(wrong).is_empty());
        assert_eq!(nearest(wrong), right);
    }
    assert_eq!((edits("", "abc"), edits("abc", ""), edits("kitten", "sitting")), (3, 3, 3));
}

#[test]
fn a_short_name_finds_all_keys_of_that_name() {
    let names = |name: &str| find(name).iter().map(|(table, key)| table.full_name(key)).collect::<Vec<_>>();
    assert_eq!(names("sec"), ["export.sec", "export.rule.sec"]);
    assert_eq!(names("timeout"), ["identity.timeout", "identity.source.timeout"]);
    assert_eq!(names("realms"), ["realms"]);
    assert_eq!(names("identity.source.realms"), ["identity.source.realms"]);
}
