//! Writes docs/limits.md from the sources, so that no limit is missing and every default is the
//! real one.

use crate::generated_page::{self, PageTask};
use crate::tidy::without_inline_tests;
use anyhow::Context;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const HEAD: &str = "# Limits

Every limit of the server that a peer or an operator can reach. `cargo xtask limits` generates this
page from the sources. The keys of the first section are set in the
[configuration](serve.md#the-file); the others are constants beside the code that they bound.
";

/// The server's crates with the headings of their tables, in the order of the page.
const CRATES: [(&str, &str); 21] = [
    ("orthrus", "Program"),
    ("runtime", "Threads and deferred calls"),
    ("net", "Connections"),
    ("xdr", "XDR"),
    ("rpc", "RPC"),
    ("gss", "Kerberos contexts"),
    ("krb5", "Kerberos tokens and tickets"),
    ("identity", "Users"),
    ("ldap", "Directories of users"),
    ("server", "Requests"),
    ("nfs4", "Wire format"),
    ("state", "Clients, opens and locks"),
    ("vfs", "File systems"),
    ("vfs-local", "Local file systems"),
    ("pipes", "File data without copies"),
    ("vfs-ceph", "CephFS"),
    ("ceph", "Connections to Ceph"),
    ("grace", "Clusters of gateways"),
    ("grace-rados", "Shared state of gateways"),
    ("handover", "Upgrades"),
    ("grants", "Batch jobs"),
];

/// Crates of clients, tests and measurements, whose limits no peer of the server reaches.
#[cfg(test)]
const OTHER_CRATES: [&str; 9] =
    ["bench", "client", "cluster", "doctor", "miniceph", "realm", "report", "sim", "xdrgen"];

/// The folder of the tables of keys, whose settings are the first section.
const KEYS: &str = "crates/orthrus/src/config/keys/tables";

/// Constants that end in `_MAX` and bound no peer and no operator: sizes of batches, numbers of
/// retries, masks.
const INTERNAL: [&str; 41] = [
    "BLOCK_MAX",
    "BYTES_APART_MAX",
    "BYTES_MAX",
    "CALLERS_MAX",
    "CHECKSUM_MAX",
    "CLASSES_MAX",
    "DIGEST_MAX",
    "ERRNO_ROWS_MAX",
    "EVENTS_MAX",
    "FDS_PER_MESSAGE_MAX",
    "FINGERPRINT_MAX",
    "GENERATION_MAX",
    "IDLE_MAX",
    "LANES_MAX",
    "LAST_WORDS_TIME_MAX",
    "LOCKS_PER_LOCK_MAX",
    "LOOP_TIME_MAX",
    "MESSAGES_MAX",
    "MIC_TOKEN_MAX",
    "MODE_MAX",
    "NANOSECONDS_MAX",
    "NUMBER_MAX",
    "OFFSET_MAX",
    "PIECE_MAX",
    "RACES_MAX",
    "RCTIME_MAX",
    "READS_MAX",
    "READ_TRIES_MAX",
    "RECORD_KEPT_MAX",
    "RELEASED_MAX",
    "REQUESTS_KEPT_MAX",
    "SETTING_MAX",
    "SHARD_MAX",
    "SHORT_MAX",
    "SHOWN_MAX",
    "SHOWN_VALUE_MAX",
    "SLACK_MAX",
    "SLICES_MAX",
    "STEP_BYTES_MAX",
    "STRIPES_MAX",
    "UMASK_MAX",
];

/// A limit as it stands in a source file.
struct LimitConstant {
    name: String,
    value: String,
    says: String,
}

/// Writes or checks the page.
///
/// # Errors
/// When it is not current, or a file cannot be read or written.
pub(crate) fn run(task: PageTask) -> anyhow::Result<()> {
    generated_page::apply(task, "docs/limits.md", &page()?, "limits")
}

fn page() -> anyhow::Result<String> {
    let settings = settings()?;
    let mut page = HEAD.to_owned();
    write_table(&mut page, "Settings", &settings)?;
    let constants = Constants::read()?;
    for (name, title) in CRATES {
        let mut limits = Vec::new();
        for file in sources(&folder_of(name))? {
            for mut limit in scan(&std::fs::read_to_string(&file)?) {
                let is_setting = settings.iter().any(|setting| last(&setting.name) == limit.name);
                if INTERNAL.contains(&limit.name.as_str()) || (name == "orthrus" && is_setting) {
                    continue;
                }
                let value = constants.readable(name, &file, &limit.value, &limit.says);
                limit.value = value.with_context(|| format!("{}: {}", file.display(), limit.name))?;
                // A default that the program replaces by that of the setting is none.
                let set = settings.iter().find(|setting| setting.name == format!("limits.{}", limit.name));
                if set.is_none_or(|setting| setting.value == limit.value) {
                    limits.push(limit);
                }
            }
        }
        write_table(&mut page, title, &limits)?;
    }
    Ok(page)
}

/// Appends a section.
///
/// # Errors
/// A limit without a sentence.
fn write_table(page: &mut String, title: &str, limits: &[LimitConstant]) -> anyhow::Result<()> {
    let _ = write!(page, "\n## {title}\n\n| limit | default | meaning |\n|---|---|---|\n");
    for LimitConstant { name, value, says } in limits {
        anyhow::ensure!(!says.is_empty(), "{name} has no sentence of its own");
        let _ = writeln!(page, "| `{name}` | {value} | {} |", says.replace('|', "\\|"));
    }
    Ok(())
}

fn folder_of(name: &str) -> PathBuf {
    steps::root().join("crates").join(name).join("src")
}

fn last(name: &str) -> &str {
    name.rsplit(['.', ':']).next().unwrap_or(name)
}

/// Reads the limits among the keys of the configuration, with the default of a file without them.
fn settings() -> anyhow::Result<Vec<LimitConstant>> {
    let mut found = Vec::new();
    for file in sorted(&steps::root().join(KEYS))?.into_iter().rev() {
        let text = std::fs::read_to_string(&file)?.replace("\\\n", "");
        for table in text.split("ConfigTable {").skip(1) {
            let prefix = quoted(table, "prefix: ").context("a table has a prefix")?;
            for key in table.split("ConfigKey {").skip(1) {
                let name = quoted(key, "name: ").context("a key has a name")?;
                if !name.ends_with("_max") {
                    continue;
                }
                let says = quoted(key, "meaning: ").context("a key has a meaning")?;
                let default = quoted(key, "default: ").context("a key has a default")?;
                let allowed = quoted(key, "allowed: ").context("a key has allowed values")?;
                let value = number(default, &|_| None);
                let value = value.map_or(default.to_owned(), |value| written(value, allowed));
                let name = format!("{prefix}.{name}").trim_start_matches('.').to_owned();
                let says = says.split_whitespace().collect::<Vec<_>>().join(" ");
                found.push(LimitConstant { name, value, says });
            }
        }
    }
    Ok(found)
}

/// Returns the first text in quotes behind `field`.
fn quoted<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    text.split_once(field)?.1.split('"').nth(1)
}

/// Every constant of the crates, for values that name one.
struct Constants(Vec<NamedConstant>);

struct NamedConstant {
    krate: &'static str,
    file: PathBuf,
    name: String,
    value: String,
}

impl Constants {
    fn read() -> anyhow::Result<Self> {
        let mut found = Vec::new();
        for (krate, _) in CRATES {
            let folder = folder_of(krate);
            let generated = folder.join("generated");
            let more = if generated.exists() { sources(&generated)? } else { Vec::new() };
            for file in sources(&folder)?.into_iter().chain(more) {
                let text = std::fs::read_to_string(&file)?;
                let all = text.lines().filter_map(constant);
                let named = all.map(|(name, value)| NamedConstant { krate, file: file.clone(), name, value });
                found.extend(named);
            }
        }
        Ok(Self(found))
    }

    /// Returns the value of a name that is used in a file: of the module that it names, of the
    /// file, of its crate, or of the only crate that has it.
    fn value(&self, krate: &str, file: &Path, name: &str) -> Option<u64> {
        if name == "i64::MAX" {
            return u64::try_from(i64::MAX).ok();
        }
        let all: Vec<_> = self.0.iter().filter(|constant| constant.name == last(name)).collect();
        let module = name.rsplit("::").nth(1);
        let is_of = |constant: &NamedConstant| {
            constant.file.file_stem().is_some_and(|stem| module == stem.to_str())
                || module == Some(&constant.krate.replace('-', "_"))
        };
        let of_module = all.iter().filter(|constant| is_of(constant)).collect::<Vec<_>>();
        let here = all.iter().filter(|constant| constant.file == file).collect();
        let near = all.iter().filter(|constant| constant.krate == krate).collect();
        let found = [of_module, here, near, all.iter().collect()];
        let found = found.into_iter().find(|found| !found.is_empty())?;
        let [NamedConstant { krate, file, value, .. }] = found[..] else { return None };
        number(value, &|name| self.value(krate, file, name))
    }

    /// Formats a value for readers: `60 s`, `1 MiB`, `16,384`.
    ///
    /// # Errors
    /// The value is no number, time or size.
    fn readable(&self, krate: &str, file: &Path, value: &str, says: &str) -> anyhow::Result<String> {
        let lookup = |name: &str| self.value(krate, file, name);
        for (unit, short) in [("secs", "s"), ("millis", "ms"), ("micros", "µs")] {
            let inner = value.strip_prefix(&format!("Duration::from_{unit}("));
            let inner = inner.and_then(|rest| rest.strip_suffix(')'));
            if let Some(number) = inner.and_then(|inner| number(inner, &lookup)) {
                return Ok(format!("{} {short}", thousands(number)));
            }
        }
        let value = number(value, &lookup).with_context(|| format!("`{value}` is no value for readers"))?;
        Ok(written(value, says))
    }
}

/// Writes a number, with a unit if the sentence says that it counts bytes.
fn written(number: u64, says: &str) -> String {
    let bytes = says.to_lowercase().contains("bytes");
    let unit = [("GiB", 30), ("MiB", 20), ("KiB", 10)]
        .into_iter()
        .find(|(_, shift)| number.is_multiple_of(1 << shift));
    match unit {
        Some((unit, shift)) if bytes && number > 0 => format!("{} {unit}", thousands(number >> shift)),
        _ => thousands(number),
    }
}

/// The value of sums, differences, products and shifts of numbers and names, as in
/// `(1 << 20) + 64 * 1024`; `lookup` knows the names.
fn number(text: &str, lookup: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
    let text = text.trim();
    let text = text.rsplit_once(" as ").map_or(text, |(value, _)| value);
    let binary = |sign: &str, apply: fn(u64, u64) -> Option<u64>| {
        let (left, right) = text.rsplit_once(sign)?;
        apply(number(left, lookup)?, number(right, lookup)?)
    };
    if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
        && !inner.contains(['(', ')'])
    {
        return number(inner, lookup);
    }
    let plain = text.replace('_', "").parse().ok();
    plain
        .or_else(|| binary(" + ", u64::checked_add))
        .or_else(|| binary(" - ", u64::checked_sub))
        .or_else(|| binary(" * ", u64::checked_mul))
        .or_else(|| {
            binary(" << ", |value, bits| value.checked_mul(1_u64.checked_shl(bits.try_into().ok()?)?))
        })
        .or_else(|| lookup(text))
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Lists the hand-written sources below a folder, without tests.
fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in sorted(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match () {
            () if name == "generated" || name == "conformance" || name.contains("test") => {}
            () if path.is_dir() => found.extend(sources(&path)?),
            () if name.ends_with(".rs") => found.push(path),
            () => {}
        }
    }
    Ok(found)
}

/// Finds `const NAME_MAX: T = value;` and fields `name_max: T` with their defaults.
fn scan(text: &str) -> Vec<LimitConstant> {
    let text = without_inline_tests(text);
    let mut limits = Vec::new();
    let mut says: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            says.push(doc.trim());
            continue;
        }
        let constant = constant(line).filter(|(name, _)| name.ends_with("_MAX"));
        if let Some((name, value)) = constant.or_else(|| field(line, text)) {
            limits.push(LimitConstant { name, value, says: sentence(&says) });
        }
        if !line.starts_with("#[") {
            says.clear();
        }
    }
    limits
}

fn constant(line: &str) -> Option<(String, String)> {
    let (_, rest) = line.split_once("const ")?;
    let (name, rest) = rest.split_once(": ")?;
    let (_, value) = rest.split_once(" = ")?;
    Some((name.to_owned(), value.trim_end_matches(';').to_owned()))
}

fn field(line: &str, text: &str) -> Option<(String, String)> {
    let (name, _) = line.strip_prefix("pub ")?.split_once(": ")?;
    if !name.ends_with("_max") {
        return None;
    }
    let after = format!(" {name}: ");
    let defaults = text.split("impl Default for").skip(1).filter_map(|block| block.split("\n}\n").next());
    let value = defaults.filter_map(|block| block.split_once(&after)).map(|(_, value)| value).next()?;
    let value = value.lines().next()?.trim_end_matches(" }").split(", ").next()?.trim_end_matches(',');
    Some((name.to_owned(), value.to_owned()))
}

fn sentence(says: &[&str]) -> String {
    let all = says.iter().take_while(|line| !line.is_empty()).copied().collect::<Vec<_>>().join(" ");
    all.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_and_fields_are_found_with_their_defaults_and_sentences() {
        let text = "/// Bytes of a name.\nconst NAME_MAX: usize = 255;\nstruct Limits {\n    /// Open at once.\n    pub files_max: usize,\n}\nimpl Default for Limits {\n    fn default() -> Self {\n        Self { files_max: 1 << 4, other: 3 }\n    }\n}\n";
        let found: Vec<_> =
            scan(text).into_iter().map(|limit| (limit.name, limit.value, limit.says)).collect();
        let expect = [("NAME_MAX", "255", "Bytes of a name."), ("files_max", "1 << 4", "Open at once.")];
        assert_eq!(found, expect.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    }

    #[test]
    fn only_inline_tests_end_a_source() {
        let text = "#[cfg(test)]\nmod log;\nconst A_MAX: u8 = 1;\n#[cfg(test)]\nmod tests {\n    const B_MAX: u8 = 2;\n}\n";
        let found: Vec<_> = scan(text).into_iter().map(|limit| limit.name).collect();
        assert_eq!(found, ["A_MAX"]);
    }

    #[test]
    fn values_are_written_for_people() {
        let named = |name: &str, value: &str| NamedConstant {
            krate: "nfs4",
            file: "lib.rs".into(),
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let constants = Constants(vec![named("SIZE", "HEADER + 64"), named("HEADER", "64 as usize")]);
        for (value, says, expect) in [
            ("Duration::from_secs(60)", "", "60 s"),
            ("Duration::from_micros(50)", "", "50 µs"),
            ("Duration::from_secs(24 * 3600)", "", "86,400 s"),
            ("(1 << 20) + (128 << 10)", "Bytes of one record.", "1,152 KiB"),
            ("16_384", "Connections.", "16,384"),
            ("1 << 20", "Opens of all clients.", "1,048,576"),
            ("nfs4::SIZE as usize", "", "128"),
            ("SIZE - HEADER", "", "64"),
        ] {
            assert_eq!(constants.readable("net", Path::new("a.rs"), value, says).unwrap(), expect);
        }
        for wrong in ["None", "OTHER", "Duration::from_days(1)"] {
            assert!(constants.readable("net", Path::new("a.rs"), wrong, "").is_err(), "{wrong}");
        }
    }

    #[test]
    fn internal_constants_exist() {
        let constants = Constants::read().unwrap().0;
        for internal in INTERNAL {
            assert!(constants.iter().any(|constant| constant.name == internal), "no constant {internal}");
        }
    }

    #[test]
    fn every_crate_with_limits_has_a_section_or_is_none_of_the_server() {
        for folder in sorted(&steps::root().join("crates")).unwrap() {
            let name = folder.file_name().unwrap().to_str().unwrap();
            let Ok(files) = sources(&folder.join("src")) else { continue };
            let limits = files.iter().flat_map(|file| scan(&std::fs::read_to_string(file).unwrap()));
            let has_limits = limits.into_iter().any(|limit| !INTERNAL.contains(&&*limit.name));
            let is_listed = CRATES.iter().any(|(of, _)| *of == name) || OTHER_CRATES.contains(&name);
            assert!(!has_limits || is_listed, "the limits of {name} are in no section");
        }
    }

    #[test]
    fn the_page_in_the_repository_is_current() {
        run(PageTask::Check).unwrap();
    }
}
