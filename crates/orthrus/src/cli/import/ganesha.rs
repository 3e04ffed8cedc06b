//! The configuration of NFS-Ganesha, as ganesha-config(8) and ganesha-export-config(8) describe it.

use super::blocks::{Block, GaneshaFiles};
use super::{ImportedConfig, ImportedExport, ImportedRule, list, quoted};
use std::path::Path;

/// Imports the contents of `path`, and the files that it includes.
///
/// # Errors
/// The line whose syntax is wrong.
pub(super) fn import(path: &Path, text: &str) -> anyhow::Result<ImportedConfig> {
    let GaneshaFiles { file, missing } = GaneshaFiles::parse(path, text)?;
    let mut imported = ImportedConfig::default();
    let mut defaults = Block { name: "export_defaults".to_owned(), ..Block::default() };
    for block in file.inner("export_defaults") {
        defaults.settings.extend(block.settings.iter().cloned());
        defaults.blocks.extend(block.blocks.iter().cloned());
    }
    imported.notes.extend(defaults.notes(&[&TERMS[..], &OF_EXPORTS].concat()));
    let ceph_conf = file.inner("ceph").find_map(|block| block.value("ceph_conf"));
    for block in &file.blocks {
        match block.name.as_str() {
            "export" => imported.exports.push(export(block, &defaults, ceph_conf)),
            "export_defaults" => {}
            "nfs_core_param" | "nfs_core_params" => core(block, &mut imported),
            "nfsv4" => nfs4(block, &mut imported),
            "nfs_krb5" => kerberos(block, &mut imported),
            "directory_services" => {
                domain(block, &mut imported);
                imported.notes.extend(block.notes(&["domainname"]));
            }
            "ceph" => imported.notes.extend(block.notes(&["ceph_conf"])),
            other => imported.notes.push(format!("The block {other} has no equivalent.")),
        }
    }
    manage_gids(&file, &defaults, &mut imported);
    imported.notes.extend(file.notes(&[]).map(|note| format!("A setting outside of blocks:{note}")));
    for export in &mut imported.exports {
        missing
            .iter()
            .for_each(|other| export.turn_off(format!("{other} is not read and might restrict it.")));
    }
    imported.unread = missing;
    Ok(imported)
}

/// Sets the domain of names, once.
fn domain(block: &Block, imported: &mut ImportedConfig) {
    let is_set = imported.settings.iter().any(|(key, _)| *key == "domain");
    if let Some(name) = block.value("domainname").filter(|_| !is_set) {
        imported.settings.push(("domain", quoted(name)));
    }
}

/// Sets the lookup of groups at the server if all exports had it; Orthrus has one choice for all.
fn manage_gids(file: &Block, defaults: &Block, imported: &mut ImportedConfig) {
    let manages =
        |block: &Block| block.value("manage_gids").or(defaults.value("manage_gids")).is_some_and(is_true);
    let count = file.inner("export").filter(|block| manages(block)).count();
    if count == imported.exports.len() && count > 0 {
        imported.settings.push(("identity.groups", quoted("server")));
    } else if count > 0 {
        imported.notes.push(
            "Manage_Gids of some exports alone has no equivalent; `groups = \"server\"` in [identity] is for all."
                .to_owned(),
        );
    }
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
    for key in ["protocols", "nfs_protocols"] {
        if block.values(key).is_some_and(|protocols| !names_nfs4(protocols)) {
            imported.notes.push("Clients had no NFSv4; Orthrus serves nothing else.".to_owned());
        }
    }
    imported.notes.extend(block.notes(&["nfs_port", "bind_addr", "protocols", "nfs_protocols"]));
}

fn nfs4(block: &Block, imported: &mut ImportedConfig) {
    for (key, name) in [("lease_lifetime", "lease_time"), ("grace_period", "grace_time")] {
        if let Some(seconds) = block.value(key).and_then(number) {
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
    domain(block, imported);
    let known = [
        "lease_lifetime",
        "grace_period",
        "minor_versions",
        "delegations",
        "domainname",
        "graceless",
        "recoverybackend",
    ];
    imported.notes.extend(block.notes(&known));
}

fn kerberos(block: &Block, imported: &mut ImportedConfig) {
    if let Some(path) = block.value("keytabpath") {
        imported.settings.push(("keytab", quoted(path)));
    }
    if let Some(name) = block.value("principalname") {
        // nfs, nfs@HOST or nfs/HOST@REALM
        let mut parts = name.split(['@', '/']);
        if let Some(service) = parts.next().filter(|service| *service != "nfs") {
            imported.settings.push(("keytab_services", list(&[service])));
        }
        if let Some(host) = parts.next() {
            imported.settings.push(("keytab_hosts", list(&[host])));
        }
    }
    imported.notes.extend(block.notes(&["keytabpath", "principalname", "active_krb5", "ccachedir"]));
}

fn export(block: &Block, defaults: &Block, ceph_conf: Option<&str>) -> ImportedExport {
    let mut export = ImportedExport::default();
    for key in ["path", "pseudo"] {
        if let Some(value) = block.value(key) {
            export.keys.push((key, quoted(value)));
        }
    }
    // The blocks of the defaults are for exports without blocks of their own.
    let holder = if block.inner("client").next().is_some() { block } else { defaults };
    let mut rules: Vec<_> = holder
        .inner("client")
        .map(|inner| {
            let mut rule = rule(clients(inner), &[inner, block, defaults]);
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
    file_system(block, ceph_conf, &mut export);
    export.notes.extend(block.notes(&[&TERMS[..], &OF_EXPORTS].concat()));
    export
}

/// Returns the clients of a block. To NFS-Ganesha, `0.0.0.0` is no address but all clients.
fn clients(block: &Block) -> Vec<String> {
    let all = |client: String| if client == "0.0.0.0" { "*".to_owned() } else { client };
    block.all_values("clients").into_iter().map(all).collect()
}

/// The settings of an export that need no equivalent, or have one apart from its rules.
const OF_EXPORTS: [&str; 6] =
    ["export_id", "path", "pseudo", "transports", "attr_expiration_time", "manage_gids"];
/// The settings that clients may have for themselves.
const TERMS: [&str; 7] =
    ["sectype", "squash", "privilegedport", "anonymous_uid", "anonymous_gid", "access_type", "protocols"];
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
        match of(key).map(number) {
            Some(Some(id)) => rule.keys.push((name, id.to_string())),
            Some(None) => rule.notes.push(format!("{key} is no number that Orthrus takes.")),
            None => {}
        }
    }
    match of("access_type").unwrap_or("none").to_lowercase().as_str() {
        "rw" => {}
        "ro" => rule.keys.push(("read_only", "true".to_owned())),
        "none" => rule.refused = Some(NO_ACCESS.to_owned()),
        other => rule.refused = Some(format!("Access_Type = {other} has no equivalent")),
    }
    if values("protocols").is_some_and(|protocols| !names_nfs4(protocols)) {
        rule.refused.get_or_insert("they have no access by NFSv4".to_owned());
    }
    let repeated = TERMS.iter().find(|key| blocks.iter().any(|block| block.repeats(key)));
    if let Some(key) = repeated {
        rule.refused.get_or_insert(format!("their {key} is repeated"));
    }
    rule
}

/// Returns whether NFSv4 is among the protocols, such as `3`, `NFSv3` and `V4`.
fn names_nfs4(protocols: &[String]) -> bool {
    protocols.iter().any(|name| name.ends_with('4'))
}

/// Sets the storage. Its folder has the key `path` already.
fn file_system(block: &Block, ceph_conf: Option<&str>, export: &mut ImportedExport) {
    let none = Block::default();
    let inner = block.inner("fsal").next().unwrap_or(&none);
    let known: &[&str] = match inner.value("name").map(str::to_lowercase).as_deref() {
        Some("vfs" | "xfs" | "lustre") | None => &["name"],
        Some("ceph") => {
            ceph(inner, ceph_conf, export);
            &["name", "user_id", "filesystem", "secret_access_key"]
        }
        Some("mem") => {
            export.turn_off("FSAL mem names no size; the key `memory` does, in place of `path`.".to_owned());
            &["name"]
        }
        Some(other) => {
            export.turn_off(format!("FSAL {other} has no equivalent."));
            &["name"]
        }
    };
    export.notes.extend(inner.notes(known));
}

/// Turns the path into one of CephFS.
fn ceph(inner: &Block, ceph_conf: Option<&str>, export: &mut ImportedExport) {
    for (key, _) in export.keys.iter_mut().filter(|(key, _)| *key == "path") {
        *key = "ceph";
    }
    // Without a name, the library of Ceph is the user admin.
    export.keys.push(("ceph_user", quoted(inner.value("user_id").unwrap_or("admin"))));
    for (key, value) in [("ceph_fs", inner.value("filesystem")), ("ceph_conf", ceph_conf)] {
        if let Some(value) = value {
            export.keys.push((key, quoted(value)));
        }
    }
    if inner.value("secret_access_key").is_some() {
        export.notes.push("Secret_Access_Key: name a file with the key, by ceph_keyring.".to_owned());
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

/// Parses a number as in C: with a leading zero it is octal, with `0x` hexadecimal.
fn number(text: &str) -> Option<u32> {
    let octal = || text.strip_prefix('0').filter(|digits| !digits.is_empty());
    match (text.strip_prefix("0x").or(text.strip_prefix("0X")), octal()) {
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) => u32::from_str_radix(digits, 8).ok(),
        (None, None) => text.parse().ok(),
    }
}

fn is_true(value: &str) -> bool {
    ["true", "yes", "on", "1"].iter().any(|word| value.eq_ignore_ascii_case(word))
}
