//! The difference that a reload makes.

use crate::config::{ClusterSettings, ExportSettings, Settings, find_key};
use state::RevokedCounts;

/// The differences between the settings in force and those of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReloadChanges {
    /// Pseudo paths of exports that the file adds.
    pub(super) added: Vec<String>,
    /// Pseudo paths of exports that the file no longer has.
    pub(super) removed: Vec<String>,
    /// Pseudo paths of exports with other settings.
    pub(super) changed: Vec<String>,
    /// Pseudo paths of exports whose filehandles are of another number than before.
    pub(super) renumbered: Vec<String>,
    /// The state of clients in exports that are not served any more.
    pub(super) revoked: RevokedCounts,
    /// Other keys and tables with values that are new.
    pub(super) in_force: Vec<&'static str>,
    /// Keys that apply at the next start only.
    pub(super) at_restart: Vec<&'static str>,
    /// Ports of directories that the sandbox of this process lets nobody reach.
    pub(super) ports: Vec<u16>,
}

impl ReloadChanges {
    /// Compares the settings of the start, those in force and those of the file.
    pub(super) fn between(start: &Settings, before: &Settings, file: &Settings) -> Self {
        let exports = &before.exports;
        let find = |list: &[ExportSettings], pseudo: &str| {
            list.iter().find(|export| export.pseudo == pseudo).cloned()
        };
        let mut changes = Self {
            in_force: differences(before, file, true),
            at_restart: differences(start, file, false),
            ..Self::default()
        };
        for export in &file.exports {
            match find(exports, &export.pseudo) {
                None => changes.added.push(export.pseudo.clone()),
                Some(before) => {
                    if !before.serves_as(export) {
                        changes.changed.push(export.pseudo.clone());
                    }
                    if number(&before) != number(export) {
                        changes.renumbered.push(export.pseudo.clone());
                    }
                }
            }
        }
        let gone = exports.iter().filter(|export| find(&file.exports, &export.pseudo).is_none());
        changes.removed = gone.map(|export| export.pseudo.clone()).collect();
        changes
    }

    /// Returns a line for each kind of change.
    pub(super) fn lines(&self) -> Vec<String> {
        let exports = [("added", &self.added), ("removed", &self.removed), ("changed", &self.changed)];
        let exports = exports.into_iter().filter(|(_, paths)| !paths.is_empty());
        let mut lines: Vec<_> =
            exports.map(|(change, paths)| format!("{change}: {}", paths.join(", "))).collect();
        if !self.renumbered.is_empty() {
            lines.push(format!(
                "other numbers in filehandles (fsid), so that clients have to mount again: {}",
                self.renumbered.join(", ")
            ));
        }
        let RevokedCounts { opens, delegations, incomplete, .. } = self.revoked;
        if opens + delegations > 0 || incomplete {
            let rest = if incomplete { ", and others remain until clients have freed these" } else { "" };
            lines.push(format!(
                "revoked, as their export is gone: {opens} opens, {delegations} delegations{rest}"
            ));
        }
        if !self.in_force.is_empty() {
            lines.push(format!("in force now: {}", self.in_force.join(", ")));
        }
        if !self.at_restart.is_empty() {
            lines.push(format!("changed, but in force only after a restart: {}", self.at_restart.join(", ")));
        }
        if !self.ports.is_empty() {
            let ports: Vec<_> = self.ports.iter().map(ToString::to_string).collect();
            lines.push(format!(
                "the directory at port {} can be reached only after a restart, because of the sandbox",
                ports.join(", ")
            ));
        }
        lines
    }
}

/// Returns the number of an export in filehandles.
fn number(export: &ExportSettings) -> u32 {
    export.fsid.unwrap_or_else(|| vfs::export_id(&export.pseudo))
}

/// Compares two files in a key; true if they differ.
type Differs = fn(&Settings, &Settings) -> bool;

/// Each key besides those of exports, or its table, and whether two files differ in it.
const DIFFERENCES: &[(&str, Differs)] = &[
    ("addresses", |one, other| one.addresses != other.addresses),
    ("log", |one, other| one.log != other.log),
    ("domain", |one, other| one.domain != other.domain),
    ("realms", |one, other| one.realms != other.realms),
    ("nfs40", |one, other| one.nfs40 != other.nfs40),
    ("delegations", |one, other| one.delegations != other.delegations),
    ("numeric_owners", |one, other| one.numeric_owners != other.numeric_owners),
    ("principals", |one, other| one.principals != other.principals),
    ("identity.unknown", |one, other| one.identity.unknown != other.identity.unknown),
    ("identity.groups", |one, other| one.identity.groups != other.identity.groups),
    ("identity.rules", |one, other| one.identity.rules != other.identity.rules),
    ("identity.source", |one, other| one.identity.sources != other.identity.sources),
    ("identity.refresh", |one, other| one.identity.refresh != other.identity.refresh),
    ("identity.absent", |one, other| one.identity.absent != other.identity.absent),
    ("identity.stale", |one, other| one.identity.stale != other.identity.stale),
    ("identity.timeout", |one, other| one.identity.timeout != other.identity.timeout),
    ("limits.connections_max", |one, other| one.limits.connections_max != other.limits.connections_max),
    ("limits.contexts_max", |one, other| one.limits.contexts_max != other.limits.contexts_max),
    ("limits.clients_max", |one, other| one.limits.clients_max != other.limits.clients_max),
    ("limits.slots_max", |one, other| one.limits.slots_max != other.limits.slots_max),
    ("limits.principal", |one, other| one.limits.principal != other.limits.principal),
    ("limits.client", |one, other| one.limits.client != other.limits.client),
    ("limits.rule", |one, other| one.limits.rules != other.limits.rules),
    ("listen", |one, other| one.listen != other.listen),
    ("metrics", |one, other| one.metrics != other.metrics),
    ("web", |one, other| one.web != other.web),
    ("web_certificate", |one, other| one.web_certificate != other.web_certificate),
    ("web_key", |one, other| one.web_key != other.web_key),
    ("audit", |one, other| one.audit != other.audit),
    ("audit_size_max", |one, other| one.audit_size_max != other.audit_size_max),
    ("shards", |one, other| one.shards != other.shards),
    ("keytab", |one, other| one.keytab != other.keytab),
    ("keytab_services", |one, other| one.keytab_services != other.keytab_services),
    ("keytab_hosts", |one, other| one.keytab_hosts != other.keytab_hosts),
    ("state_dir", |one, other| one.state_dir != other.state_dir),
    ("lease_time", |one, other| one.lease_time != other.lease_time),
    ("grace_time", |one, other| one.grace_time != other.grace_time),
    ("recall_time", |one, other| one.recall_time != other.recall_time),
    ("local_locks", |one, other| one.local_locks != other.local_locks),
    ("device_nodes", |one, other| one.device_nodes != other.device_nodes),
    ("sandbox", |one, other| one.sandbox != other.sandbox),
    ("limits.input_bytes_max", |one, other| one.limits.input_bytes_max != other.limits.input_bytes_max),
    ("limits.open_files_max", |one, other| one.limits.open_files_max != other.limits.open_files_max),
    ("cluster.node", |one, other| cluster(one).node != cluster(other).node),
    ("cluster.pool", |one, other| cluster(one).pool != cluster(other).pool),
    ("cluster.namespace", |one, other| cluster(one).namespace != cluster(other).namespace),
    ("cluster.object", |one, other| cluster(one).object != cluster(other).object),
    ("cluster.ceph_user", |one, other| cluster(one).ceph_user != cluster(other).ceph_user),
    ("cluster.ceph_conf", |one, other| cluster(one).ceph_conf != cluster(other).ceph_conf),
    ("cluster.ceph_keyring", |one, other| cluster(one).ceph_keyring != cluster(other).ceph_keyring),
];

/// Returns the keys in which two files differ: those that a reload applies, or the others.
fn differences(before: &Settings, file: &Settings, applied: bool) -> Vec<&'static str> {
    let differs = DIFFERENCES.iter().filter(|(_, differs)| differs(before, file));
    differs.map(|(name, _)| *name).filter(|name| reloads(name) == applied).collect()
}

/// Returns whether a reload applies a key, or each key of a table.
fn reloads(name: &str) -> bool {
    find_key(name).iter().all(|(_, key)| key.reloads)
}

/// Returns the table `[cluster]`. If only one of two files has it, its names differ.
fn cluster(settings: &Settings) -> ClusterSettings {
    settings.cluster.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Storage, all_keys};

    fn export(pseudo: &str) -> ExportSettings {
        ExportSettings::new(Storage::Memory(1 << 20), pseudo)
    }

    fn of(exports: Vec<ExportSettings>) -> Settings {
        Settings { exports, ..Settings::default() }
    }

    #[test]
    fn exports_are_told_apart_by_their_pseudo_paths() {
        let before = of(vec![export("/stays"), export("/goes"), export("/closes")]);
        let mut closed = export("/closes");
        closed.read_only = true;
        let file = of(vec![export("/comes"), closed, export("/stays")]);
        let changes = ReloadChanges::between(&Settings::default(), &before, &file);
        let one = |path: &str| vec![path.to_owned()];
        assert_eq!((changes.added, changes.removed), (one("/comes"), one("/goes")));
        assert_eq!((changes.changed, changes.at_restart), (one("/closes"), Vec::new()));
    }

    #[test]
    fn an_export_with_another_number_is_named_and_one_with_the_same_is_not() {
        let before = of(vec![export("/one"), export("/other")]);
        let numbered = |pseudo: &str, fsid: u32| {
            let mut export = export(pseudo);
            export.fsid = Some(fsid);
            export
        };
        let file = of(vec![numbered("/one", vfs::export_id("/one")), numbered("/other", 7)]);
        let changes = ReloadChanges::between(&Settings::default(), &before, &file);
        assert_eq!(changes.renumbered, ["/other"]);
        assert!(changes.lines().iter().any(|line| line.ends_with("mount again: /other")));
    }

    #[test]
    fn each_key_is_compared_and_a_row_has_keys_of_one_kind() {
        for (table, key) in all_keys().filter(|(table, _)| !table.prefix.starts_with("export")) {
            let name = table.full_name(key);
            let row = DIFFERENCES.iter().find(|(row, _)| name == *row || table.prefix == *row);
            let (row, _) = row.unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(reloads(row), key.reloads, "{name}");
        }
        let unknown = DIFFERENCES.iter().find(|(row, _)| find_key(row).is_empty());
        assert_eq!(unknown.map(|(row, _)| row), None);
    }

    #[test]
    fn keys_that_need_a_restart_are_named_until_there_is_one() {
        let start = Settings::default();
        let mut file = Settings { shards: 7, nfs40: !start.nfs40, ..Settings::default() };
        file.limits.clients_max += 1;
        file.limits.input_bytes_max += 1;
        let changes = ReloadChanges::between(&start, &start, &file);
        assert_eq!(changes.at_restart, ["shards", "limits.input_bytes_max"]);
        assert_eq!(changes.in_force, ["nfs40", "limits.clients_max"]);
        let again = ReloadChanges::between(&start, &file, &file);
        assert_eq!((again.at_restart, again.in_force), (changes.at_restart, Vec::new()));
    }
}
