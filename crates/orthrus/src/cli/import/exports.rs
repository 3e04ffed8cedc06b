//! The file of exportfs(8), as exports(5) describes it.

use super::{ImportedClients, ImportedConfig, ImportedExport, list, quoted};
use anyhow::{Context, bail};

/// The options of a client of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClientOptions {
    read_only: bool,
    squash: &'static str,
    anon_uid: Option<u32>,
    anon_gid: Option<u32>,
    sec: Vec<String>,
    secure: bool,
    is_root: bool,
    nested: bool,
    /// Options that have no equivalent, or none that is needed.
    notes: Vec<String>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            read_only: true,
            squash: "root",
            anon_uid: None,
            anon_gid: None,
            sec: vec!["sys".to_owned()],
            secure: true,
            is_root: false,
            nested: false,
            notes: Vec::new(),
        }
    }
}

impl ClientOptions {
    /// Applies a list of options, such as `rw,sec=krb5p:krb5i`.
    fn apply(&mut self, options: &str) {
        for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match (name, value) {
                ("ro", "") => self.read_only = true,
                ("rw", "") => self.read_only = false,
                ("root_squash", "") => self.squash = "root",
                ("no_root_squash", "") => self.squash = "none",
                ("all_squash", "") => self.squash = "all",
                ("no_all_squash", "") if self.squash == "all" => self.squash = "root",
                ("anonuid", id) if id.parse::<u32>().is_ok() => self.anon_uid = id.parse().ok(),
                ("anongid", id) if id.parse::<u32>().is_ok() => self.anon_gid = id.parse().ok(),
                ("sec", flavors) => self.set_flavors(flavors),
                ("secure", "") => self.secure = true,
                ("insecure", "") => self.secure = false,
                ("crossmnt" | "nohide", "") => self.nested = true,
                ("hide", "") => self.nested = false,
                ("fsid", "0" | "root") => self.is_root = true,
                // The defaults of Orthrus, or without a meaning there.
                ("sync" | "subtree_check" | "no_subtree_check" | "wdelay" | "no_wdelay", "") => {}
                ("secure_locks" | "auth_nlm" | "no_all_squash" | "fsid" | "acl", _) => {}
                ("async", "") => self.notes.push(
                    "async has no equivalent: data is stable when a client asks for it. See `stable_names`."
                        .to_owned(),
                ),
                _ => self.notes.push(format!("{option} has no equivalent.")),
            }
        }
    }

    fn set_flavors(&mut self, flavors: &str) {
        let (known, unknown): (Vec<_>, Vec<_>) =
            flavors.split(':').partition(|flavor| flavor.parse::<vfs::SecFlavor>().is_ok());
        self.sec = known.into_iter().map(str::to_owned).collect();
        if !unknown.is_empty() {
            self.notes.push(format!("sec={} has no equivalent.", unknown.join(":")));
        }
    }
}

/// Clients with the same options.
struct ClientGroup {
    options: ClientOptions,
    clients: ImportedClients,
}

/// Imports a file.
///
/// # Errors
/// The line whose syntax is wrong.
pub(super) fn import(text: &str) -> anyhow::Result<ImportedConfig> {
    let mut parsed = Vec::new();
    for (number, line) in lines(text) {
        let words = words(&line).with_context(|| format!("line {number}"))?;
        let Some((path, clients)) = words.split_first() else { continue };
        if !path.starts_with('/') {
            bail!("line {number}: {path:?} is no absolute path");
        }
        parsed.push((path.clone(), groups(clients).with_context(|| format!("line {number}"))?));
    }
    let root = parsed.iter().find(|(_, groups)| groups.iter().any(|group| group.options.is_root));
    let root = root.map(|(path, _)| path.clone());
    let mut imported = ImportedConfig::default();
    for (path, groups) in parsed {
        let pseudo = pseudo(&path, root.as_deref());
        for (index, group) in groups.iter().enumerate() {
            let mut export = export(&path, &pseudo, group);
            if index > 0 && export.off.is_none() {
                export.off = Some(format!(
                    "an export has the same options for all clients, and the one before has the path {path}. \
                     Give this one another `pseudo`, or use `sec_from`."
                ));
            }
            imported.exports.push(export);
        }
    }
    Ok(imported)
}

/// Returns the path that clients mount: below the export with fsid=0, if there is one.
fn pseudo(path: &str, root: Option<&str>) -> String {
    let below = root.and_then(|root| path.strip_prefix(root.trim_end_matches('/')));
    match below {
        Some("" | "/") => "/".to_owned(),
        Some(below) if below.starts_with('/') => below.to_owned(),
        _ => path.to_owned(),
    }
}

fn export(path: &str, pseudo: &str, group: &ClientGroup) -> ImportedExport {
    let ClientGroup { options, clients } = group;
    let mut export = ImportedExport {
        keys: vec![("path", quoted(path)), ("pseudo", quoted(pseudo))],
        notes: options.notes.clone(),
        off: None,
    };
    if options.sec.is_empty() {
        export.off = Some("it has no flavor that Orthrus knows.".to_owned());
    } else {
        export.keys.push(("sec", list(&options.sec)));
    }
    let mut set = |key, differs: bool, value: &str| {
        if differs {
            export.keys.push((key, value.to_owned()));
        }
    };
    set("read_only", options.read_only, "true");
    set("squash", options.squash != "root", &quoted(options.squash));
    set("secure", !options.secure, "false");
    set("nested", options.nested, "\"show\"");
    for (key, id) in [("anon_uid", options.anon_uid), ("anon_gid", options.anon_gid)] {
        set(key, id.is_some(), &id.unwrap_or_default().to_string());
    }
    clients.apply(&mut export);
    export
}

/// Parses the clients of a path and puts those with the same options together.
fn groups(words: &[String]) -> anyhow::Result<Vec<ClientGroup>> {
    let mut defaults = ClientOptions::default();
    let mut groups: Vec<ClientGroup> = Vec::new();
    for word in words {
        if let Some(options) = word.strip_prefix('-') {
            defaults.apply(options);
            continue;
        }
        let (client, options) = match word.split_once('(') {
            Some((client, rest)) => {
                (client, rest.strip_suffix(')').with_context(|| format!("{word:?} has no end"))?)
            }
            None => (word.as_str(), ""),
        };
        let mut own = defaults.clone();
        own.apply(options);
        // An older form of sec=.
        let client = match client.strip_prefix("gss/") {
            Some(flavor) => {
                own.set_flavors(flavor);
                "*"
            }
            None => client,
        };
        let client = if client.is_empty() { "*" } else { client };
        match groups.iter_mut().find(|group| group.options == own) {
            Some(group) => group.clients.add(client),
            None => {
                let mut clients = ImportedClients::default();
                clients.add(client);
                groups.push(ClientGroup { options: own, clients });
            }
        }
    }
    if groups.is_empty() {
        let mut clients = ImportedClients::default();
        clients.add("*");
        groups.push(ClientGroup { options: defaults, clients });
    }
    Ok(groups)
}

/// Joins continued lines, and returns each with its number.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let (part, goes_on) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match joined.last_mut() {
            Some((_, last)) if continues => last.push_str(part),
            _ => joined.push((index + 1, part.to_owned())),
        }
        continues = goes_on;
    }
    joined
}

/// Splits a line at blanks, with quoted paths, octal escapes (`\040`) and comments.
fn words(line: &str) -> anyhow::Result<Vec<String>> {
    let mut words = vec![Vec::new()];
    let (mut is_quoted, mut bytes) = (false, line.bytes());
    while let Some(byte) = bytes.next() {
        let word = words.last_mut().context("there is a word")?;
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'#' if !is_quoted && word.is_empty() => break,
            b' ' | b'\t' if !is_quoted => words.push(Vec::new()),
            b'\\' => {
                let digits: Vec<u8> = bytes.by_ref().take(3).collect();
                let octal = std::str::from_utf8(&digits).ok().and_then(|d| u8::from_str_radix(d, 8).ok());
                word.push(octal.context("a backslash needs three octal digits, such as \\040")?);
            }
            byte => word.push(byte),
        }
    }
    if is_quoted {
        bail!("a quotation mark has no end");
    }
    let texts = words.into_iter().filter(|word| !word.is_empty()).map(String::from_utf8);
    texts.collect::<Result<_, _>>().context("it is not UTF-8")
}
