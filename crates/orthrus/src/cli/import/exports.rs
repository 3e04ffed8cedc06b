//! The file of exportfs(8), as exports(5) describes it.

use super::locations::ImportedLocations;
use super::{ImportedConfig, ImportedExport, ImportedRule, list, quoted};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

/// The options of a client of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClientOptions {
    /// The terms of flavors that are named later, and of `sys` if none is.
    terms: FlavorTerms,
    /// The flavors with their terms.
    flavors: Vec<(String, FlavorTerms)>,
    anon_uid: Option<u32>,
    anon_gid: Option<u32>,
    /// Whether the client is a flavor, an older form of `sec=`.
    is_gss: bool,
    is_root: bool,
    nested: bool,
    locations: ImportedLocations,
    /// The reason why Orthrus cannot serve these clients.
    refused: Option<String>,
    /// Options that have no equivalent, or none that is needed.
    notes: Vec<String>,
}

/// The options that a flavor may have for itself ("sec=krb5,rw,sec=sys,ro").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlavorTerms {
    read_only: bool,
    squash: vfs::Squash,
    secure: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            terms: FlavorTerms { read_only: true, squash: vfs::Squash::Root, secure: true },
            flavors: Vec::new(),
            anon_uid: None,
            anon_gid: None,
            is_gss: false,
            is_root: false,
            nested: false,
            locations: ImportedLocations::default(),
            refused: None,
            notes: Vec::new(),
        }
    }
}

impl ClientOptions {
    /// Applies a list of options, such as `rw,sec=krb5p:krb5i`. As in exportfs(8), an option
    /// changes the flavors of the last `sec=` of this list, and those that are named later.
    fn apply(&mut self, options: &str) {
        use vfs::Squash;
        let mut active: Vec<String> = Vec::new();
        for option in options.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let mut set = |change: &dyn Fn(&mut FlavorTerms)| {
                change(&mut self.terms);
                let named = self.flavors.iter_mut().filter(|(flavor, _)| active.contains(flavor));
                named.for_each(|(_, terms)| change(terms));
            };
            match (name, value) {
                ("ro", "") => set(&|terms| terms.read_only = true),
                ("rw", "") => set(&|terms| terms.read_only = false),
                ("root_squash", "") => set(&|terms| {
                    if terms.squash == Squash::None {
                        terms.squash = Squash::Root;
                    }
                }),
                ("no_root_squash", "") => set(&|terms| {
                    if terms.squash == Squash::Root {
                        terms.squash = Squash::None;
                    }
                }),
                ("all_squash", "") => set(&|terms| terms.squash = Squash::All),
                ("no_all_squash", "") => set(&|terms| {
                    if terms.squash == Squash::All {
                        terms.squash = Squash::Root;
                    }
                }),
                ("secure", "") => set(&|terms| terms.secure = true),
                ("insecure", "") => set(&|terms| terms.secure = false),
                ("anonuid", id) if id.parse::<u32>().is_ok() => self.anon_uid = id.parse().ok(),
                ("anongid", id) if id.parse::<u32>().is_ok() => self.anon_gid = id.parse().ok(),
                ("sec", flavors) => {
                    let known = |flavor| if flavor == "unix" { "sys" } else { flavor };
                    active = flavors.split(':').map(known).map(str::to_owned).collect();
                    self.add_flavors(&active);
                }
                ("crossmnt", "") => self.nested = true,
                ("refer", places) => self.locations.refer(places),
                ("replicas", places) => self.locations.replicas(places),
                ("fsid", "0" | "root") => self.is_root = true,
                ("xprtsec", kinds) if !kinds.split(':').any(|kind| kind == "none") => {
                    self.refused = Some(format!("{option} asks for TLS, which Orthrus does not have"));
                }
                // The defaults of Orthrus, or without a meaning there.
                ("sync" | "subtree_check" | "no_subtree_check" | "wdelay" | "no_wdelay", "") => {}
                ("secure_locks" | "auth_nlm" | "no_auth_nlm" | "insecure_locks" | "fsid" | "acl", _) => {}
                ("hide" | "nohide", "") => {}
                ("async", "") => self.notes.push(
                    "async has no equivalent: data is stable when a client asks for it. See `stable_names`."
                        .to_owned(),
                ),
                ("mp" | "mountpoint", _) => self.notes.push(format!(
                    "{option} has no equivalent: what lies at the path is served, mounted or not."
                )),
                _ => self.notes.push(format!("{option} has no equivalent.")),
            }
        }
    }

    /// Adds flavors that are not yet named, with the terms so far.
    fn add_flavors(&mut self, flavors: &[String]) {
        for flavor in flavors {
            if !self.flavors.iter().any(|(other, _)| other == flavor) {
                self.flavors.push((flavor.clone(), self.terms));
            }
        }
    }

    /// Leaves one flavor alone.
    fn restrict_to(&mut self, flavor: &str) {
        self.add_flavors(&[flavor.to_owned()]);
        self.flavors.retain(|(other, _)| other == flavor);
        self.is_gss = true;
    }

    /// Returns the rule for some clients with these options. If flavors have options of their own,
    /// all get the strictest.
    fn rule(mut self, clients: Vec<String>) -> ImportedRule {
        let strictness = |squash: vfs::Squash| vfs::Squash::ALL.iter().position(|one| *one == squash);
        if self.flavors.is_empty() {
            self.add_flavors(&["sys".to_owned()]);
        }
        let (known, unknown): (Vec<_>, Vec<_>) =
            self.flavors.iter().partition(|(flavor, _)| flavor.parse::<vfs::SecFlavor>().is_ok());
        if !unknown.is_empty() {
            let unknown: Vec<_> = unknown.iter().map(|(flavor, _)| flavor.as_str()).collect();
            self.notes.push(format!("sec={} has no equivalent.", unknown.join(":")));
        }
        let mut all = FlavorTerms { read_only: false, squash: vfs::Squash::None, secure: false };
        for (_, terms) in &known {
            all.read_only |= terms.read_only;
            all.secure |= terms.secure;
            if strictness(terms.squash) > strictness(all.squash) {
                all.squash = terms.squash;
            }
        }
        if known.iter().any(|(_, terms)| *terms != all) {
            self.notes.push(
                "Flavors with options of their own have no equivalent: all get the strictest of each."
                    .to_owned(),
            );
        }
        if known.is_empty() {
            self.refused = Some("no flavor of theirs has an equivalent".to_owned());
        }
        let flavors: Vec<_> = known.iter().map(|(flavor, _)| flavor).collect();
        let mut keys = vec![("sec", list(&flavors))];
        let mut set = |key, differs: bool, value: &str| {
            if differs {
                keys.push((key, value.to_owned()));
            }
        };
        set("read_only", all.read_only, "true");
        set("squash", all.squash != vfs::Squash::Root, &quoted(all.squash.name()));
        set("secure", !all.secure, "false");
        for (key, id) in [("anon_uid", self.anon_uid), ("anon_gid", self.anon_gid)] {
            set(key, id.is_some(), &id.unwrap_or_default().to_string());
        }
        ImportedRule { clients, keys, notes: self.notes, refused: self.refused }
    }
}

/// A client with its options.
struct ExportedTo {
    client: String,
    options: ClientOptions,
}

impl ExportedTo {
    /// Returns the place of the client among others: of several that name a host, exports(5) takes
    /// the first kind in this order, and of one kind the first of the line.
    fn precedence(&self) -> u8 {
        match self.client.as_str() {
            _ if self.options.is_gss => 5,
            "*" => 4,
            client if client.starts_with('@') => 3,
            client if client.contains(['*', '?', '[']) => 2,
            client if client.contains('/') => 1,
            _ => 0,
        }
    }
}

/// The folder of further files, which exportfs(8) reads behind /etc/exports.
pub(super) const FURTHER_EXPORTS: &str = "/etc/exports.d";

/// Returns the files of a folder that exportfs(8) reads, in its order.
pub(super) fn further_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_read = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        !name.starts_with(b".") && name.ends_with(b".exports")
    };
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(is_read).collect();
    files.sort();
    files
}

/// Imports files, given by their paths and contents.
///
/// # Errors
/// The line whose syntax is wrong.
pub(super) fn import(files: &[(PathBuf, String)]) -> anyhow::Result<ImportedConfig> {
    let mut parsed: Vec<(String, Vec<ExportedTo>)> = Vec::new();
    for (file, text) in files {
        parse(text, &mut parsed).with_context(|| file.display().to_string())?;
    }
    let root = parsed.iter().find(|(_, clients)| clients.iter().any(|client| client.options.is_root));
    let root = root.map(|(path, _)| path.clone());
    let mut imported = ImportedConfig::default();
    for (path, clients) in parsed {
        imported.exports.push(export(&path, &pseudo(&path, root.as_deref()), clients));
    }
    Ok(imported)
}

/// Adds the paths of a file, with the clients of each.
fn parse(text: &str, parsed: &mut Vec<(String, Vec<ExportedTo>)>) -> anyhow::Result<()> {
    for (number, line) in lines(text) {
        let words = words(&line).with_context(|| format!("line {number}"))?;
        let Some((named, clients)) = words.split_first() else { continue };
        if !named.starts_with('/') {
            bail!("line {number}: {named:?} is no absolute path");
        }
        let mut clients = exported_to(clients).with_context(|| format!("line {number}"))?;
        let plain = format!("/{}", named.trim_matches('/'));
        let path = real_path(&plain).unwrap_or_else(|| plain.clone());
        if path != plain {
            let note = format!("{plain} leads to {path}, which clients mount.");
            clients.iter_mut().for_each(|client| client.options.notes.push(note.clone()));
        }
        match parsed.iter_mut().find(|(other, _)| *other == path) {
            Some((_, others)) => others.extend(clients),
            None => parsed.push((path, clients)),
        }
    }
    Ok(())
}

/// Returns the path of a folder without links, as exportfs(8) does: all lines about a folder are of
/// one export. `None` if the folder is not there.
fn real_path(path: &str) -> Option<String> {
    std::fs::canonicalize(path).ok()?.into_os_string().into_string().ok()
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

fn export(path: &str, pseudo: &str, mut clients: Vec<ExportedTo>) -> ImportedExport {
    let mut export = ImportedExport {
        keys: vec![("path", quoted(path)), ("pseudo", quoted(pseudo))],
        ..ImportedExport::default()
    };
    let nested = clients.iter().filter(|client| client.options.nested).count();
    if nested == clients.len() {
        export.keys.push(("nested", "\"show\"".to_owned()));
    } else if nested > 0 {
        export.notes.push("crossmnt for some clients alone has no equivalent: no client gets it.".to_owned());
    }
    clients.sort_by_key(ExportedTo::precedence);
    let gss = clients.iter().filter(|client| client.options.is_gss).count();
    if gss > 0 && gss < clients.len() {
        export.turn_off("flavors as clients, such as gss/krb5p, are next to other clients.".to_owned());
    }
    let locations: Vec<_> = clients.iter().map(|to| to.options.locations.clone()).collect();
    export.set_rules(clients.into_iter().map(|to| to.options.rule(vec![to.client])).collect());
    ImportedLocations::apply(locations, &mut export);
    export
}

/// Parses the clients of a path.
fn exported_to(words: &[String]) -> anyhow::Result<Vec<ExportedTo>> {
    let mut defaults = ClientOptions::default();
    let mut clients: Vec<ExportedTo> = Vec::new();
    for word in words {
        if let Some(options) = word.strip_prefix('-') {
            defaults.apply(options);
            continue;
        }
        let (client, own) = match word.split_once('(') {
            Some((client, rest)) => {
                (client, rest.strip_suffix(')').with_context(|| format!("{word:?} has no end"))?)
            }
            None => (word.as_str(), ""),
        };
        let mut options = defaults.clone();
        options.apply(own);
        let client = match client.strip_prefix("gss/") {
            Some(flavor) => {
                options.restrict_to(flavor);
                "*"
            }
            None => client,
        };
        let client = if client.is_empty() { "*" } else { client }.to_owned();
        if client.contains("[!") {
            let reason = "`!` in brackets is a character there, and excludes characters here";
            options.refused.get_or_insert(reason.to_owned());
        }
        clients.push(ExportedTo { client, options });
    }
    if clients.is_empty() {
        clients.push(ExportedTo { client: "*".to_owned(), options: defaults });
    }
    Ok(clients)
}

/// Joins continued lines by blanks, without comments, and returns each with its number.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in text.lines().enumerate() {
        let line = without_comment(line);
        let (part, goes_on) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match joined.last_mut() {
            Some((_, last)) if continues => {
                last.push(' ');
                last.push_str(part);
            }
            _ => joined.push((index + 1, part.to_owned())),
        }
        continues = goes_on;
    }
    joined
}

/// Returns the part of a line before its comment, which a backslash does not continue.
fn without_comment(line: &str) -> &str {
    let (mut is_quoted, mut begins_word) = (false, true);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'#' if begins_word && !is_quoted => return line.get(..at).unwrap_or(line),
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
        begins_word = matches!(byte, b' ' | b'\t');
    }
    line
}

/// Splits a line at blanks, with quoted paths and octal escapes (`\040`).
fn words(line: &str) -> anyhow::Result<Vec<String>> {
    let mut words = vec![Vec::new()];
    let (mut is_quoted, mut bytes) = (false, line.bytes());
    while let Some(byte) = bytes.next() {
        let word = words.last_mut().context("there is a word")?;
        match byte {
            b'"' => is_quoted = !is_quoted,
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
