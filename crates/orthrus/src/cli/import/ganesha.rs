//! The configuration of NFS-Ganesha, as ganesha-config(8) and ganesha-export-config(8) describe it.

use super::{ImportedConfig, ImportedExport, ImportedRule, list, quoted};
use anyhow::{Context, bail};

/// Blocks inside each other; a deeper one is refused.
const BLOCK_DEPTH_MAX: usize = 8;

/// A block with its settings and inner blocks; names are in lower case.
#[derive(Debug, Default, PartialEq, Eq)]
struct Block {
    name: String,
    settings: Vec<(String, Vec<String>)>,
    blocks: Vec<Block>,
}

/// A piece of the text.
#[derive(Debug, PartialEq, Eq)]
enum GaneshaToken {
    Word(String),
    Mark(char),
}

impl Block {
    fn values(&self, key: &str) -> Option<&[String]> {
        self.settings.iter().rev().find(|(name, _)| name == key).map(|(_, values)| values.as_slice())
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.values(key)?.first().map(String::as_str)
    }

    /// Returns a sentence for each setting that is not among `known`.
    fn notes<'b>(&'b self, known: &'b [&str]) -> impl Iterator<Item = String> + 'b {
        let unknown = self.settings.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        unknown.map(|(name, values)| {
            format!("{} {{ {name} = {} }} has no equivalent.", self.name, values.join(", "))
        })
    }
}

/// Imports a file.
///
/// # Errors
/// The line whose syntax is wrong.
pub(super) fn import(text: &str) -> anyhow::Result<ImportedConfig> {
    let tokens = tokens(text)?;
    let (file, rest) = block(String::new(), &tokens, 0)?;
    if let Some((line, _)) = rest.first() {
        bail!("line {line}: a brace closes nothing");
    }
    let mut imported = ImportedConfig::default();
    let none = Block::default();
    let defaults = file.blocks.iter().find(|block| block.name == "export_defaults").unwrap_or(&none);
    for block in &file.blocks {
        match block.name.as_str() {
            "export" => imported.exports.push(export(block, defaults)),
            "export_defaults" => {}
            "nfs_core_param" | "nfs_core_params" => core(block, &mut imported),
            "nfsv4" => nfs4(block, &mut imported),
            "nfs_krb5" => kerberos(block, &mut imported),
            other => imported.notes.push(format!("The block {other} has no equivalent.")),
        }
    }
    imported.notes.extend(file.notes(&[]).map(|note| format!("A setting outside of blocks:{note}")));
    Ok(imported)
}

fn core(block: &Block, imported: &mut ImportedConfig) {
    let port = block.value("nfs_port").unwrap_or("2049");
    let address = block.value("bind_addr").map(|address| match address.parse() {
        Ok(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        _ => address.to_owned(),
    });
    if block.value("nfs_port").is_some() || address.is_some() {
        imported.settings.push(("listen", quoted(&format!("{}:{port}", address.unwrap_or_default()))));
    }
    imported.notes.extend(block.notes(&["nfs_port", "bind_addr", "protocols", "nfs_protocols"]));
}

fn nfs4(block: &Block, imported: &mut ImportedConfig) {
    for (key, name) in [("lease_lifetime", "lease_time"), ("grace_period", "grace_time")] {
        if let Some(seconds) = block.value(key).and_then(|seconds| seconds.parse::<u64>().ok()) {
            imported.settings.push((name, seconds.clamp(5, 3600).to_string()));
        }
    }
    if let Some(minors) = block.values("minor_versions") {
        imported.settings.push(("nfs40", minors.iter().any(|minor| minor == "0").to_string()));
    }
    if let Some(choice) = block.value("delegations") {
        let choice = if is_true(choice) { "read" } else { "none" };
        imported.settings.push(("delegations", quoted(choice)));
    }
    let known =
        ["lease_lifetime", "grace_period", "minor_versions", "delegations", "graceless", "recoverybackend"];
    imported.notes.extend(block.notes(&known));
}

fn kerberos(block: &Block, imported: &mut ImportedConfig) {
    if let Some(path) = block.value("keytabpath") {
        imported.settings.push(("keytab", quoted(path)));
    }
    if let Some(name) = block.value("principalname").filter(|name| *name != "nfs") {
        imported.settings.push(("keytab_services", list(&[name])));
    }
    imported.notes.extend(block.notes(&["keytabpath", "principalname", "active_krb5", "ccachedir"]));
}

fn export(block: &Block, defaults: &Block) -> ImportedExport {
    let mut export = ImportedExport::default();
    for key in ["path", "pseudo"] {
        if let Some(value) = block.value(key) {
            export.keys.push((key, quoted(value)));
        }
    }
    let mut rules: Vec<_> = block
        .blocks
        .iter()
        .filter(|inner| inner.name == "client")
        .map(|inner| {
            let clients = inner.values("clients").unwrap_or_default().to_vec();
            let mut rule = rule(clients, &[inner, block, defaults]);
            rule.notes.extend(inner.notes(&[&TERMS[..], &["clients"]].concat()));
            rule
        })
        .collect();
    // Clients without a block have the options of the export.
    let rest = rule(vec!["*".to_owned()], &[block, defaults]);
    if rest.refused.as_deref() != Some(NO_ACCESS) {
        rules.push(rest);
    }
    export.set_rules(rules);
    file_system(block, &mut export);
    let known = ["export_id", "path", "pseudo", "protocols", "transports", "attr_expiration_time"];
    export.notes.extend(block.notes(&[&TERMS[..], &known].concat()));
    export
}

/// The settings that clients may have for themselves.
const TERMS: [&str; 6] =
    ["sectype", "squash", "privilegedport", "anonymous_uid", "anonymous_gid", "access_type"];
const NO_ACCESS: &str = "they have no access";

/// Returns the rule for some clients. `blocks` are searched in order.
fn rule(clients: Vec<String>, blocks: &[&Block]) -> ImportedRule {
    let values = |key: &str| blocks.iter().find_map(|block| block.values(key));
    let of = |key: &str| values(key).and_then(|values| values.first()).map(String::as_str);
    let mut rule = ImportedRule { clients, ..ImportedRule::default() };
    let (known, unknown): (Vec<String>, Vec<String>) = values("sectype")
        .map_or(vec!["none".to_owned(), "sys".to_owned()], <[String]>::to_vec)
        .into_iter()
        .map(|flavor| flavor.to_lowercase())
        .partition(|flavor| flavor.parse::<vfs::SecFlavor>().is_ok());
    if unknown.iter().any(|flavor| flavor != "none") {
        rule.notes.push(format!("SecType = {} has no equivalent.", unknown.join(", ")));
    }
    match known.is_empty() {
        true => rule.refused = Some("no flavor of theirs has an equivalent".to_owned()),
        false => rule.keys.push(("sec", list(&known))),
    }
    squash(of("squash").unwrap_or("root_squash"), &mut rule);
    if !of("privilegedport").is_some_and(is_true) {
        rule.keys.push(("secure", "false".to_owned()));
    }
    for (key, name) in [("anonymous_uid", "anon_uid"), ("anonymous_gid", "anon_gid")] {
        match of(key).map(str::parse::<u32>) {
            Some(Ok(id)) => rule.keys.push((name, id.to_string())),
            Some(Err(_)) => rule.notes.push(format!("{key} is no number that Orthrus takes.")),
            None => {}
        }
    }
    match of("access_type").unwrap_or("none").to_lowercase().as_str() {
        "rw" => {}
        "ro" => rule.keys.push(("read_only", "true".to_owned())),
        "none" => rule.refused = Some(NO_ACCESS.to_owned()),
        other => rule.refused = Some(format!("Access_Type = {other} has no equivalent")),
    }
    rule
}

fn file_system(block: &Block, export: &mut ImportedExport) {
    let inner = block.blocks.iter().find(|inner| inner.name == "fsal");
    match inner.and_then(|inner| inner.value("name")).map(str::to_lowercase).as_deref() {
        Some("vfs" | "xfs" | "lustre") | None => {}
        Some(other) => {
            export.turn_off(format!("FSAL {other} has no equivalent; Orthrus exports folders."));
        }
    }
    if let Some(inner) = inner {
        export.notes.extend(inner.notes(&["name"]));
    }
}

fn squash(value: &str, rule: &mut ImportedRule) {
    let squash = match value.to_lowercase().replace(['_', '-'], "").as_str() {
        "norootsquash" | "none" | "noidsquash" => "none",
        "rootsquash" | "root" => return,
        "allsquash" | "all" | "allanonymous" => "all",
        _ => {
            rule.notes.push(format!("Squash = {value} has no equivalent; root is squashed."));
            return;
        }
    };
    rule.keys.push(("squash", quoted(squash)));
}

fn is_true(value: &str) -> bool {
    ["true", "yes", "on", "1"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Splits the text into words and the marks `{ } = , ;`, each with its line.
fn tokens(text: &str) -> anyhow::Result<Vec<(usize, GaneshaToken)>> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            if first == '#' || rest.starts_with("//") {
                break;
            }
            if first == '%' {
                bail!("line {number}: %include is not followed; import the other file, too");
            }
            let length = match first {
                '{' | '}' | '=' | ',' | ';' => {
                    tokens.push((number, GaneshaToken::Mark(first)));
                    1
                }
                '"' | '\'' => {
                    let inner = rest.get(1..).unwrap_or_default();
                    let end =
                        inner.find(first).with_context(|| format!("line {number}: a quote has no end"))?;
                    tokens
                        .push((number, GaneshaToken::Word(inner.get(..end).unwrap_or_default().to_owned())));
                    end + 2
                }
                _ => {
                    let ends = |c: char| c.is_whitespace() || "{}=,;#\"'".contains(c);
                    let end = rest.find(ends).unwrap_or(rest.len());
                    tokens.push((number, GaneshaToken::Word(rest.get(..end).unwrap_or_default().to_owned())));
                    end
                }
            };
            rest = rest.get(length..).unwrap_or_default().trim_start();
        }
    }
    Ok(tokens)
}

type Numbered = (usize, GaneshaToken);

/// Parses the inside of a block, and returns the tokens behind its end.
fn block(name: String, mut tokens: &[Numbered], depth: usize) -> anyhow::Result<(Block, &[Numbered])> {
    let mut parsed = Block { name, ..Block::default() };
    loop {
        match tokens {
            [] if depth == 0 => return Ok((parsed, tokens)),
            [] => bail!("the block {} has no end", parsed.name),
            [(_, GaneshaToken::Mark('}')), ..] if depth == 0 => return Ok((parsed, tokens)),
            [(_, GaneshaToken::Mark('}')), rest @ ..] => return Ok((parsed, rest)),
            [(_, GaneshaToken::Mark(';')), rest @ ..] => tokens = rest,
            [(line, GaneshaToken::Word(name)), (_, GaneshaToken::Mark('{')), rest @ ..] => {
                if depth == BLOCK_DEPTH_MAX {
                    bail!("line {line}: more than {BLOCK_DEPTH_MAX} blocks are inside each other");
                }
                let (inner, rest) = block(name.to_lowercase(), rest, depth + 1)?;
                parsed.blocks.push(inner);
                tokens = rest;
            }
            [(line, GaneshaToken::Word(name)), (_, GaneshaToken::Mark('=')), rest @ ..] => {
                let end = rest
                    .iter()
                    .position(|(_, token)| *token == GaneshaToken::Mark(';'))
                    .with_context(|| format!("line {line}: {name} has no semicolon"))?;
                let (values, rest) = rest.split_at(end);
                let mut words = Vec::new();
                for (line, token) in values {
                    match token {
                        GaneshaToken::Word(word) => words.push(word.clone()),
                        GaneshaToken::Mark(',') => {}
                        GaneshaToken::Mark(mark) => bail!("line {line}: {mark:?} in the value of {name}"),
                    }
                }
                parsed.settings.push((name.to_lowercase(), words));
                tokens = rest;
            }
            [(line, _), ..] => bail!("line {line}: neither `KEY = VALUE;` nor `BLOCK {{`"),
        }
    }
}
