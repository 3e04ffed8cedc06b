//! Writes docs/limits.md from the sources, so that no limit is missing and every default is the
//! real one.

use anyhow::{Context, bail};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const HEAD: &str = "# Limits

Every limit of the server that a peer or an operator can reach. `cargo xtask limits` generates this
page from the sources. The table `[limits]` of the [configuration](serve.md#the-file) sets the first
six; the others are constants beside the code that they bound.
";

/// The server's crates with the headings of their tables, in the order of the page.
const CRATES: [(&str, &str); 14] = [
    ("orthrus", "Program"),
    ("runtime", "Threads and deferred calls"),
    ("net", "Connections"),
    ("rpc", "RPC"),
    ("gss", "Kerberos contexts"),
    ("identity", "Users"),
    ("ldap", "Directories of users"),
    ("server", "Requests"),
    ("nfs4", "Wire format"),
    ("state", "Clients, opens and locks"),
    ("vfs", "File systems"),
    ("vfs-local", "Local file systems"),
    ("pipes", "File data without copies"),
    ("grants", "Batch jobs"),
];

/// Constants that end in `_MAX` and bound no peer and no operator: sizes of batches, numbers of
/// retries, masks.
const INTERNAL: [&str; 28] = [
    "CALLERS_MAX",
    "CHECKSUM_MAX",
    "CLASSES_MAX",
    "ERRNO_ROWS_MAX",
    "EVENTS_MAX",
    "FINGERPRINT_MAX",
    "GENERATION_MAX",
    "IDLE_MAX",
    "LAST_WORDS_TIME_MAX",
    "LOCKS_PER_LOCK_MAX",
    "LOOP_TIME_MAX",
    "MESSAGES_MAX",
    "MODE_MAX",
    "NANOSECONDS_MAX",
    "OFFSET_MAX",
    "RACES_MAX",
    "READS_MAX",
    "RECORD_KEPT_MAX",
    "RELEASED_MAX",
    "REQUESTS_KEPT_MAX",
    "SHARD_MAX",
    "SHORT_MAX",
    "SHOWN_MAX",
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

/// Writes the page, or with `check` says whether it is current.
///
/// # Errors
/// When it is not current, or a file cannot be read.
pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let page = page()?;
    let path = steps::root().join("docs/limits.md");
    if !check {
        return std::fs::write(&path, page).with_context(|| path.display().to_string());
    }
    if std::fs::read_to_string(&path).unwrap_or_default() != page {
        bail!("docs/limits.md is not current; run `cargo xtask limits` and commit it");
    }
    Ok(())
}

fn page() -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
    for (name, title) in CRATES {
        let folder = steps::root().join("crates").join(name).join("src");
        let mut limits = Vec::new();
        for file in sources(&folder)? {
            limits.extend(scan(&std::fs::read_to_string(file)?));
        }
        limits.retain(|limit| !INTERNAL.contains(&limit.name.as_str()));
        let _ = write!(page, "\n## {title}\n\n| limit | default | meaning |\n|---|---|---|\n");
        for LimitConstant { name, value, says } in limits {
            let value = readable(&value, &says);
            let _ = writeln!(page, "| `{name}` | {value} | {} |", says.replace('|', "\\|"));
        }
    }
    Ok(page)
}

/// Formats a value for readers: `60 s`, `1 MiB`, `16,384`. Anything but a simple number is
/// unchanged.
fn readable(value: &str, says: &str) -> String {
    for (unit, short) in [("secs", "s"), ("millis", "ms")] {
        let inner =
            value.strip_prefix(&format!("Duration::from_{unit}(")).and_then(|rest| rest.strip_suffix(')'));
        if let Some(number) = inner.and_then(number) {
            return format!("{} {short}", thousands(number));
        }
    }
    let Some(number) = number(value) else { return format!("`{value}`") };
    let bytes = says.to_lowercase().contains("bytes");
    let unit =
        [("GiB", 30), ("MiB", 20), ("KiB", 10)].into_iter().find(|(_, shift)| number % (1 << shift) == 0);
    match unit {
        Some((unit, shift)) if bytes && number > 0 => format!("{} {unit}", thousands(number >> shift)),
        _ => thousands(number),
    }
}

/// The value of sums of products and shifts of numbers, as in `(1 << 20) + 64 * 1024`.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let binary = |sign: &str, apply: fn(u64, u64) -> Option<u64>| {
        let (left, right) = text.rsplit_once(sign)?;
        apply(number(left)?, number(right)?)
    };
    if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'))
        && !inner.contains(['(', ')'])
    {
        return number(inner);
    }
    text.replace('_', "").parse().ok().or_else(|| binary(" + ", u64::checked_add)).or_else(|| {
        binary(" * ", u64::checked_mul).or_else(|| {
            binary(" << ", |value, bits| value.checked_mul(1_u64.checked_shl(bits.try_into().ok()?)?))
        })
    })
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
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let mut limits = Vec::new();
    let mut says: Vec<&str> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            says.push(doc.trim());
            continue;
        }
        if let Some((name, value)) = constant(line).or_else(|| field(line, text)) {
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
    name.ends_with("_MAX").then(|| (name.to_owned(), value.trim_end_matches(';').to_owned()))
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
    fn values_are_written_for_people() {
        for (value, says, expect) in [
            ("Duration::from_secs(60)", "", "60 s"),
            ("Duration::from_secs(24 * 3600)", "", "86,400 s"),
            ("(1 << 20) + (128 << 10)", "Bytes of one record.", "1,152 KiB"),
            ("16_384", "Connections.", "16,384"),
            ("1 << 20", "Opens of all clients.", "1,048,576"),
            ("nfs4::SIZE as usize", "", "`nfs4::SIZE as usize`"),
        ] {
            assert_eq!(readable(value, says), expect);
        }
    }

    #[test]
    fn internal_constants_exist() {
        let mut names = Vec::new();
        for (name, _) in CRATES {
            for file in sources(&steps::root().join("crates").join(name).join("src")).unwrap() {
                names.extend(
                    scan(&std::fs::read_to_string(file).unwrap()).into_iter().map(|limit| limit.name),
                );
            }
        }
        for internal in INTERNAL {
            assert!(names.iter().any(|name| name == internal), "no constant {internal}");
        }
    }

    #[test]
    fn the_page_in_the_repository_is_current() {
        run(true).unwrap();
    }
}
