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
        assert_eq!(nearest(wrong).as_deref(), Some(right));
    }
    assert_eq!(nearest("rw"), None);
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

/// Returns the faults of a file as an administrator reads them.
fn faults(text: &str) -> Vec<String> {
    let (_, faults) = crate::config::parse_all(Path::new("/x.toml"), text);
    faults.iter().map(ToString::to_string).filter(|fault| fault.starts_with("/x.toml:")).collect()
}

#[test]
fn a_value_of_the_wrong_type_is_answered_with_the_allowed_values() {
    for (table, key) in all() {
        for wrong in ["[[]]", "-1", "2020-01-01", "99999999999999999999"] {
            let text = file(table, &[table.line(key, wrong)]);
            let found = faults(&text);
            let [fault] = &found[..] else { panic!("{text}: {found:?}") };
            assert!(fault.contains(key.allowed) && fault.contains(key.example), "{text}: {fault}");
            assert!(fault.contains("`: "), "{text}: {fault} names no key");
            for word in ["u64", "u32", "i128", "sequence", "map", "variant", "field"] {
                assert!(!fault.replace(key.allowed, "").contains(word), "{text}: {fault}");
            }
        }
    }
}

#[test]
fn a_key_of_another_table_is_answered_with_its_place() {
    let top: Vec<_> = all().filter(|(table, _)| table.heading.is_empty()).collect();
    for (_, key) in &top {
        let line = format!("{} = {}\n", key.name, key.example);
        let found = faults(&format!("[[export]]\nmemory = 1048576\n{line}"));
        let [fault] = &found[..] else { panic!("{line}: {found:?}") };
        let expected = format!("/x.toml:3: key `{0}`: `{0}` belongs above the first [table]", key.name);
        assert!(fault.starts_with(&expected), "{fault}");
    }
    for (text, expected) in [
        (
            "metric = \":1\"",
            ":4: key `metric`: there is no key `metric`; the nearest is `metrics`, which belongs above the first [table]",
        ),
        ("readonly = true", ":4: key `readonly`: there is no key `readonly`; the nearest is `read_only`"),
        (
            "contexts_max = 16",
            ":4: key `contexts_max`: `contexts_max` belongs to [limits] or to [limits.principal] or to [[limits.rule]]",
        ),
        ("[[export.rule]]\nclients = [\"*\"]\nfsid = 1", ":6: key `fsid`: `fsid` belongs to [[export]]"),
        (
            "[[identity.source]]\nkind = \"nss\"\nbase = \"dc=a\"",
            ":6: key `base`: `base` belongs to a source of another kind",
        ),
        (
            "[rule]\nclients = [\"*\"]",
            ":4: key `rule`: there is no key `rule`; the nearest is [[limits.rule]]",
        ),
        (
            "[[exports]]\npath = \"/\"",
            ":4: key `exports`: there is no key `exports`; the nearest is [[export]]",
        ),
        (
            "[principal]\n\"a@A\" = \"a\"",
            ":4: key `principal`: there is no key `principal`; the nearest is [principals]",
        ),
        (
            "[limits.principals]\ncontexts_max = 16",
            ":4: key `limits.principals`: there is no key `principals`; the nearest is [limits.principal]",
        ),
        ("ro = true", ":4: key `ro`: there is no key `ro`; write read_only = true"),
        ("zzz = 1", ":4: key `zzz`: there is no key `zzz`; `orthrus config explain` lists all"),
    ] {
        let found = faults(&format!("[[export]]\nmemory = 1048576\n\n{text}\n"));
        assert_eq!(found, [format!("/x.toml{expected}")], "{text}");
    }
}

#[test]
fn a_value_that_is_no_toml_is_answered_with_the_allowed_values() {
    for (text, expected) in [
        ("listen = 127.0.0.1:2049", ":1: key `listen`: the value needs quotes; allowed: \"address:port\""),
        (
            "lease_time = 60s # long",
            ":1: key `lease_time`: `60s` is not allowed here; allowed: 5 to 3600 seconds",
        ),
        ("nfs40 = yes", ":1: key `nfs40`: `yes` is not allowed here; allowed: true or false"),
        (
            "[[export]]\npath = /srv/data",
            ":2: key `path`: the value needs quotes; allowed: an existing folder",
        ),
        (
            "[[ export.rule ]] # some\nsec = krb5p",
            ":2: key `sec`: the value needs quotes; allowed: \"krb5p\"",
        ),
        ("[export]\npath = \"/tmp\"", ":1: key `export`: write [[export]] on a line of its own"),
        ("limits = 5", ":1: key `limits`: write [limits] on a line of its own"),
        ("[[limits]]\nslots_max = 5", ":1: key `limits`: write [limits] on a line of its own"),
        ("shards = 1\nshards = 1", ":2: key `shards`: duplicate key"),
        (
            "[[identity.source]]\nbase = \"dc=a\"",
            ":1: key `identity.source`: `kind` is missing; allowed: \"nss\"",
        ),
        ("listen = “:2049”", ":1: key `listen`: the quotes must be straight; allowed: \"address:port\""),
        ("[[export]]\nsec = [krb5p]", ":2: key `sec`: the value needs quotes; allowed: \"krb5p\""),
        ("[[export]]\nclients = [10.0.0.1]", ":2: key `clients`: the value needs quotes; allowed: networks"),
        (
            "[principals]\nalice@EXAMPLE.ORG = \"a\"",
            ":2: key `alice@EXAMPLE.ORG`: the principal needs quotes, such as \"alice@EXAMPLE.ORG\" = \"a\"",
        ),
        (
            "[[export.rule]]\nclients = [\"*\"]\n[[export]]\npath = \"/tmp\"",
            ":3: key `export`: [[export.rule]] stands above, and belongs below its [[export]]",
        ),
    ] {
        let found = faults(text);
        assert!(found.len() == 1 && found[0].starts_with(&format!("/x.toml{expected}")), "{text}: {found:?}");
    }
}

#[test]
fn the_filters_that_the_key_log_names_are_filters() {
    let [(_, key)] = find("log")[..] else { panic!("one key") };
    let filters: Vec<_> = key.allowed.split('"').skip(1).step_by(2).collect();
    assert!(filters.iter().any(|filter| filter.contains('=')), "{filters:?}");
    for filter in filters {
        assert!(filter.parse::<crate::logging::LogFilter>().is_ok(), "{filter}");
    }
}
