//! The difference that a reload makes.

use crate::config::{ClusterSettings, ExportSettings, Settings};
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
            in_force: names(&compare_applied(before, file)),
            at_restart: names(&compare(start, file)),
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
        let RevokedCounts { opens, delegations, incomplete } = self.revoked;
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

/// Returns the names of keys that differ.
fn names(compared: &[(&'static str, bool)]) -> Vec<&'static str> {
    compared.iter().filter(|(_, differs)| *differs).map(|(key, _)| *key).collect()
}

/// Returns each key, or table of keys, that a reload applies besides those of exports, and whether
/// it differs.
fn compare_applied(before: &Settings, file: &Settings) -> [(&'static str, bool); 23] {
    let ((one, other), (old, new)) = ((&before.identity, &file.identity), (&before.limits, &file.limits));
    [
        ("addresses", before.addresses != file.addresses),
        ("log", before.log != file.log),
        ("domain", before.domain != file.domain),
        ("realms", before.realms != file.realms),
        ("nfs40", before.nfs40 != file.nfs40),
        ("delegations", before.delegations != file.delegations),
        ("numeric_owners", before.numeric_owners != file.numeric_owners),
        ("principals", before.principals != file.principals),
        ("identity.unknown", one.unknown != other.unknown),
        ("identity.groups", one.groups != other.groups),
        ("identity.rules", one.rules != other.rules),
        ("identity.source", one.sources != other.sources),
        ("identity.refresh", one.refresh != other.refresh),
        ("identity.absent", one.absent != other.absent),
        ("identity.stale", one.stale != other.stale),
        ("identity.timeout", one.timeout != other.timeout),
        ("limits.connections_max", old.connections_max != new.connections_max),
        ("limits.contexts_max", old.contexts_max != new.contexts_max),
        ("limits.clients_max", old.clients_max != new.clients_max),
        ("limits.slots_max", old.slots_max != new.slots_max),
        ("limits.principal", old.principal != new.principal),
        ("limits.client", old.client != new.client),
        ("limits.rule", old.rules != new.rules),
    ]
}

/// Returns each key that a running server cannot change, and whether it differs.
fn compare(start: &Settings, file: &Settings) -> [(&'static str, bool); 27] {
    let cluster = differs_in(start.cluster.as_ref(), file.cluster.as_ref());
    [
        ("listen", start.listen != file.listen),
        ("metrics", start.metrics != file.metrics),
        ("web", start.web != file.web),
        ("web_certificate", start.web_certificate != file.web_certificate),
        ("web_key", start.web_key != file.web_key),
        ("audit", start.audit != file.audit),
        ("audit_size_max", start.audit_size_max != file.audit_size_max),
        ("shards", start.shards != file.shards),
        ("keytab", start.keytab != file.keytab),
        ("keytab_services", start.keytab_services != file.keytab_services),
        ("keytab_hosts", start.keytab_hosts != file.keytab_hosts),
        ("state_dir", start.state_dir != file.state_dir),
        ("lease_time", start.lease_time != file.lease_time),
        ("grace_time", start.grace_time != file.grace_time),
        ("recall_time", start.recall_time != file.recall_time),
        ("local_locks", start.local_locks != file.local_locks),
        ("device_nodes", start.device_nodes != file.device_nodes),
        ("sandbox", start.sandbox != file.sandbox),
        ("limits.input_bytes_max", start.limits.input_bytes_max != file.limits.input_bytes_max),
        ("limits.open_files_max", start.limits.open_files_max != file.limits.open_files_max),
        ("cluster.node", cluster(|one, other| one.node != other.node)),
        ("cluster.pool", cluster(|one, other| one.pool != other.pool)),
        ("cluster.namespace", cluster(|one, other| one.namespace != other.namespace)),
        ("cluster.object", cluster(|one, other| one.object != other.object)),
        ("cluster.ceph_user", cluster(|one, other| one.ceph_user != other.ceph_user)),
        ("cluster.ceph_conf", cluster(|one, other| one.ceph_conf != other.ceph_conf)),
        ("cluster.ceph_keyring", cluster(|one, other| one.ceph_keyring != other.ceph_keyring)),
    ]
}

/// Returns a comparison of two tables `[cluster]`. If only one of them exists, its name differs.
fn differs_in(
    start: Option<&ClusterSettings>,
    file: Option<&ClusterSettings>,
) -> impl Fn(fn(&ClusterSettings, &ClusterSettings) -> bool) -> bool {
    let (start, file) = (start.cloned().unwrap_or_default(), file.cloned().unwrap_or_default());
    move |differ| differ(&start, &file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Storage;

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
    fn the_table_of_keys_says_which_need_a_restart() {
        let (none, any) = (Settings::default(), Settings::default());
        let mut compared: Vec<_> = compare(&none, &any).map(|(key, _)| key).into();
        let mut table: Vec<_> = crate::config::all_keys()
            .filter(|(_, key)| !key.reloads)
            .map(|(table, key)| table.full_name(key))
            .collect();
        table.sort();
        compared.sort_unstable();
        assert_eq!(table, compared);
    }

    #[test]
    fn a_reload_names_every_key_that_it_applies() {
        let compared = compare_applied(&Settings::default(), &Settings::default()).map(|(key, _)| key);
        for (table, key) in crate::config::all_keys().filter(|(_, key)| key.reloads) {
            let name = table.full_name(key);
            let is_named = compared.iter().any(|named| name == *named || table.prefix == *named);
            assert!(is_named || table.prefix.starts_with("export"), "{name}");
        }
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
